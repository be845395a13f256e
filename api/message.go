package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
)

// Message is a message in JSON, as a transformation is tried on it and as a
// check shows it. Payload and key are text, or base64 where they are no UTF-8;
// with neither they are null, which is not the same as empty. What Graphmill
// writes always has payload and key, if need be as null.
type Message struct {
	Payload       *string  `json:"payload" required:"false" doc:"The payload as text; null for a tombstone, or where payload_base64 has it."`
	PayloadBase64 *string  `json:"payload_base64,omitempty" doc:"The payload in base64, where it is no UTF-8 text."`
	Key           *string  `json:"key" required:"false" doc:"The key as text; null for none, or where key_base64 has it."`
	KeyBase64     *string  `json:"key_base64,omitempty" doc:"The key in base64, where it is no UTF-8 text."`
	Topic         string   `json:"topic" required:"false" doc:"The topic."`
	Partition     int32    `json:"partition" required:"false" minimum:"-1" doc:"The partition; -1 for none."`
	Offset        *int64   `json:"offset,omitempty" minimum:"-1" doc:"The offset; -1 for Pulsar. Given by hand and left out: the place in the list, from 0, or -1 where there is an id."`
	Timestamp     int64    `json:"timestamp" required:"false" doc:"Milliseconds since 1970-01-01T00:00:00Z."`
	Headers       []Header `json:"headers,omitempty" doc:"Headers in order, each [key, value]; of Pulsar the properties."`

	ID        string              `json:"id,omitempty" doc:"Pulsar: the id as transformations have it, LEDGER:ENTRY:PARTITION:INDEX."`
	MessageID graphmill.MessageID `json:"message_id,omitzero" doc:"Pulsar: where it stands, LEDGER:ENTRY:INDEX, the form of positions."`
}

// Header is one header of a message: in JSON the pair [key, value], where the
// value is text, null, or {"base64": "..."} for bytes that are no UTF-8.
type Header graphmill.Header

// MarshalJSON writes the pair.
func (h Header) MarshalJSON() ([]byte, error) {
	var value any
	switch {
	case h.Value == nil:
	case utf8.Valid(h.Value):
		value = string(h.Value)
	default:
		value = map[string][]byte{"base64": h.Value}
	}
	return json.Marshal([2]any{h.Key, value})
}

// UnmarshalJSON reads the pair.
func (h *Header) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("headers: %.60q is not a pair [key, value]", data)
	}
	var key string
	if err := json.Unmarshal(pair[0], &key); err != nil {
		return fmt.Errorf("headers: the key %.60q is not a string", pair[0])
	}
	var text *string
	var binary map[string][]byte
	switch {
	case json.Unmarshal(pair[1], &text) == nil:
		*h = Header{Key: key}
		if text != nil {
			h.Value = []byte(*text)
		}
	case json.Unmarshal(pair[1], &binary) == nil && len(binary) == 1 && binary["base64"] != nil:
		*h = Header{Key: key, Value: binary["base64"]}
	default:
		return fmt.Errorf(`headers: the value %.60q is neither a string, null nor {"base64": "..."}`, pair[1])
	}
	return nil
}

// Schema describes the pair for OpenAPI.
func (Header) Schema(huma.Registry) *huma.Schema {
	two := 2
	return &huma.Schema{
		Type:        huma.TypeArray,
		Items:       &huma.Schema{},
		MinItems:    &two,
		MaxItems:    &two,
		Description: `A pair [key, value]; the value is a string, null, or {"base64": "..."}.`,
	}
}

// NewMessage returns the JSON form of m.
func NewMessage(m *graphmill.Message) Message {
	out := Message{Topic: m.Topic, Partition: m.Partition, Offset: &m.Offset, Timestamp: m.Timestamp, ID: m.ID, MessageID: m.MessageID}
	out.Payload, out.PayloadBase64 = textOrBase64(m.Payload)
	out.Key, out.KeyBase64 = textOrBase64(m.Key)
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, Header(h))
	}
	return out
}

func textOrBase64(b []byte) (text, encoded *string) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}

// Message returns what the JSON means, at place i of a list. The error is of
// KindInvalid and names the field.
func (m *Message) Message(i int) (graphmill.Message, error) {
	out := graphmill.Message{
		Topic: m.Topic, Partition: m.Partition, Offset: int64(i), Timestamp: m.Timestamp, BrokerTime: -1,
		ID: m.ID, MessageID: m.MessageID,
	}
	switch {
	case m.Offset != nil:
		out.Offset = *m.Offset
	case m.ID != "":
		out.Offset = -1
	}
	var err error
	if out.Payload, err = fromTextOrBase64("payload", m.Payload, m.PayloadBase64); err != nil {
		return graphmill.Message{}, err
	}
	if out.Key, err = fromTextOrBase64("key", m.Key, m.KeyBase64); err != nil {
		return graphmill.Message{}, err
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, graphmill.Header(h))
	}
	return out, nil
}

func fromTextOrBase64(field string, text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, graphmill.Invalid(field+"_base64", "%s is given too; only one of the two can be right", field)
	case text != nil:
		return []byte(*text), nil
	case encoded == nil:
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(*encoded)
	if err != nil {
		return nil, graphmill.Invalid(field+"_base64", "this is no base64: %s", err)
	}
	if b == nil {
		b = []byte{} // empty, not null
	}
	return b, nil
}

// MessageRef names the message that a statement or a failure came from.
type MessageRef struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`

	MessageID graphmill.MessageID `json:"message_id,omitzero"`
}

// Statement is one (query, parameters) pair of a transformation.
type Statement struct {
	Query      string          `json:"query" doc:"The query text."`
	Parameters json.RawMessage `json:"parameters" doc:"The parameters: an object. Values that JSON has not (dates, points, bytes) are in the typed form of Neo4j's Query API, such as {\"$type\": \"Date\", \"_value\": \"2026-01-31\"}."`
	Message    *MessageRef     `json:"message,omitempty" doc:"The message that it came from; left out: the batch as a whole."`
}

// Failure is a transformation's report of a message that it could not handle.
type Failure struct {
	Message *MessageRef `json:"message,omitempty" doc:"The message; left out: the batch as a whole."`
	Text    string      `json:"text" doc:"What the transformation says."`
	Retry   bool        `json:"retry,omitempty" doc:"Worth trying again."`
	Aborted bool        `json:"aborted,omitempty" doc:"The transformation stopped at this message; nothing of its answer counts."`
}

// NewStatements returns the JSON form of what a transformation made of
// messages.
func NewStatements(messages []graphmill.Message, out graphmill.Output) ([]Statement, []Failure, error) {
	statements := make([]Statement, 0, len(out.Statements))
	for i := range out.Statements {
		st := &out.Statements[i]
		params, err := graphmill.MarshalValue(st.Parameters())
		if err != nil {
			return nil, nil, fmt.Errorf("encode the parameters of statement %d: %w", i, err)
		}
		statements = append(statements, Statement{
			Query: st.Query.Text, Parameters: params, Message: refOf(messages, st.Message),
		})
	}
	failures := make([]Failure, 0, len(out.Failures))
	for _, f := range out.Failures {
		failures = append(failures, Failure{
			Message: refOf(messages, f.Message), Text: f.Text, Retry: f.Retry, Aborted: f.Aborted,
		})
	}
	return statements, failures, nil
}

func refOf(messages []graphmill.Message, i int) *MessageRef {
	if i < 0 || i >= len(messages) {
		return nil
	}
	m := &messages[i]
	return &MessageRef{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, MessageID: m.MessageID}
}
