// Package graphmill is the SDK for Graphmill transformations written in Go.
//
// A transformation is a function that turns messages into statements: pairs of
// a query and its parameters, which Graphmill runs in a graph database. It is
// compiled to WebAssembly and called with a batch of messages at a time.
//
//	package main
//
//	import (
//		graphmill "github.com/graphmill/graphmill/sdk/go"
//		"github.com/graphmill/graphmill/sdk/go/json"
//	)
//
//	var user = json.NewShape(json.Int("id"), json.OptText("name"))
//
//	var seen = graphmill.NewQuery(`MERGE (u:User {id: $id}) SET u.name = $name`, user.Names()...)
//
//	//go:wasmexport transform
//	func transform(batch graphmill.Request) graphmill.Response {
//		return graphmill.PerMessage(batch, mergeUser)
//	}
//
//	func mergeUser(m graphmill.Message, out graphmill.Output) error {
//		out.Fields(seen, user, m.Payload())
//		return nil
//	}
//
//	func main() {}
//
// Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags="-s -w" -o users.wasm .
//
// # What a handler may do
//
// A handler adds any number of statements for a message; none drops the message
// on purpose. An error that it returns is the failure of that message alone:
// whatever it had added for it is taken back, and the other messages go on.
// [Retry] marks an error that may be gone when the message is tried again. What
// becomes of a message that failed is decided by the stream's ON_FAILURE.
//
// A wrong use of the SDK, such as a missing parameter, never makes a broken
// answer: it is the failure of the message too, with a text that says what was
// wrong. A panic ends the instance; Graphmill logs its text and blames the
// message that was in hand.
//
// # What is valid how long
//
// Byte slices of a message share the memory of the batch. They are valid until
// the exported function returns, and must not be changed. Copy what is kept
// longer. Strings are copies and may be kept.
//
// # Instances
//
// An instance handles one batch at a time, on one goroutine. Package variables
// live as long as the instance: good for a cache, not for what has to be exact,
// since a fresh instance takes over after a failure, and every lane of a stream
// has its own. main never runs; init does. Do not start goroutines that outlive
// a call: nothing runs between calls.
//
// # Tests
//
// The same code runs natively, so that handlers are tested by plain go test:
// see package graphmilltest.
package graphmill
