// Garbage makes four times as much garbage of a message as its payload has, as
// encoding/json does.
package main

import (
	"bytes"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

var store = graphmill.NewQuery("STORE", "payload")

var copies [4][]byte

//go:wasmexport transform
func transform(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, func(m graphmill.Message, out graphmill.Output) error {
		for i := range copies {
			copies[i] = bytes.Clone(m.Payload())
		}
		out.Statement(store).Text(copies[0])
		return nil
	})
}

func main() {}
