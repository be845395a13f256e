package frametest

import (
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
)

// GoldenRequest is a batch whose request frame is kept under sdk/testdata.
type GoldenRequest struct {
	Name   string
	About  string
	Stream string
	Source graphmill.SourceKind

	Messages []graphmill.Message
}

// GoldenRequests are the batches of the golden request frames.
func GoldenRequests() []GoldenRequest {
	rating := graphmill.Message{
		Topic: "ratings", Partition: 2, Offset: 1234567890123, Timestamp: 1769862615123, BrokerTime: -1,
		Payload: []byte(`{"userId":1,"movieId":"m7","rating":4.5}`), Key: []byte("1"),
	}
	return []GoldenRequest{
		{Name: "empty", About: "no message at all", Stream: "s"},
		{Name: "one", About: "one Kafka record", Stream: "ratings", Messages: []graphmill.Message{rating}},
		{
			Name: "nulls", About: "tombstone, null key, null header value, and their empty twins", Stream: "nulls",
			Messages: []graphmill.Message{
				{Topic: "t", Key: []byte("k"), BrokerTime: -1},
				{Topic: "t", Payload: []byte("p"), BrokerTime: -1},
				{Topic: "t", BrokerTime: -1},
				{Topic: "t", Payload: []byte{}, Key: []byte{}, BrokerTime: -1, Headers: []graphmill.Header{{Key: "null"}, {Key: "empty", Value: []byte{}}, {Key: "", Value: []byte("v")}}},
			},
		},
		{
			Name: "headers", About: "header order and duplicates are kept; a message without any in between", Stream: "headers",
			Messages: []graphmill.Message{
				{Topic: "t", Payload: []byte("1"), BrokerTime: 1769862615999, Headers: []graphmill.Header{
					{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "b", Value: []byte("3")}}},
				{Topic: "t", Payload: []byte("2"), BrokerTime: -1},
				{Topic: "t", Payload: []byte("3"), BrokerTime: -1, Headers: []graphmill.Header{{Key: "schlüssel", Value: []byte{0xff, 0x00}}}},
			},
		},
		{
			Name: "topics", About: "a topic stands once, however its messages are mixed", Stream: "topics",
			Messages: []graphmill.Message{
				{Topic: "a", Offset: 1, BrokerTime: -1}, {Topic: "b", Offset: 2, BrokerTime: -1},
				{Topic: "a", Offset: 3, BrokerTime: -1}, {Topic: "c", Offset: 4, BrokerTime: -1}, {Topic: "b", Offset: 5, BrokerTime: -1},
			},
		},
		{
			Name: "pulsar", About: "source message id, publish time, redeliveries, no offset, no partition", Stream: "größe", Source: graphmill.SourcePulsar,
			Messages: []graphmill.Message{{
				Topic: "persistent://public/default/orders", Partition: -1, Offset: -1, ID: "12:34:-1:5", Redeliveries: 3,
				Payload: []byte("x"), Timestamp: 1769862615123, BrokerTime: 1769862615456,
			}},
		},
		{
			Name: "extremes", About: "the ends of every integer field", Stream: "", Source: graphmill.SourceManual,
			Messages: []graphmill.Message{
				{Topic: "", Partition: 1<<31 - 1, Offset: 1<<63 - 1, Timestamp: 1<<63 - 1, BrokerTime: 1<<63 - 1, Redeliveries: 1<<32 - 1},
				{Topic: "", Partition: -1 << 31, Offset: -1 << 63, Timestamp: -1 << 63, BrokerTime: -1 << 63},
			},
		},
	}
}

// GoldenResponse is an answer whose response frame is kept under sdk/testdata.
type GoldenResponse struct {
	Name     string
	About    string
	Messages int // of the batch that it answers
	Output   graphmill.Output
}

// GoldenResponses are the answers of the golden response frames.
func GoldenResponses() []GoldenResponse {
	merge := &graphmill.Query{Text: "MERGE (u:User {id: $id})"}
	rows := &graphmill.Query{Text: "MERGE (m:Movie {id: $movie}) SET m.title = $title", Names: []string{"movie", "title"}}
	bare := &graphmill.Query{Text: "MATCH (n:Größe) RETURN count(n)"}
	all := &graphmill.Query{Text: "RETURN $values"}
	values := map[string]any{}
	for _, v := range Values() {
		values[v.Name] = v.Value
	}
	deepest := graphmill.Value(map[string]any{})
	for range frame.MaxDepth - 2 {
		deepest = []any{deepest}
	}
	return []GoldenResponse{
		{Name: "empty", About: "every message was filtered", Messages: 3},
		{
			Name: "maps", About: "one query, parameters by name", Messages: 2,
			Output: graphmill.Output{Statements: []graphmill.Statement{
				{Query: merge, Message: 0, Params: map[string]any{"id": int64(1)}},
				{Query: merge, Message: 1, Params: map[string]any{"id": "two"}},
			}},
		},
		{
			Name: "positions", About: "parameters by position", Messages: 2,
			Output: graphmill.Output{Statements: []graphmill.Statement{
				{Query: rows, Message: 0, Values: []any{int64(7), "Heat"}},
				{Query: rows, Message: 1, Values: []any{int64(8), nil}},
			}},
		},
		{
			Name: "mixed", About: "three queries in turns, no parameters, a statement of the batch as a whole, a filtered message", Messages: 3,
			Output: graphmill.Output{Statements: []graphmill.Statement{
				{Query: merge, Message: 0, Params: map[string]any{"id": int64(1)}},
				{Query: rows, Message: 0, Values: []any{int64(7), "Heat"}},
				{Query: bare, Message: 2},
				{Query: merge, Message: 2, Params: map[string]any{"id": int64(3)}},
				{Query: bare, Message: graphmill.WholeBatch},
			}},
		},
		{
			Name: "failures", About: "one message failed, one is worth trying again, one went well", Messages: 3,
			Output: graphmill.Output{
				Statements: []graphmill.Statement{{Query: bare, Message: 1}},
				Failures:   []graphmill.Failure{{Message: 0, Text: "field userId is missing: größer"}, {Message: 2, Text: "lookup timed out", Retry: true}},
			},
		},
		{
			Name: "aborted", About: "the guest stopped at message 1", Messages: 3,
			Output: graphmill.Output{Failures: []graphmill.Failure{{Message: 1, Text: "KeyError: 'id'", Aborted: true}}},
		},
		{
			Name: "batch_failed", About: "the batch as a whole failed", Messages: 3,
			Output: graphmill.Output{Failures: []graphmill.Failure{{Message: graphmill.WholeBatch, Text: "cannot connect rows", Retry: true}}},
		},
		{
			Name: "values", About: "every type of parameter value, in one map", Messages: 1,
			Output: graphmill.Output{Statements: []graphmill.Statement{{Query: all, Message: 0, Params: map[string]any{"values": values}}}},
		},
		{
			Name: "deepest", About: "as deep as lists and maps may be nested: 64", Messages: 1,
			Output: graphmill.Output{Statements: []graphmill.Statement{{Query: all, Message: 0, Params: map[string]any{"values": deepest}}}},
		},
	}
}

// BrokenResponse is a response frame that every host refuses.
type BrokenResponse struct {
	Name     string
	Messages int // of the batch that it answers
	Frame    []byte
	Field    string // that the error names
	Text     string // part of the error's text
}

// BrokenResponses are the golden frames that are refused. Each is one sound
// frame with one thing wrong.
func BrokenResponses() []BrokenResponse {
	sound := graphmill.Output{
		Statements: []graphmill.Statement{
			{Query: &graphmill.Query{Text: "RETURN $a"}, Message: 0, Params: map[string]any{"a": "text"}},
			{Query: &graphmill.Query{Text: "RETURN $b + $c", Names: []string{"b", "c"}}, Message: 1, Values: []any{int64(1), int64(2)}},
		},
		Failures: []graphmill.Failure{{Message: 2, Text: "no such thing"}},
	}
	const (
		query0     = frame.ResponseHeaderSize
		query1     = query0 + frame.QuerySize
		statement0 = query1 + frame.QuerySize
		statement1 = statement0 + frame.StatementSize
		failure0   = statement1 + frame.StatementSize
	)
	var list []BrokenResponse
	add := func(name, field, text string, f []byte) {
		list = append(list, BrokenResponse{Name: name, Messages: 3, Frame: f, Field: field, Text: text})
	}
	// patched writes one u32 into the sound frame.
	patched := func(name, field, text string, at int, v uint32) {
		f := EncodeResponse(sound)
		le.PutUint32(f[at:], v)
		add(name, field, text, f)
	}
	// at writes bytes where the part that ref points to begins.
	at := func(ref int, p string) []byte {
		f := EncodeResponse(sound)
		copy(f[le.Uint32(f[ref:]):], p)
		return f
	}
	// parameters replaces those of the first statement.
	parameters := func(p []byte) []byte {
		f := EncodeResponse(sound)
		return appendPart(f, statement0+8, p)
	}

	add("nothing", "header", "has 0 bytes", nil)
	add("short_header", "header", "has 27 bytes", EncodeResponse(sound)[:27])
	patched("magic", "header.magic", "is not", 0, frame.RequestMagic)
	patched("queries_beyond_end", "header.queries", "end outside", 8, 1<<16)
	patched("queries_too_many", "header.queries", "end outside", 4, 60_000)
	patched("queries_over_limit", "header.queries", "the limit is 65536", 4, 65_537)
	patched("statements_at_4_gib", "header.statements", "end outside", 16, 0xfffffff0)
	patched("statements_too_many", "header.statements", "end outside", 12, 1_000_000)
	patched("statements_over_limit", "header.statements", "the limit is 1000000", 12, 0xffffffff)
	patched("failures_over_messages", "header.failures", "5 failures for 3 messages", 20, 5)
	patched("query_text_beyond_end", "query[0].text", "end outside", query0, 0xffffffff)
	patched("query_text_of_4_gib", "query[0].text", "the limit is 1048576", query0+4, 0xffffffff)
	patched("query_text_empty", "query[1].text", "empty", query1+4, 0)
	add("query_text_no_utf8", "query[0].text", "UTF-8", at(query0, "RET\xff"))
	patched("names_beyond_end", "query[1].names", "end outside", query1+12, 1<<28)
	patched("statement_without_query", "statement[0].query", "there is no query 2", statement0, 2)
	patched("statement_without_message", "statement[1].message", "there is no message 3", statement1+4, 3)
	patched("statement_of_failed_message", "statement[1].message", "has a failure too", statement1+4, 2)
	patched("params_beyond_end", "statement[0].params", "end outside", statement0+8, 0xfffffffe)
	patched("params_of_4_gib", "statement[0].params", "end outside", statement0+12, 0xffffffff)
	patched("params_missing", "statement[1].params", "the query names 2", statement1+12, 0)
	patched("failure_without_message", "failure[0].message", "there is no message 9", failure0, 9)
	patched("failure_flags", "failure[0].flags", "not known", failure0+4, 4)
	patched("failure_text_beyond_end", "failure[0].text", "end outside", failure0+12, 1<<20)
	add("failure_text_no_utf8", "failure[0].text", "UTF-8", at(failure0+8, "\xc3\x28"))

	add("params_no_map", "statement[0].params", "a map must stand here", parameters(AppendValue(nil, []any{"text"})))
	add("params_trailing", "statement[0].params", "1 bytes follow", parameters([]byte{0x80, 0xc0}))
	add("params_cut", "statement[0].params", "a str of 4 bytes, 1 are left", parameters([]byte("\x81\xa1a\xa4t")))
	add("params_reserved_byte", "statement[0].params", "0xc1", parameters([]byte("\x81\xa1a\xc1")))
	add("params_key_no_str", "statement[0].params", "a map key must be a str", parameters([]byte("\x81\x01\x01")))
	add("params_no_utf8", "statement[0].params", "UTF-8", parameters([]byte("\x81\xa1a\xa2\xff\xfe")))
	add("params_map_of_4_gib", "statement[0].params", "a map of 4294967295 entries", parameters([]byte("\xdf\xff\xff\xff\xff\xa1a\xc0")))
	add("params_array_of_4_gib", "statement[0].params", "an array of 4294967295 entries", parameters([]byte("\x81\xa1a\xdd\xff\xff\xff\xff\xc0")))
	add("params_uint_over_int64", "statement[0].params", "18446744073709551615", parameters([]byte("\x81\xa1a\xcf\xff\xff\xff\xff\xff\xff\xff\xff")))
	add("params_too_deep", "statement[0].params", "more than 64 deep", parameters([]byte("\x81\xa1a"+strings.Repeat("\x91", 64)+"\xc0")))
	add("params_unknown_ext", "statement[0].params", "extension 100", parameters(AppendExt([]byte("\x81\xa1a"), 100, []byte{1})))
	add("params_date_short", "statement[0].params", "too short", parameters(AppendExt([]byte("\x81\xa1a"), frame.ExtDate, []byte{1, 2})))
	add("params_date_out_of_range", "statement[0].params", "days out of range", parameters(AppendExt([]byte("\x81\xa1a"), frame.ExtDate, u64(1<<62))))
	add("params_unknown_zone", "statement[0].params", "zone id", parameters(AppendExt([]byte("\x81\xa1a"), frame.ExtZonedDateTime, append(be.AppendUint32(u64(0), 0), "Europe/Atlantis"...))))
	add("overlap", "statement[1].params", "parts overlap", overlapping())
	return list
}

// overlapping is a frame in which two statements share the same parameters.
func overlapping() []byte {
	q := &graphmill.Query{Text: "RETURN $a"}
	f := EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{
		{Query: q, Message: 0, Params: map[string]any{"a": strings.Repeat("x", 100)}},
		{Query: q, Message: 1},
	}})
	first := frame.ResponseHeaderSize + frame.QuerySize
	copy(f[first+frame.StatementSize+8:], f[first+8:first+16])
	return f
}
