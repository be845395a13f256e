package graphmill

import "runtime"

// PerMessage answers a batch by a handler that is called with each message in
// turn. An error is the failure of that message alone, and what the handler had
// added for it is taken back. See the package's documentation.
func PerMessage(batch Request, handle func(m Message, out Output) error) Response {
	c := begin(batch, false)
	c.perMessage(handle)
	return c.answer()
}

func (c *call) perMessage(handle func(m Message, out Output) error) {
	b, r := &c.batch, &c.response
	if r.whole != nil {
		return
	}
	at := b.records
	for i := range b.count {
		b.setCursor(i)
		n, statements := r.n, len(r.statements)
		err := handle(Message{b, i, at}, Output{r, i})
		at += b.stride
		if err == nil && r.open {
			r.settle()
		}
		if err != nil || r.problem != nil {
			r.takeBack(i, n, statements, err)
		}
	}
}

// PerBatch answers a batch by a handler that is called once with all messages:
// for work that needs several of them, such as merging what concerns the same
// node. The handler goes through [Batch.All], adds statements to the
// [Batch.Output] of a message or to [Batch.Whole], and fails single messages by
// [Batch.Fail].
//
// An error that it returns fails the batch as a whole: nothing of it counts, and
// Graphmill finds the message to blame by trying smaller batches. [Abort] names a
// message.
func PerBatch(batch Request, handle func(b *Batch) error) Response {
	c := begin(batch, true)
	if r := &c.response; r.whole == nil {
		if err := handle(&c.batch); err != nil {
			r.failWhole(err)
		} else {
			r.settle()
		}
	}
	return c.answer()
}

// call is the state of one call into the module, kept for the next one.
type call struct {
	batch    Batch
	response response
}

// open takes a request frame.
func (c *call) open(frame []byte, perBatch bool) {
	c.response.reset(perBatch)
	c.batch.response = &c.response
	if err := c.batch.open(frame); err != nil {
		c.response.failWhole(err)
		return
	}
	c.response.total = c.batch.Len()
}

// finish completes the response frame.
func (c *call) finish() []byte {
	frame := c.response.finish()
	c.batch.frame = nil
	// Go's collector runs on goroutines of its own, and WebAssembly has a single
	// thread: they get their turn only when the one that runs gives way. Without
	// this, memory grows without end.
	runtime.Gosched()
	return frame
}
