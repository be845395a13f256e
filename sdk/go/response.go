package graphmill

import "errors"

// response builds the answer to one batch. Values go straight into the frame as
// they are given; the tables and texts are written behind them at the end, so
// nothing is copied twice. Its buffers are kept from one batch to the next and
// only grow.
//
// Calls and branches are what costs time in Go's WebAssembly: the fields and the
// functions that are used for every value are laid out to need few of them.
type response struct {
	// The frame is buf[:n]: room for the header, then parameter values. Up to
	// n == soft there is room for any value of fixed size behind n.
	buf     []byte
	n, soft int

	// ready is the generation of the statement in the making if it may take a
	// value now, else 0.
	ready uint64

	// The innermost list or map that is being written, first the parameters
	// themselves. after is what ready becomes behind a value, which is 0 where
	// each value needs a key.
	count  uint32 // values so far
	after  uint64
	header int // where its length stands in the frame

	generation uint64 // of the Statement that is good now, never 0
	open       bool   // whether there is a statement in the making
	message    uint32 // that it comes from
	query      *Query
	wanted     uint32 // values by position that it takes; byKey
	start      int    // where its parameters begin

	// problem is the first wrong use of the statement, or value that cannot be
	// sent. What is written after it does not matter: it will be taken back.
	problem error

	depth int                 // lists and maps that are open
	outer [maxDepth - 1]level // what is around each of them

	statements []entry // finished
	queries    queryTable
	keys       keys
	texts      map[string]*Query // of Output.Add
	failures   []failure
	failed     map[uint32]bool // the messages of failures, if perBatch
	perBatch   bool
	whole      error // why the batch as a whole has failed

	limit int // bytes that the frame may have

	total int // messages of the batch
}

// level keeps response.count, after and header while an inner list or map is
// written.
type level struct {
	count  uint32
	after  uint64
	header int
}

// entry is a statement entry of the frame.
type entry struct{ query, message, start, length uint32 }

// byKey as the number of values wanted: any number, each with its key.
const byKey = null

const (
	// maxResponse keeps offsets within 32 bits, and the sum of all parts too. The
	// host's own limit is lower.
	maxResponse = 1 << 30

	// valuesAt is where the parameters begin: behind the header, at a multiple
	// of 8.
	valuesAt = (responseHeaderSize + 7) &^ 7

	// slack is what a value of fixed size needs at most, and a short string with
	// the eight bytes that are cleared behind it.
	slack = 1 + maxShort + 8
)

// reset makes ready for the next batch.
func (r *response) reset(perBatch bool) {
	if r.buf == nil {
		r.buf = make([]byte, bufferSize(0))
		r.soft = len(r.buf) - slack
	}
	if r.limit == 0 {
		r.limit = maxResponse
	}
	r.n = valuesAt
	r.statements = r.statements[:0]
	r.queries.reset()
	r.failures = r.failures[:0]
	clear(r.failed)
	r.perBatch, r.whole, r.problem = perBatch, nil, nil
	r.total = 0
	r.close()
}

// close ends the statement in the making: a Statement for it is no longer good.
func (r *response) close() {
	r.open, r.ready, r.depth = false, 0, 0
	r.generation++
}

// begin starts a statement and finishes the one before it.
func (r *response) begin(message uint32, q *Query) Statement {
	if r.open || r.problem != nil || r.n > r.soft {
		r.beginRare()
	}
	n, generation := r.n, r.generation
	if r.query != q { // a call within makes the compiler lay out the other way first
		r.setQuery(q)
	}
	r.open, r.message, r.start, r.wanted, r.count = true, message, n, q.wanted, 0
	if q.wanted > maxShortArray {
		r.beginLong(q.wanted)
		return Statement{r, generation}
	}
	r.buf[n] = 0x90 | byte(q.wanted)
	r.n = n + 1
	r.ready, r.after = generation, generation
	return Statement{r, generation}
}

// beginRare does what comes before a statement that is not the first of its message.
func (r *response) beginRare() {
	r.settle()
	if r.n > r.soft {
		r.grow(0)
	}
}

//go:noinline
func (r *response) setQuery(q *Query) { r.query = q }

// maxShortArray is the longest array whose head is one byte.
const maxShortArray = 15

// beginLong begins parameters by key, or more by position than a short array holds.
func (r *response) beginLong(wanted uint32) {
	if wanted == byKey {
		r.beginMap()
		return
	}
	r.buf[r.n] = 0xdd
	be.PutUint32(r.buf[r.n+1:], wanted)
	r.n += 5
	r.ready, r.after = r.generation, r.generation
}

// beginMap begins parameters by key: a map of 16-bit length, which settle fills in.
func (r *response) beginMap() {
	b := r.buf[r.n:]
	b[0], b[1], b[2] = 0xde, 0, 0
	r.count, r.after, r.header = 0, 0, r.n+1
	r.n += 3
}

// fail records what is wrong with the statement in the making.
func (r *response) fail(err error) {
	if r.problem == nil {
		r.problem = err
	}
}

// settle finishes the statement in the making, if there is one: it becomes an
// entry, or its problem is recorded. In a handler of single messages the problem
// stays until the message ends.
func (r *response) settle() {
	if r.complete() {
		r.enter(r.queries.last)
		r.close()
		return
	}
	if r.open {
		if r.count != r.wanted || r.depth > 0 {
			r.check()
		}
		if r.problem == nil {
			r.enter(r.queries.index(r.query))
		}
		r.close()
	}
	if r.problem != nil && r.perBatch {
		r.settleProblem()
	}
}

// complete tells whether there is a statement in the making that only has to be
// entered: by position, of the query of the one before it, with all of its values. It
// is what settle would find of most statements.
func (r *response) complete() bool {
	return r.open && r.count == r.wanted && r.depth == 0 && r.problem == nil && r.query == r.queries.latest
}

// settleProblem turns the problem of a statement in a handler of whole batches
// into a failure. The bytes of the statement stay behind, unused.
func (r *response) settleProblem() {
	if r.message == wholeBatch {
		r.failWhole(r.problem)
	} else {
		r.failMessage(r.message, r.problem)
	}
	r.problem = nil
}

// check looks whether the statement in the making is complete, and completes
// parameters by key.
func (r *response) check() {
	switch {
	case r.problem != nil:
	case r.depth > 0:
		r.fail(r.wrong("a list or map was begun and not ended by End"))
	case r.wanted != byKey:
		r.fail(r.wrong(r.query.takes() + ", " + itoa(int(r.count)) + " were given"))
	case r.ready != 0:
		r.fail(r.wrong("the last Key has no value"))
	case r.count > 0xffff:
		r.fail(r.wrong("more than 65,535 parameters"))
	case r.count == 0:
		r.n = r.start // no parameters: no map
	default:
		be.PutUint16(r.buf[r.header:], uint16(r.count))
	}
}

// wrong is an error that names the query of the statement in the making.
func (r *response) wrong(text string) error {
	if r.query == nil {
		return errors.New(text)
	}
	return errors.New("statement of " + clip(r.query.text) + ": " + text)
}

// enter makes the statement in the making, which is complete, an entry.
func (r *response) enter(query uint32) {
	r.statements = append(r.statements, entry{query, r.message, uint32(r.start), uint32(r.n - r.start)})
}

// takeBack makes message i, whose handler has returned err or whose statements
// have a problem, a failure. Frame and statements had the given lengths when its
// turn began.
func (r *response) takeBack(i uint32, n, statements int, err error) {
	if err == nil {
		err = r.problem
	}
	r.n = n
	r.statements = r.statements[:statements]
	r.problem = nil
	r.close()
	r.failures = append(r.failures, newFailure(i, err))
}

// failMessage records a failure of message i; the first one counts.
func (r *response) failMessage(i uint32, err error) {
	if r.failed == nil {
		r.failed = make(map[uint32]bool)
	}
	if !r.failed[i] {
		r.failed[i] = true
		r.failures = append(r.failures, newFailure(i, err))
	}
}

// failWhole records that the batch as a whole has failed; the first error counts.
func (r *response) failWhole(err error) {
	if r.whole == nil {
		r.whole = err
	}
}

// finish completes the frame and returns it. It is valid until the next reset.
func (r *response) finish() []byte {
	if r.whole != nil {
		r.failOnly()
	}
	if r.perBatch && len(r.failures) > 0 {
		r.dropFailed()
	}
	r.reserve(r.sizeOfTables())

	statements := r.table(len(r.statements) * statementSize)
	putEntries(r.buf[statements:], r.statements)

	queries := r.table(len(r.queries.list) * querySize)
	for i, q := range r.queries.list {
		names := r.table(len(q.names) * nameSize)
		for j, name := range q.names {
			r.putRef(names+j*nameSize, name)
		}
		entry := queries + i*querySize
		r.putRef(entry, q.text)
		le.PutUint32(r.buf[entry+8:], uint32(names))
		le.PutUint32(r.buf[entry+12:], uint32(len(q.names)))
	}

	failures := r.table(len(r.failures) * failureSize)
	for i, f := range r.failures {
		entry := failures + i*failureSize
		le.PutUint32(r.buf[entry:], f.message)
		le.PutUint32(r.buf[entry+4:], f.flags)
		r.putRef(entry+8, f.text)
	}

	h := r.buf[:responseHeaderSize]
	le.PutUint32(h[0:], responseMagic)
	le.PutUint32(h[4:], uint32(len(r.queries.list)))
	le.PutUint32(h[8:], uint32(queries))
	le.PutUint32(h[12:], uint32(len(r.statements)))
	le.PutUint32(h[16:], uint32(statements))
	le.PutUint32(h[20:], uint32(len(r.failures)))
	le.PutUint32(h[24:], uint32(failures))
	return r.buf[:r.n]
}

// failOnly makes the failure of the batch as a whole all that the response holds.
func (r *response) failOnly() {
	f := newFailure(wholeBatch, r.whole)
	if abort, ok := find[*abortError](r.whole); ok && int(abort.message) < r.total {
		f.message, f.flags = abort.message, f.flags|failureAborted
	}
	r.n = valuesAt
	r.statements = r.statements[:0]
	r.queries.reset()
	r.failures = append(r.failures[:0], f)
	clear(r.failed)
}

// sizeOfTables is at least what finish appends to the frame, in bytes.
func (r *response) sizeOfTables() int {
	const padding = 8 // a table begins at a multiple of 8
	n := padding + len(r.statements)*statementSize
	n += padding + len(r.queries.list)*querySize
	for _, q := range r.queries.list {
		n += padding + len(q.names)*nameSize + len(q.text)
		for _, name := range q.names {
			n += len(name)
		}
	}
	n += padding + len(r.failures)*failureSize
	for _, f := range r.failures {
		n += len(f.text)
	}
	return n
}

// grow makes room for a value of size bytes, and the slack behind it, or fails the
// statement. For a size of 0, which stands for a value of fixed size, there is room
// in any case, so that its setter need not ask.
func (r *response) grow(size int) bool {
	if size <= r.limit-r.n-len(r.statements)*statementSize {
		r.reserve(size + slack)
		return true
	}
	r.fail(r.wrong("the answer to the batch grows beyond " + itoa(r.limit) + " bytes"))
	switch {
	case size > 0: // it will not be written
	case r.open:
		r.n = r.start // what is written from here on will be taken back
	default:
		r.reserve(slack)
	}
	return false
}

// reserve makes room for size more bytes.
func (r *response) reserve(size int) {
	needed := r.n + size
	if needed <= len(r.buf) {
		return
	}
	grown := make([]byte, max(needed, min(bufferSize(needed), r.limit)))
	copy(grown, r.buf[:r.n])
	old := len(r.buf)
	r.buf, r.soft = grown, len(grown)-slack
	bufferGrown(old)
}

// dropFailed takes out the statements of messages that have failed, which a
// handler of whole batches may have made before it knew.
func (r *response) dropFailed() {
	kept := r.statements[:0]
	for _, e := range r.statements {
		if !r.failed[e.message] {
			kept = append(kept, e)
		}
	}
	r.statements = kept
}

// table takes room for a table of size bytes at a multiple of 8 and returns where
// it begins. What it does not overwrite is 0.
func (r *response) table(size int) int {
	at := (r.n + 7) &^ 7
	clear(r.buf[r.n : at+size])
	r.n = at + size
	return at
}

// putRef appends s and writes its offset and length to ref.
func (r *response) putRef(ref int, s string) {
	le.PutUint32(r.buf[ref:], uint32(r.n))
	le.PutUint32(r.buf[ref+4:], uint32(len(s)))
	r.n += copy(r.buf[r.n:], s)
}
