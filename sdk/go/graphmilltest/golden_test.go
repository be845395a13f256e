package graphmilltest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

// The golden frames are made by the host: sdk/testdata/index.json says what is in them.
const goldenDir = "../../testdata"

type goldenIndex struct {
	Requests  []goldenRequest
	Responses []goldenResponse
	Values    []struct {
		Name  string
		Bytes string `json:"msgpack_hex"`
	}
}

type goldenRequest struct {
	File, About, Stream string
	Source              uint32
	Messages            []struct {
		Topic             string
		Partition         int32
		Offset, Timestamp int64
		BrokerTime        int64 `json:"broker_time"`
		ID                string
		Redeliveries      uint32
		Payload           []byte `json:"payload_base64"`
		Key               []byte `json:"key_base64"`
		Headers           []struct {
			Key   string
			Value []byte `json:"value_base64"`
		}
	}
}

type goldenResponse struct {
	File, About string
	Messages    int
	Statements  []struct {
		Query   string
		Message int
	}
	Failures []Failure
}

func readGolden(t *testing.T) (index goldenIndex) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	return index
}

func readFrame(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDir, file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// messages returns the messages that the index tells.
func (g *goldenRequest) messages() (list []Message) {
	for _, m := range g.Messages {
		message := Message{
			Payload: m.Payload, Key: m.Key, Topic: m.Topic, Partition: m.Partition, Offset: m.Offset,
			Timestamp: m.Timestamp, BrokerTime: m.BrokerTime, ID: m.ID, Redeliveries: m.Redeliveries,
		}
		for _, h := range m.Headers {
			message.Headers = append(message.Headers, Header(h))
		}
		list = append(list, message)
	}
	return list
}

func TestRequestsAreThoseOfTheHost(t *testing.T) {
	index := readGolden(t)
	if len(index.Requests) == 0 {
		t.Fatal("there are no golden requests")
	}
	for _, g := range index.Requests {
		t.Run(g.File, func(t *testing.T) {
			got := encode(g.Stream, graphmill.Source(g.Source), g.messages())
			if want := readFrame(t, g.File); !bytes.Equal(got, want) {
				t.Errorf("%s:\ngot  %x\nwant %x", g.About, got, want)
			}
		})
	}
}

// read is what a handler sees of a message.
type read struct {
	Message
	Index  int
	Stream string
	Source uint32
	Forms  [2]graphmill.Form
}

func TestMessagesAreReadAsTheHostWroteThem(t *testing.T) {
	for _, g := range readGolden(t).Requests {
		t.Run(g.File, func(t *testing.T) {
			var got []read
			frame := readFrame(t, g.File)
			graphmill.PerMessage(graphmill.Request(frame), func(m graphmill.Message, _ graphmill.Output) error {
				if cursor := le.Uint32(frame[4:]); int(cursor) != m.Index() {
					t.Errorf("the cursor is %d at message %d", cursor, m.Index())
				}
				got = append(got, readMessage(m))
				return nil
			})
			var want []read
			for i, m := range g.messages() {
				want = append(want, read{Message: m, Index: i, Stream: g.Stream, Source: g.Source})
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", g.About, got, want)
			}
		})
	}
}

func readMessage(m graphmill.Message) read {
	r := read{Index: m.Index(), Stream: m.Stream(), Source: uint32(m.Source()), Forms: [2]graphmill.Form{m.PayloadForm(), m.KeyForm()}}
	r.Message = Message{
		Payload: bytes.Clone(m.Payload()), Key: bytes.Clone(m.Key()), Topic: m.Topic(), Partition: m.Partition(),
		Offset: m.Offset(), Timestamp: m.Timestamp(), BrokerTime: m.BrokerTime(), ID: m.ID(), Redeliveries: m.Redeliveries(),
	}
	for key, value := range m.Headers() {
		r.Headers = append(r.Headers, Header{key, bytes.Clone(value)})
	}
	return r
}

func TestResponsesOfTheHostAreDecoded(t *testing.T) {
	index := readGolden(t)
	if len(index.Responses) == 0 {
		t.Fatal("there are no golden responses")
	}
	for _, g := range index.Responses {
		t.Run(g.File, func(t *testing.T) {
			got, err := decode(readFrame(t, g.File), g.Messages)
			if err != nil {
				t.Fatalf("%s: %v", g.About, err)
			}
			if len(got.Statements) != len(g.Statements) {
				t.Fatalf("%s: %d statements, want %d", g.About, len(got.Statements), len(g.Statements))
			}
			for i, want := range g.Statements {
				if s := got.Statements[i]; s.Query != want.Query || s.Message != want.Message {
					t.Errorf("%s: statement %d is %+v, want %+v", g.About, i, s, want)
				}
			}
			if len(got.Failures)+len(g.Failures) > 0 && !reflect.DeepEqual(got.Failures, g.Failures) {
				t.Errorf("%s: got %+v, want %+v", g.About, got.Failures, g.Failures)
			}
		})
	}
}

func TestBrokenResponsesAreRefused(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "broken_*.bin"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no broken frames", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		switch {
		case strings.Contains(name, "over_limit"), strings.Contains(name, "too_many"):
			continue // right but for a limit of the host
		case strings.Contains(name, "unknown_zone"), strings.Contains(name, "out_of_range"), strings.Contains(name, "overlap"):
			continue // what the SDK refuses itself, or never makes
		}
		t.Run(name, func(t *testing.T) {
			if got, err := decode(readFrame(t, name), 2); err == nil {
				t.Errorf("it was taken: %+v", got)
			}
		})
	}
}

// TestValuesThroughAny reads each golden value and gives it to a statement again.
func TestValuesThroughAny(t *testing.T) {
	values := readGolden(t).Values
	if len(values) == 0 {
		t.Fatal("there are no golden values")
	}
	for _, g := range values {
		t.Run(g.Name, func(t *testing.T) {
			encoded, err := hex.DecodeString(g.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Value(encoded)
			if err != nil {
				t.Fatal(err)
			}
			result := Run(t, func(b graphmill.Request) graphmill.Response {
				return graphmill.PerMessage(b, func(_ graphmill.Message, out graphmill.Output) error {
					out.Add("RETURN $v", map[string]any{"v": want})
					return nil
				})
			}, Text(""))
			if len(result.Failures) > 0 {
				t.Fatal(result.Failures)
			}
			if got := result.Statements[0].Params["v"]; !reflect.DeepEqual(got, want) {
				t.Errorf("got %#v, want %#v", got, want)
			}
		})
	}
}
