package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/graphmilltest"
)

// The kit itself runs the module in the server's host, in sdk/hosttest. Here the same
// functions run natively, so that a mistake shows without WebAssembly.

func TestTransformationsRunNatively(t *testing.T) {
	for name, c := range map[string]struct {
		transform            func(graphmill.Request) graphmill.Response
		payload              string
		statements, failures int
	}{
		"echo":       {exportEcho, "x", 1, 0},
		"positional": {exportPositional, "x", 1, 0},
		"texts":      {exportTexts, "RETURN 1", 1, 0},
		"mixed":      {exportMixed, "x", 3, 0},
		"filter":     {exportFilter, "x", 0, 0},
		"fail":       {exportFail, "fail:x", 0, 1},
		"abort":      {exportAbort, "abort:x", 0, 1},
		"batch":      {exportBatch, "x", 1, 0},
		"panic":      {exportPanic, "x", 1, 0},
		"log":        {exportLog, "info:x", 0, 0},
		"settings":   {exportSettings, "x", 1, 0},
		"big":        {exportBig, "10", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			result := graphmilltest.Run(t, c.transform, graphmilltest.Text(c.payload))
			if len(result.Statements) != c.statements || len(result.Failures) != c.failures {
				t.Errorf("got %+v", result)
			}
		})
	}
}

// TestValues gives every golden value by the method of its type, and compares with
// the golden bytes, which graphmilltest decodes through another message.
func TestValues(t *testing.T) {
	b, err := os.ReadFile("../../testdata/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Values []struct {
			Name  string
			Bytes string `json:"msgpack_hex"`
		}
	}
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	got := graphmilltest.Run(t, exportValues, graphmilltest.Text("")).Statements[0].Params
	if len(got) != len(index.Values) {
		t.Errorf("%d values are given, %d are in the index", len(got), len(index.Values))
	}
	for _, v := range index.Values {
		encoded, err := hex.DecodeString(v.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		want, err := graphmilltest.Value(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[v.Name], want) {
			t.Errorf("%s: got %#v, want %#v", v.Name, got[v.Name], want)
		}
	}
}
