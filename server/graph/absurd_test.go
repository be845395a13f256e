package graph_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
)

// Messages of Bolt, packed.
const (
	success = "\xb1\x70"
	record  = "\xb1\x71"
	failed  = "\xb1\x7f"
	ignored = "\xb0\x7e"
)

// packed is a short string as PackStream has it.
func packed(s string) string { return string([]byte{0x80 + byte(len(s))}) + s }

// dict is a small map of packed keys and values.
func dict(pairs ...string) string {
	var b strings.Builder
	b.WriteByte(0xa0 + byte(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(packed(pairs[i]) + pairs[i+1])
	}
	return b.String()
}

// absurd is what no database says: messages in place of an answer.
var absurd = map[string][]string{
	"a failure without anything":         {failed + "\xa0"},
	"a failure that is no map":           {failed + "\x01"},
	"a failure without fields":           {"\xb0\x7f"},
	"a failure whose code is a number":   {failed + dict("code", "\x07", "message", "\x08")},
	"a failure whose code is empty":      {failed + dict("code", packed(""), "message", packed(""))},
	"a failure with half a code":         {failed + dict("code", packed("Neo."), "message", packed("no"))},
	"a failure of dots":                  {failed + dict("code", packed("..."), "message", packed("no"))},
	"a failure that is not UTF-8":        {failed + dict("code", packed("\xff\xfe"), "message", packed("\xff"))},
	"a failure with a null":              {failed + dict("code", "\xc0", "message", "\xc0")},
	"a failure and records":              {failed + dict("code", packed("a.b.c.d"), "message", packed("no")), record + "\x91\x01", success + "\xa0"},
	"two failures":                       {failed + dict("code", packed("a.b.c.d")), failed + dict("code", packed("a.b.c.d"))},
	"a success that is no map":           {success + "\x01"},
	"a success without fields":           {"\xb0\x70"},
	"a success of odd types":             {success + dict("fields", "\x01", "qid", packed("x"), "has_more", "\x05", "bookmark", "\x07", "t_first", packed("y"), "db", "\x01")},
	"fields that are numbers":            {success + dict("fields", "\x92\x01\xc0")},
	"a type that is a number":            {success + dict("type", "\x01", "stats", packed("x"))},
	"statistics of odd types":            {success + dict("type", packed("w"), "stats", dict("nodes-created", packed("x"), "contains-updates", "\x01"))},
	"a plan of odd types":                {success + dict("plan", dict("children", "\x91\x01", "args", "\x01", "identifiers", "\x91\x01", "operatorType", "\x01"))},
	"a plan that is a number":            {success + dict("plan", "\x01", "profile", "\x01", "notifications", "\x01", "statuses", "\x01")},
	"a profile of odd types":             {success + dict("profile", dict("children", "\x91"+dict("time", packed("x"), "pageCacheHits", packed("x"), "args", "\xa0"), "operatorType", packed("x"), "dbHits", packed("x"), "rows", packed("y")))},
	"notifications of odd types":         {success + dict("notifications", "\x92\x01"+dict("position", "\x01", "code", "\x02"), "statuses", "\x92\x01"+dict("gql_status", "\x01"))},
	"a record before any success":        {record + "\x91\x01", success + "\xa0"},
	"a record that is a map":             {record + "\xa0", success + "\xa0"},
	"a record of more than is announced": {success + dict("fields", "\x91"+packed("x")), record + "\x93\x01\x02\x03"},
	"a node of one field":                {record + "\x91\xb1\x4e\x01", success + "\xa0"},
	"a node of odd types":                {record + "\x91\xb4\x4e" + packed("x") + "\x01\x01\x01", success + "\xa0"},
	"a date that is a string":            {record + "\x91\xb1\x44" + packed("x"), success + "\xa0"},
	"a zone that is none":                {record + "\x91\xb3\x69\x01\x01" + packed("Nowhere/No"), success + "\xa0"},
	"a structure that nobody knows":      {record + "\x91\xb1\x01\x01", success + "\xa0"},
	"lists in lists":                     {record + strings.Repeat("\x91", 100_000) + "\x01", success + "\xa0"},
	"a key that is a number":             {success + "\xa1\x01\x01"},
	"a marker that there is not":         {success + "\xdf"},
	"half a message":                     {success + "\xa2\x84"},
	"more than a message":                {success + "\xa0\x01\x02\x03"},
	"a message that there is not":        {"\xb0\x42"},
	"a request in place of an answer":    {"\xb1\x11\xa0"},
	"no structure at all":                {"\x01"},
	"it ignores what was asked for":      {ignored},
	"it ignores, and goes on":            {ignored, ignored, success + "\xa0"},
	"more answers than questions":        {success + "\xa0", success + "\xa0", success + "\xa0", success + "\xa0"},
}

func raw(messages []string) [][]byte {
	var list [][]byte
	for _, m := range messages {
		list = append(list, []byte(m))
	}
	return list
}

// TestWhateverTheDatabaseAnswers looks for panics, calls that do not come back, and
// successes that were none. What it is called is not so important.
func TestWhateverTheDatabaseAnswers(t *testing.T) {
	for at, hooks := range map[string]func(boltserver.Reply) boltserver.Hooks{
		"BEGIN": func(r boltserver.Reply) boltserver.Hooks {
			return boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply { return r }}
		},
		"RUN": func(r boltserver.Reply) boltserver.Hooks {
			return boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply { return r }}
		},
		"PULL": func(r boltserver.Reply) boltserver.Hooks {
			return boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply { return boltserver.Reply{RawPull: r.Raw} }}
		},
		"COMMIT": func(r boltserver.Reply) boltserver.Hooks {
			return boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply { return r }}
		},
	} {
		for name, messages := range absurd {
			t.Run(at+", "+name, func(t *testing.T) {
				s := start(t, hooks(boltserver.Reply{Raw: raw(messages)}))
				sink := open(t, s, func(c *graph.Config) { c.ConnectTimeout = 500 * time.Millisecond })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for _, call := range []func() error{
					func() error { _, err := sink.Execute(ctx, work(rated(3)...)); return err },
					func() error { _, err := sink.Execute(ctx, work(plainly("CREATE (:A)", 0))); return err },
					func() error { return sink.Verify(ctx, "") },
					func() error { _, err := sink.Diagnose(ctx, ""); return err },
				} {
					err := call()
					f, ok := err.(*graphmill.Fault)
					require.True(t, ok || err == nil, "%T: %v", err, err)
					require.NoError(t, ctx.Err(), "it hangs: %v", err)
					if ok {
						require.NotEmpty(t, f.Text)
						require.Equal(t, strings.ToValidUTF8(f.Text, ""), f.Text)
					}
				}

				// Once it talks sense again all is well.
				s.SetHooks(boltserver.Hooks{})
				eventually(t, func() bool { _, err := sink.Execute(t.Context(), work(rated(3)...)); return err == nil })
			})
		}
	}
}
