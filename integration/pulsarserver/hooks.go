package pulsarserver

import "net/http"

// Hooks are asked before the server acts; several may be called at once. They may
// call the methods of the server. A hook that is nil lets everything pass.
type Hooks struct {
	// OnCommand is asked for each command of a client, from the goroutine that
	// reads its connection.
	OnCommand func(Command) Reply
	// OnDeliver is asked before an entry is written to a consumer, from the
	// goroutine that writes to its connection.
	OnDeliver func(Delivery) Cut
	// OnAdmin is asked for each request to the admin interface. A status other
	// than 0 is answered, and nothing is done.
	OnAdmin func(*http.Request) int
}

// Command is what a client asks for.
type Command struct {
	Type       string // as the protocol names it: "SUBSCRIBE", "ACK", ...
	Connection int64
	Role       string // of the connection's token; empty without tokens

	// Topic in full, Subscription and Consumer, the name of it, as far as the
	// command or the consumer or producer that it speaks of tells them.
	Topic, Subscription, Consumer string

	// IDs of ACK, SEEK and REDELIVER_UNACKNOWLEDGED_MESSAGES. Partial of an ACK
	// says that not all messages of the last entry are acknowledged.
	IDs        []MessageID
	Cumulative bool
	Partial    bool
}

// Delivery is an entry that goes to a consumer.
type Delivery struct {
	Connection                    int64
	Topic, Subscription, Consumer string
	ID                            MessageID
	Messages                      int // in the entry
}

// Failure is an error of the broker.
type Failure struct {
	Code    string // a ServerError of the protocol: "ConsumerBusy", "TopicNotFound", ...
	Message string
}

// Reply is what a hook wants done. The zero value lets the server go on.
type Reply struct {
	// Wait holds the connection until it is closed, before anything else is done:
	// no further command of it is read. Cutting the connection ends it too.
	Wait <-chan struct{}

	// Failure is answered, in the form that the command has for it, and nothing
	// is done.
	Failure *Failure

	NoAnswer bool // it is done, and the client is not told
	Ignore   bool // it is neither done nor answered

	// DropConsumers closes the consumers of the connection, once it is done, and does
	// not tell the client, as one that is told before it listens does not hear it.
	DropConsumers bool

	Cut Cut
}

// Cut says when to cut a connection.
type Cut uint8

// The moments of a cut.
const (
	CutNever  Cut = iota
	CutBefore     // nothing of what was asked for is done; the entry is not written
	CutAfter      // it is done, and the client never hears of it; the entry is written
)

// Fail is the Reply that refuses with an error of the protocol.
func Fail(code, text string) Reply { return Reply{Failure: &Failure{Code: code, Message: text}} }
