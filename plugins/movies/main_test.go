package main

import (
	"reflect"
	"testing"

	"github.com/graphmill/graphmill/sdk/go/graphmilltest"
)

func TestRate(t *testing.T) {
	for _, c := range []struct {
		situation, payload string
		params             map[string]any
		failure            string
	}{
		{"a rating", `{"userId":1,"movieId":42,"rating":4.5,"title":"Brazil"}`, map[string]any{"userId": int64(1), "movieId": int64(42), "rating": 4.5, "title": "Brazil"}, ""},
		{"spaced, in another order, with more", ` { "title" : "Amélie", "extra": {"a":[1]}, "rating": 5, "movieId": 2, "userId": 1 } `, map[string]any{"userId": int64(1), "movieId": int64(2), "rating": 5.0, "title": "Amélie"}, ""},
		{"no title", `{"userId":1,"movieId":42,"rating":4}`, map[string]any{"userId": int64(1), "movieId": int64(42), "rating": 4.0, "title": nil}, ""},
		{"a null title", `{"userId":1,"movieId":42,"rating":4,"title":null}`, map[string]any{"userId": int64(1), "movieId": int64(42), "rating": 4.0, "title": nil}, ""},
		{"no user", `{"movieId":42,"rating":4}`, nil, `field "userId" is missing`},
		{"a null movie", `{"userId":1,"movieId":null,"rating":4}`, nil, `field "movieId" is null`},
		{"an id as a string", `{"userId":"1","movieId":42,"rating":4}`, nil, `field "userId" is a string where an integer is needed`},
		{"an id with a fraction", `{"userId":1.5,"movieId":42,"rating":4}`, nil, `field "userId" is not an integer of 64 bits`},
		{"a rating as a string", `{"userId":1,"movieId":42,"rating":"4"}`, nil, `field "rating" is a string where a number is needed`},
		{"a title as a number", `{"userId":1,"movieId":42,"rating":4,"title":1984}`, nil, `field "title" is a number where a string is needed`},
		{"not JSON", `userId=1`, nil, "not JSON: a value should stand at byte 0"},
		{"no object", `[]`, nil, "the document is an array, not an object"},
		{"an empty payload", ``, nil, "not JSON: it ends where a value should stand at byte 0"},
	} {
		t.Run(c.situation, func(t *testing.T) {
			got := graphmilltest.Run(t, transform, graphmilltest.Text(c.payload))
			want := graphmilltest.Result{Failures: []graphmilltest.Failure{{Text: c.failure}}}
			if c.failure == "" {
				want = graphmilltest.Result{Statements: []graphmilltest.Statement{{Query: rated.Text(), Params: c.params}}}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %#v\nwant %#v", got, want)
			}
		})
	}
}

func TestTombstoneIsDropped(t *testing.T) {
	got := graphmilltest.Run(t, transform, graphmilltest.Tombstone("1"), graphmilltest.Text(`{"userId":1,"movieId":42,"rating":4}`))
	if len(got.Failures) != 0 || len(got.Statements) != 1 || got.Statements[0].Message != 1 {
		t.Errorf("got %+v", got)
	}
}
