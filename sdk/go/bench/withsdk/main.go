// Withsdk is the contender of ../handwritten that uses the SDK: the same contract, as
// an author of a plugin would write it.
package main

import (
	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/json"
)

var rating = json.NewShape(json.Int("userId"), json.OptText("title"), json.Float("rating"))

var rated = graphmill.NewQuery(
	`MERGE (u:User {id: $userId}) MERGE (m:Movie {title: $title}) MERGE (u)-[r:RATED]->(m) SET r.rating = $rating`,
	rating.Names()...)

// transform answers one batch.
//
//lint:ignore U1000 the host calls it
//go:wasmexport transform
func transform(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, rate)
}

func rate(m graphmill.Message, out graphmill.Output) error {
	if payload := m.Payload(); payload != nil {
		out.Fields(rated, rating, payload)
	}
	return nil
}

func main() {}
