package graphmill

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestSettingsAreReadAsTheHostWritesThem(t *testing.T) {
	b, err := os.ReadFile("../testdata/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Settings []struct {
			Bytes    string `json:"msgpack_hex"`
			Settings map[string]string
		}
	}
	if err := json.Unmarshal(b, &index); err != nil || len(index.Settings) == 0 {
		t.Fatal("there are no golden settings", err)
	}
	for _, g := range index.Settings {
		encoded, err := hex.DecodeString(g.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readSettings(string(encoded))
		if err != nil || !reflect.DeepEqual(map[string]string(got), g.Settings) {
			t.Errorf("got %v and %v, want %v", got, err, g.Settings)
		}
		for cut := range encoded {
			if s, err := readSettings(string(encoded[:cut])); err == nil {
				t.Errorf("%x was taken for %v", encoded[:cut], s)
			}
		}
	}
}

func TestSettingsInOtherForms(t *testing.T) {
	long := strings.Repeat("v", 300)
	for situation, encoded := range map[string]string{
		"a map of 16 bits":    "\xde\x00\x01\xa1k\xda\x01\x2c" + long,
		"a map of 32 bits":    "\xdf\x00\x00\x00\x01\xd9\x01k\xdb\x00\x00\x01\x2c" + long,
		"a string of 8 bits":  "\x81\xd9\x01k\xda\x01\x2c" + long,
		"a string of 32 bits": "\x81\xdb\x00\x00\x00\x01k\xda\x01\x2c" + long,
	} {
		if got, err := readSettings(encoded); err != nil || got["k"] != long {
			t.Errorf("%s: %v, %v", situation, got, err)
		}
	}
	for situation, encoded := range map[string]string{
		"a list": "\x90", "a key that is no string": "\x81\x01\xa0", "a value that is no string": "\x81\xa0\x01",
		"more behind it": "\x80\x80", "a length beyond the end": "\xdf\xff\xff\xff\xff",
	} {
		if got, err := readSettings(encoded); err == nil {
			t.Errorf("%s: %v", situation, got)
		}
	}
}

func TestConfigure(t *testing.T) {
	before := takeSettings
	t.Cleanup(func() { takeSettings = before })

	if err := applySettings("\x80"); err != nil {
		t.Errorf("no settings for a module that has none: %v", err)
	}
	if err := applySettings("\x81\xa1k\xa1v"); err == nil || !strings.Contains(err.Error(), `has no settings, "k" was given`) {
		t.Errorf("a setting for a module that has none: %v", err)
	}
	if err := applySettings("\xc0"); err == nil {
		t.Error("no map was taken")
	}
	refuse := errors.New("refused")
	var got Settings
	Configure(func(s Settings) error { got = s; return refuse })
	if err := applySettings("\x81\xa1k\xa1v"); err != refuse || got["k"] != "v" {
		t.Errorf("got %v and %v", got, err)
	}
}

func TestSettings(t *testing.T) {
	s := Settings{"n": "12", "yes": "true", "no": "false", "word": "b", "bad": "x"}
	for situation, err := range map[string]error{
		"known only":  s.Only("n", "yes", "no", "word", "bad", "other"),
		"unknown one": s.Only("n", "yes", "no", "word", "other"),
		"bad integer": second(s.Int("bad", 1)),
		"bad boolean": second(s.Bool("bad", true)),
		"bad choice":  second(s.Choice("bad", "a", "b")),
	} {
		want := map[string]string{
			"unknown one": `unknown setting "bad"; there are: n, yes, no, word, other`,
			"bad integer": `setting bad: "x" is not an integer`,
			"bad boolean": `setting bad: "x" is neither true nor false`,
			"bad choice":  `setting bad: "x" is not one of: a, b`,
		}[situation]
		if got := text(err); got != want {
			t.Errorf("%s: %q, want %q", situation, got, want)
		}
	}
	n, _ := s.Int("n", 1)
	absent, _ := s.Int("absent", 1)
	yes, _ := s.Bool("yes", false)
	no, _ := s.Bool("no", true)
	otherwise, _ := s.Bool("absent", true)
	word, _ := s.Choice("word", "a", "b")
	first, _ := s.Choice("absent", "a", "b")
	got := []any{n, absent, yes, no, otherwise, word, first}
	if want := []any{int64(12), int64(1), true, false, true, "b", "a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func second[T any](_ T, err error) error { return err }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
