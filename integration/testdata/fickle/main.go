// Fickle does what the payload of a message says, so that tests can see what
// becomes of a stream whose transformation misbehaves:
//
//	drop    no statement
//	twice   two statements
//	fail    the failure of this message
//	panic   a panic
//	loop    no end
//	hoard   memory without end
//
// Anything else is stored: one statement with the payload and the offset.
package main

import (
	"errors"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

var store = graphmill.NewQuery("CREATE (:Message {payload: $payload, offset: $offset})", "payload", "offset")

//go:wasmexport transform
func transform(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, obey)
}

//go:wasmexport loop
func loop(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, func(graphmill.Message, graphmill.Output) error { return spin() })
}

func obey(m graphmill.Message, out graphmill.Output) error {
	switch string(m.Payload()) {
	case "drop":
		return nil
	case "twice":
		out.Statement(store).Text(m.Payload()).Int(m.Offset())
	case "fail":
		return errors.New("told to fail")
	case "panic":
		panic("told to panic")
	case "loop":
		return spin()
	case "hoard":
		return hoard()
	}
	out.Statement(store).Text(m.Payload()).Int(m.Offset())
	return nil
}

var spins int

func spin() error {
	for {
		spins++
	}
}

var hoarded [][]byte

func hoard() error {
	for {
		hoarded = append(hoarded, make([]byte, 1<<20))
	}
}

func main() {}
