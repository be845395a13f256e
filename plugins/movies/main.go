// Movies turns ratings into users, movies and the ratings between them:
//
//	{"userId": 1, "movieId": 42, "rating": 4.5, "title": "Brazil"}
//
// becomes (:User {id: 1})-[:RATED {rating: 4.5}]->(:Movie {id: 42, title: "Brazil"}).
// A later rating of the same movie by the same user replaces the earlier one.
//
// userId and movieId are integers, rating is a number, all three are needed. title
// may be absent or null; other fields are not looked at. Anything else makes the
// message fail. A message without payload, a tombstone, says nothing about a
// rating and is dropped.
package main

import (
	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/json"
)

var rating = json.NewShape(
	json.Int("userId"), json.Int("movieId"), json.Float("rating"), json.OptText("title"))

var rated = graphmill.NewQuery(
	`MERGE (u:User {id: $userId}) `+
		`MERGE (m:Movie {id: $movieId}) ON CREATE SET m.title = $title `+
		`MERGE (u)-[r:RATED]->(m) SET r.rating = $rating`,
	rating.Names()...)

//go:wasmexport transform
func transform(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, rate)
}

func rate(m graphmill.Message, out graphmill.Output) error {
	if m.Payload() != nil {
		out.Fields(rated, rating, m.Payload())
	}
	return nil
}

func main() {}
