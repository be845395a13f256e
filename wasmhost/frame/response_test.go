package frame_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
)

// refused decodes a frame that must be refused.
func refused(t *testing.T, f []byte, messages int, l frame.Limits) *frame.Error {
	t.Helper()
	_, err := frame.NewDecoder(l).Decode(string(f), messages)
	var fe *frame.Error
	require.ErrorAs(t, err, &fe)
	return fe
}

func TestEveryCutOfAFrameIsRefused(t *testing.T) {
	for _, g := range frametest.GoldenResponses() {
		f := frametest.EncodeResponse(g.Output)
		if len(f) > 5000 {
			continue
		}
		for n := range len(f) {
			refused(t, f[:n], g.Messages, limits)
		}
	}
}

// TestEveryByteOfAFrameMayBeAnything changes each byte in turn: whatever comes,
// it is an error of the decoder's own or an answer within its limits.
func TestEveryByteOfAFrameMayBeAnything(t *testing.T) {
	d := frame.NewDecoder(limits)
	for _, g := range frametest.GoldenResponses() {
		f := frametest.EncodeResponse(g.Output)
		for at := range min(len(f), 2000) {
			for _, c := range []byte{0, 1, 0x7f, 0x80, 0xc1, 0xdf, 0xff} {
				old := f[at]
				f[at] = c
				out, err := d.Decode(string(f), g.Messages)
				if err == nil {
					requireSound(t, out, g.Messages)
				} else {
					require.IsType(t, (*frame.Error)(nil), err)
				}
				f[at] = old
			}
		}
	}
}

// requireSound checks what the engine relies on in every answer.
func requireSound(t *testing.T, out graphmill.Output, messages int) {
	t.Helper()
	within := func(message int) bool { return message >= graphmill.WholeBatch && message < messages }
	failed := map[int]bool{}
	for _, f := range out.Failures {
		require.True(t, within(f.Message))
		require.False(t, failed[f.Message])
		failed[f.Message] = true
	}
	for i := range out.Statements {
		s := &out.Statements[i]
		require.True(t, within(s.Message))
		require.False(t, failed[s.Message])
		require.NotEmpty(t, s.Query.Text)
		if s.Query.Names != nil {
			require.Len(t, s.Values, len(s.Query.Names))
			require.Nil(t, s.Params)
		} else {
			require.Nil(t, s.Values)
		}
		_, err := graphmill.MarshalValue(s.Parameters())
		require.NoError(t, err)
	}
}

func TestLimitsOfAResponse(t *testing.T) {
	q := &graphmill.Query{Text: "RETURN 1"}
	other := &graphmill.Query{Text: "RETURN 2"}
	f := frametest.EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{{Query: q}, {Query: other}}})
	for name, c := range map[string]struct {
		change func(*frame.Limits)
		field  string
	}{
		"statements":       {func(l *frame.Limits) { l.Statements = 1 }, "header.statements"},
		"query texts":      {func(l *frame.Limits) { l.QueryTexts = 1 }, "header.queries"},
		"query text bytes": {func(l *frame.Limits) { l.QueryTextBytes = 7 }, "query[0].text"},
		"decoded":          {func(l *frame.Limits) { l.Decoded = 100 }, "header.statements"},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits
			c.change(&l)
			e := refused(t, f, 1, l)
			require.True(t, e.OverLimit)
			require.Equal(t, c.field, e.Field)
		})
	}
	exact := frame.Limits{Statements: 2, QueryTexts: 2, QueryTextBytes: 8, Decoded: 1000}
	_, err := frame.NewDecoder(exact).Decode(string(f), 1)
	require.NoError(t, err)
}

// TestSmallFramesThatStandForMuch is about frames that take far more of the
// host's memory than they have bytes.
func TestSmallFramesThatStandForMuch(t *testing.T) {
	const n = 8 << 20
	wrap := func(params string) []byte {
		q := &graphmill.Query{Text: "RETURN $a"}
		f := frametest.EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{{Query: q}}})
		at := len(f)
		statement := frame.ResponseHeaderSize + frame.QuerySize
		binary.LittleEndian.PutUint32(f[statement+8:], uint32(at))
		binary.LittleEndian.PutUint32(f[statement+12:], uint32(len(params)))
		return append(f, params...)
	}
	array := func(n int) string {
		return string(binary.BigEndian.AppendUint32([]byte("\x81\xa1a\xdd"), uint32(n)))
	}
	for name, params := range map[string]string{
		"empty maps":                           array(n) + strings.Repeat("\x80", n),
		"small maps":                           array(n/3) + strings.Repeat("\x81\xa0\xc0", n/3),
		"empty arrays":                         array(n) + strings.Repeat("\x90", n),
		"nulls":                                array(n) + strings.Repeat("\xc0", n),
		"integers":                             array(n/2) + strings.Repeat("\xd0\x80", n/2),
		"strings":                              array(n) + strings.Repeat("\xa0", n),
		"lists that begin more than they hold": array(n/16) + strings.Repeat(array(n / 16)[3:], 60) + strings.Repeat("\xc0", n/16),
	} {
		t.Run(name, func(t *testing.T) {
			const most = 64 << 20
			l := limits
			l.Decoded = most
			f := string(wrap(params))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := frame.NewDecoder(l).Decode(f, 1)
			runtime.ReadMemStats(&after)
			var fe *frame.Error
			require.ErrorAs(t, err, &fe)
			require.True(t, fe.OverLimit)
			require.Equal(t, "statement[0].params", fe.Field)
			allocated := after.TotalAlloc - before.TotalAlloc
			require.Less(t, allocated, uint64(3*most), "the reckoning follows what is really taken")
		})
	}
}

func TestVoidAnswers(t *testing.T) {
	statements := []graphmill.Statement{{Query: &graphmill.Query{Text: "RETURN 1"}, Message: 1}}
	for name, failures := range map[string][]graphmill.Failure{
		"aborted":               {{Message: 1, Text: "stopped", Aborted: true}},
		"aborted as a whole":    {{Message: graphmill.WholeBatch, Text: "stopped", Aborted: true, Retry: true}},
		"the batch failed":      {{Message: graphmill.WholeBatch, Text: "no"}},
		"one of them is enough": {{Message: 0, Text: "no"}, {Message: graphmill.WholeBatch, Text: "no"}},
	} {
		f := frametest.EncodeResponse(graphmill.Output{Statements: statements, Failures: failures})
		out, err := frame.NewDecoder(limits).Decode(string(f), 2)
		require.NoError(t, err, name)
		require.Equal(t, graphmill.Output{Failures: failures}, out, name)
	}
}

func TestFailures(t *testing.T) {
	twice := frametest.EncodeResponse(graphmill.Output{Failures: []graphmill.Failure{{Message: 1, Text: "a"}, {Message: 1, Text: "b"}}})
	e := refused(t, twice, 3, limits)
	require.Equal(t, "failure[1].message: message 1 has failed once already", e.Error())

	long := strings.Repeat("ü", 3000)
	f := frametest.EncodeResponse(graphmill.Output{Failures: []graphmill.Failure{{Message: 0, Text: long}}})
	out, err := frame.NewDecoder(limits).Decode(string(f), 1)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ü", 2048)+" ... (cut, 6000 bytes)", out.Failures[0].Text)
}

func TestNames(t *testing.T) {
	q := &graphmill.Query{Text: "RETURN $a", Names: []string{"a", "a"}}
	f := frametest.EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{{Query: q, Values: []any{nil, nil}}}})
	require.Equal(t, `query[0].names[1]: the name "a" stands there twice`, refused(t, f, 1, limits).Error())

	q.Names = []string{"a", "b"}
	f = frametest.EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{{Query: q, Values: []any{nil}}}})
	require.Contains(t, refused(t, f, 1, limits).Error(), "an array of 1 values, the query names 2")
}

// TestTextsAreKeptOnce looks at where strings live: texts and names in one copy
// over many responses, values in the response.
func TestTextsAreKeptOnce(t *testing.T) {
	d := frame.NewDecoder(limits)
	decode := func(response string) graphmill.Statement {
		out, err := d.Decode(response, 1)
		require.NoError(t, err)
		return out.Statements[0]
	}
	f := frametest.EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{
		{Query: &graphmill.Query{Text: "RETURN $key"}, Params: map[string]any{"key": "value"}},
	}})
	first, second := string(f), string(f)
	a, b := decode(first), decode(second)
	require.Same(t, unsafe.StringData(a.Query.Text), unsafe.StringData(b.Query.Text))
	require.False(t, sharesMemory(first, a.Query.Text))
	for k, v := range a.Params {
		require.False(t, sharesMemory(first, k))
		require.True(t, sharesMemory(first, v.(string)))
	}
}

func sharesMemory(whole, part string) bool {
	start := uintptr(unsafe.Pointer(unsafe.StringData(whole)))
	at := uintptr(unsafe.Pointer(unsafe.StringData(part)))
	return at >= start && at < start+uintptr(len(whole))
}

// TestManyTextsAreForgotten has every response bring new texts and names.
func TestManyTextsAreForgotten(t *testing.T) {
	d := frame.NewDecoder(limits)
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for i := range 300 {
		var out graphmill.Output
		for k := range 100 {
			key := fmt.Sprintf("%d.%d.%s", i, k, strings.Repeat("x", 1000))
			out.Statements = append(out.Statements, graphmill.Statement{Query: &graphmill.Query{Text: key}, Params: map[string]any{key: nil}})
		}
		_, err := d.Decode(string(frametest.EncodeResponse(out)), 1) // 60 MB in all
		require.NoError(t, err)
	}
	require.Less(t, heap(), before+8<<20)
	runtime.KeepAlive(d)
}
