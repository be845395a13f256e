package boltserver

// Hooks are asked before the server acts, from the goroutine of the connection:
// several may be called at once. A hook that is nil lets everything pass.
type Hooks struct {
	// OnLogon is asked when a client logs in with the right password, or when
	// none is asked for.
	OnLogon func(user string) *Failure
	// OnBegin is asked for each BEGIN.
	OnBegin func(Transaction) Reply
	// OnRun is asked for each statement, outside of transactions too.
	OnRun func(Statement) Reply
	// OnCommit is asked for each COMMIT.
	OnCommit func(Transaction) Reply
}

// Failure is an error of the database. The rest of the transaction is ignored.
type Failure struct {
	Code    string // "Neo.ClientError.Statement.SyntaxError"
	Message string
}

// Reply is what a hook wants done. The zero value lets the server go on.
type Reply struct {
	// Wait holds the connection until it is closed, before anything else is
	// done. A client that leaves ends it, and so does Stop.
	Wait <-chan struct{}

	Failure *Failure

	// FailPull refuses the PULL behind a RUN that has been refused, in place of
	// ignoring it, as Neo4j does with parameters that it cannot read. Of OnRun
	// only.
	FailPull bool

	// LateFailure lets a RUN succeed and its PULL fail, as errors of execution
	// do. Of OnRun only.
	LateFailure *Failure

	// Raw are messages, as they are packed, in place of the answer to what was
	// asked for, which is not done: what no database says. RawPull are those in
	// place of the answer to the PULL of a RUN that succeeds; of OnRun only.
	Raw, RawPull [][]byte

	Cut Cut

	// CutPull lets a RUN succeed, and cuts the connection when its result is
	// asked for. Of OnRun only.
	CutPull bool

	// Fields and Rows are the result of a statement, Type what it tells of
	// itself: "r", "w", "rw" or "s" for a change of the schema. Of OnRun only.
	Fields []string
	Rows   [][]any
	Type   string
}

// Cut says when to cut a connection.
type Cut uint8

// The moments of a cut.
const (
	CutNever  Cut = iota
	CutBefore     // nothing of what was asked for is done
	CutAfter      // it is done, and the client never hears of it
)

// Fail is the Reply that refuses with an error.
func Fail(code, message string) Reply {
	return Reply{Failure: &Failure{Code: code, Message: message}}
}
