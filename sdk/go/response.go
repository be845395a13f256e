package graphmill

import "errors"

// response builds the answer to one batch. Values go straight into the frame as
// they are given; the tables and texts are written behind them at the end, so
// nothing is copied twice. Its buffers are kept from one batch to the next and
// only grow.
type response struct {
	frame      []byte // room for the header, then parameter values
	statements []byte // the finished entries, statementSize each
	failures   []failure
	limit      int // bytes of frame and statements together

	queries queryTable
	texts   map[string]*Query // of Output.Add

	perBatch bool
	whole    error // why the batch as a whole has failed

	// The statement in the making, if open. generation tells the Statement that
	// a handler got for it from those of earlier ones.
	open       bool
	generation uint32
	query      *Query
	message    uint32
	start      int // where its parameters begin in frame

	// The innermost list or map being written; first the parameters themselves.
	level
	outer [maxDepth - 1]level
	depth int // how many of outer are in use

	// problem is the first wrong use of the statement, or value that cannot be
	// sent. What is written after it does not matter: it will be taken back.
	problem error
}

// level is a list or a map that is being written.
type level struct {
	count  uint32 // values so far
	header int    // where its length stands in the frame
	keyed  bool   // values need keys
	named  bool   // a key waits for its value
}

// maxResponse keeps offsets within 32 bits, and the sum of all parts as well.
// The host's own limit is lower; it splits the batch then.
const maxResponse = 1 << 30

// valuesAt is where the parameters begin: behind the header, at a multiple of 8.
const valuesAt = (responseHeaderSize + 7) &^ 7

// reset makes ready for the next batch.
func (r *response) reset(perBatch bool) {
	if r.frame == nil {
		r.frame = make([]byte, valuesAt, 64<<10)
		r.limit = maxResponse
	}
	r.frame = r.frame[:valuesAt]
	r.statements = r.statements[:0]
	r.failures = r.failures[:0]
	r.queries.reset()
	r.perBatch, r.whole, r.problem = perBatch, nil, nil
	r.close()
}

// close ends the statement in the making: a Statement for it is no longer good.
func (r *response) close() {
	r.open = false
	r.generation++
}

// begin starts a statement and finishes the one before it.
func (r *response) begin(message uint32, q *Query) Statement {
	r.settle()
	if q == nil {
		q = &Query{text: "(nil)"}
		r.fail(errors.New("a statement was made of a nil *Query"))
	}
	r.open, r.query, r.message, r.start = true, q, message, len(r.frame)
	r.depth = 0
	r.level = level{header: len(r.frame) + 1, keyed: q.names == nil}
	switch n := len(q.names); {
	case q.names == nil:
		r.put(0xde, 0, 0) // a map of 16-bit length, which settle fills in
	case n < 16:
		r.put(0x90 | byte(n))
	default:
		r.put(0xdd, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return Statement{r, r.generation}
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
	if r.open {
		r.check()
		if r.problem == nil {
			r.enter()
		}
	}
	if r.problem != nil && r.perBatch {
		switch {
		case !r.open || r.message == wholeBatch:
			r.failWhole(r.problem)
		default:
			r.failMessage(r.message, r.problem)
		}
		if r.open {
			r.frame = r.frame[:r.start]
		}
		r.problem = nil
	}
	r.close()
}

// check looks whether the open statement is complete.
func (r *response) check() {
	switch {
	case r.depth > 0:
		r.fail(r.wrong("a list or map was begun and not ended by End"))
	case r.named:
		r.fail(r.wrong("the last Key has no value"))
	case r.query.names != nil && int(r.count) != len(r.query.names):
		r.fail(r.wrong(r.query.takes() + ", " + itoa(int(r.count)) + " were given"))
	case r.query.names == nil && r.count > 0xffff:
		r.fail(r.wrong("more than 65,535 parameters"))
	}
}

// wrong is an error that names the open statement's query.
func (r *response) wrong(text string) error {
	return errors.New("statement of " + clip(r.query.text) + ": " + text)
}

// enter makes the open statement an entry.
func (r *response) enter() {
	if r.query.names == nil {
		if r.count == 0 {
			r.frame = r.frame[:r.start] // no parameters: no map
		} else {
			be.PutUint16(r.frame[r.header:], uint16(r.count))
		}
	}
	n := len(r.statements)
	if cap(r.statements)-n < statementSize {
		grown := make([]byte, n, 2*n+1024*statementSize)
		copy(grown, r.statements)
		r.statements = grown
	}
	r.statements = r.statements[:n+statementSize]
	e := r.statements[n : n+statementSize]
	le.PutUint32(e[0:], r.queries.index(r.query))
	le.PutUint32(e[4:], r.message)
	le.PutUint32(e[8:], uint32(r.start))
	le.PutUint32(e[12:], uint32(len(r.frame)-r.start))
}

// endMessage ends the turn of message i, whose handler had found frame and
// statements at the given lengths and returned err.
func (r *response) endMessage(i uint32, frame, statements int, err error) {
	if err == nil {
		r.settle()
		err = r.problem
	}
	if err != nil {
		r.frame = r.frame[:frame]
		r.statements = r.statements[:statements]
		r.problem = nil
		r.close()
		r.failures = append(r.failures, newFailure(i, err))
	}
}

// failMessage records a failure of message i; the first one counts.
func (r *response) failMessage(i uint32, err error) {
	for _, f := range r.failures {
		if f.message == i {
			return
		}
	}
	r.failures = append(r.failures, newFailure(i, err))
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
		f := newFailure(wholeBatch, r.whole)
		var abort *abortError
		if errors.As(r.whole, &abort) {
			f.message, f.flags = abort.message, f.flags|failureAborted
		}
		r.frame = r.frame[:valuesAt]
		r.statements = r.statements[:0]
		r.queries.reset()
		r.failures = append(r.failures[:0], f)
	}
	if r.perBatch && len(r.failures) > 0 {
		r.dropFailed()
	}

	statements := r.table(len(r.statements))
	copy(r.frame[statements:], r.statements)

	queries := r.table(len(r.queries.list) * querySize)
	for i, q := range r.queries.list {
		names := r.table(len(q.names) * nameSize)
		for j, name := range q.names {
			r.text(names+j*nameSize, name)
		}
		entry := queries + i*querySize
		r.text(entry, q.text)
		le.PutUint32(r.frame[entry+8:], uint32(names))
		le.PutUint32(r.frame[entry+12:], uint32(len(q.names)))
	}

	failures := r.table(len(r.failures) * failureSize)
	for i, f := range r.failures {
		entry := failures + i*failureSize
		le.PutUint32(r.frame[entry:], f.message)
		le.PutUint32(r.frame[entry+4:], f.flags)
		r.text(entry+8, f.text)
	}

	h := r.frame[:responseHeaderSize]
	le.PutUint32(h[0:], responseMagic)
	le.PutUint32(h[4:], uint32(len(r.queries.list)))
	le.PutUint32(h[8:], uint32(queries))
	le.PutUint32(h[12:], uint32(len(r.statements)/statementSize))
	le.PutUint32(h[16:], uint32(statements))
	le.PutUint32(h[20:], uint32(len(r.failures)))
	le.PutUint32(h[24:], uint32(failures))
	return r.frame
}

// dropFailed takes out the statements of messages that have failed, which a
// handler of whole batches may have made before it knew.
func (r *response) dropFailed() {
	failed := make(map[uint32]bool, len(r.failures))
	for _, f := range r.failures {
		failed[f.message] = true
	}
	kept := r.statements[:0]
	for at := 0; at < len(r.statements); at += statementSize {
		entry := r.statements[at : at+statementSize]
		if !failed[le.Uint32(entry[4:])] {
			kept = append(kept, entry...)
		}
	}
	r.statements = kept
}

// table appends room for a table of size bytes at a multiple of 8 and returns
// where it begins.
func (r *response) table(size int) int {
	for len(r.frame)%8 != 0 {
		r.frame = append(r.frame, 0)
	}
	at := len(r.frame)
	r.frame = append(r.frame, make([]byte, size)...)
	return at
}

// text appends s and writes its offset and length to ref.
func (r *response) text(ref int, s string) {
	le.PutUint32(r.frame[ref:], uint32(len(r.frame)))
	le.PutUint32(r.frame[ref+4:], uint32(len(s)))
	r.frame = append(r.frame, s...)
}

// queryTable numbers the queries that a response uses.
type queryTable struct {
	list []*Query
	last uint32            // the number asked for last
	many map[*Query]uint32 // once there are more than a few
}

func (t *queryTable) reset() {
	clear(t.list)
	t.list, t.last = t.list[:0], 0
	clear(t.many)
}

func (t *queryTable) index(q *Query) uint32 {
	const few = 8
	if int(t.last) < len(t.list) && t.list[t.last] == q {
		return t.last
	}
	for i, known := range t.list[:min(few, len(t.list))] {
		if known == q {
			t.last = uint32(i)
			return t.last
		}
	}
	if i, ok := t.many[q]; ok {
		t.last = i
		return i
	}
	t.last = uint32(len(t.list))
	t.list = append(t.list, q)
	if len(t.list) > few {
		if t.many == nil {
			t.many = make(map[*Query]uint32)
		}
		t.many[q] = t.last
	}
	return t.last
}
