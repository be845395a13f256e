package graphmill

import "errors"

// Output takes the statements of one message, in the order in which they are to
// run. It is a small value: pass it as it is, and do not keep it beyond the call.
type Output struct {
	r       *response
	message uint32
}

// Statement begins a statement of q; the parameters follow:
//
//	out.Statement(rated).Int(user).Int(movie).Float(rating)
//
// The statement before it is complete with this.
func (o Output) Statement(q *Query) Statement { return o.r.begin(o.message, q) }

// Add adds a statement of a text and its parameters as a map; nil means none.
// [Statement.Any] says which values there may be. It is the form for texts that
// are made from the message, and the slowest one: for a text that is known before,
// make a [Query] once.
func (o Output) Add(text string, parameters map[string]any) {
	q, err := o.r.queryOf(text)
	s := o.r.begin(o.message, q)
	if err != nil {
		o.r.fail(err)
		return
	}
	for name, v := range parameters {
		s.Key(name).Any(v)
	}
	o.r.settle()
}

// maxTexts bounds the queries that are remembered for Output.Add.
const maxTexts = 1000

// queryOf returns the query of a text that may have come before.
func (r *response) queryOf(text string) (*Query, error) {
	if q := r.texts[text]; q != nil {
		return q, nil
	}
	q := &Query{text: text, wanted: byKey}
	if wrong := checkText(text); wrong != "" {
		return q, errors.New("statement: " + wrong)
	}
	if r.texts == nil || len(r.texts) >= maxTexts {
		r.texts = make(map[string]*Query)
	}
	r.texts[text] = q
	return q, nil
}

// Output is where the statements of message m go, in a handler of [PerBatch].
func (b *Batch) Output(m Message) Output { return Output{b.response, b.own(m)} }

// Whole is where statements go that come from the batch as a whole, such as
// sums over its messages. They run in the order in which all statements of the
// batch were begun. When such a statement fails in the database, Graphmill cannot
// tell which message is to blame, and has to find out by trying.
func (b *Batch) Whole() Output { return Output{b.response, wholeBatch} }

// Fail makes m a failure: its statements, earlier and later ones, do not count;
// the other messages do. Of several failures of a message the first one counts.
// A nil error does nothing.
func (b *Batch) Fail(m Message, err error) {
	if err != nil {
		b.response.failMessage(b.own(m), err)
	}
}

// own returns the number of a message, which must not be one of an earlier call.
func (b *Batch) own(m Message) uint32 {
	if m.batch != b || m.index >= b.count {
		panic("graphmill: a message was used that is not of this batch")
	}
	return m.index
}
