package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestReadQuery(t *testing.T) {
	for _, c := range []struct {
		situation, text string
		want            queryText // text: the same where it is empty
	}{
		{"one field", "MERGE (u:User {id: $event.userId})", queryText{"", []string{"event"}, []string{"userId"}}},
		{"fields and other parameters", "MERGE (u {id: $event.id}) SET u.name = $event.name, u.at = $timestamp, u.id2 = $event.id", queryText{"", []string{"event", "timestamp"}, []string{"id", "name"}}},
		{"no parameter", "CREATE (:Tick)", queryText{"", nil, nil}},
		{"the whole event", "CREATE (n) SET n = $event", queryText{"", []string{"event"}, nil}},
		{"a field and the whole", "CREATE (n {id: $event.id}) SET n += $event", queryText{"", []string{"event"}, nil}},
		{"an event as an argument", "UNWIND keys($event) AS k RETURN k, $event.a", queryText{"", []string{"event"}, nil}},
		{"an index", "RETURN $event['a'], $event.b", queryText{"", []string{"event"}, nil}},
		{"a range", "RETURN [1,2,3][$event..2]", queryText{"", []string{"event"}, nil}},
		{"a number behind a point", "RETURN $event.5", queryText{"", []string{"event"}, nil}},
		{"fields of fields", "RETURN $event.user.id, $event.user.name", queryText{"", []string{"event"}, []string{"user"}}},
		{"white space and comments in between", "RETURN $ event /* . */ . // x\n id", queryText{"", []string{"event"}, []string{"id"}}},
		{"names in backticks", "RETURN $`event`.`a field`, $`event`.`back``tick`", queryText{"", []string{"event"}, []string{"a field", "back`tick"}}},
		{"an empty name in backticks", "RETURN $event.``", queryText{"", []string{"event"}, nil}},
		{"names beyond ASCII", "RETURN $event.größe, $event.名前", queryText{"", []string{"event"}, []string{"größe", "名前"}}},
		{"in strings", `RETURN '$a \' $b', "$c \" $d \\", $key`, queryText{"", []string{"key"}, nil}},
		{"in comments", "RETURN 1 // $a\n /* $b ; ' */ + $key", queryText{"", []string{"key"}, nil}},
		{"in a quoted name", "MATCH (n:`$a ; \"`) RETURN n, $key", queryText{"", []string{"key"}, nil}},
		{"a semicolon at the end", " RETURN $event.a ; // done\n ; ", queryText{"RETURN $event.a", []string{"event"}, []string{"a"}}},
		{"a semicolon in a string", "RETURN ';'", queryText{"", nil, nil}},
		{"no line end behind a comment", "RETURN 1 // ;", queryText{"", nil, nil}},
		{"a division", "RETURN 1 / $offset", queryText{"", []string{"offset"}, nil}},
		{"longer names", "RETURN $events, $event_.a, $event1", queryText{"", []string{"events", "event_", "event1"}, nil}},
		{"a number as a name", "RETURN $0", queryText{"", []string{"0"}, nil}},
		{"a no-break space", "RETURN $event.id\u00a0AS id", queryText{"", []string{"event"}, []string{"id"}}},
	} {
		t.Run(c.situation, func(t *testing.T) {
			got, err := readQuery(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if c.want.text == "" {
				c.want.text = c.text
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestReadQueryErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "it is empty",
		" \n ":                 "it is empty",
		"// nothing":           "it is empty",
		";;":                   "it is empty",
		"RETURN 1; RETURN 2":   "there are several statements",
		"RETURN 'x":            "a string that begins with ' is not ended",
		`RETURN "x\"`:          `a string that begins with " is not ended`,
		"RETURN `x``":          "a name that begins with ` is not ended",
		"RETURN 1 /* x":        "a comment that begins with /* is not ended",
		"RETURN $":             "a $ has no name",
		"RETURN $ + 1":         "a $ has no name",
		"RETURN $`x":           "a name that begins with ` is not ended",
		"RETURN $event.`x":     "a name that begins with ` is not ended",
		"RETURN $event /* . a": "a comment that begins with /* is not ended",
	} {
		if got, err := readQuery(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v and %v, want %q", text, got, err, want)
		}
	}
}

func FuzzReadQuery(f *testing.F) {
	f.Add("MERGE (u:User {id: $event.userId}) // x\n SET u.`a``b` = $event . `c`; /* y */")
	f.Add(`RETURN "a\"$b", '$c', $0, $event..$event['x']`)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := readQuery(text)
		if err != nil {
			return
		}
		again, err := readQuery(q.text)
		if err != nil || !reflect.DeepEqual(again, q) {
			t.Errorf("%q is read as %+v, and then as %+v, %v", text, q, again, err)
		}
	})
}
