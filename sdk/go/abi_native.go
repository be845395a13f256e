//go:build !wasip1

package graphmill

// Request is a batch as Graphmill hands it to a transformation, and Response the
// answer. What they are made of depends on the platform: in a module they refer
// to its memory, elsewhere they are the frames themselves, so that tests can
// call transformations natively (package graphmilltest).
type (
	Request  []byte
	Response []byte
)

func begin(batch Request, perBatch bool) *call {
	c := new(call)
	c.open(batch, perBatch)
	return c
}

func (c *call) answer() Response { return c.finish() }

// Frame returns the bytes of the response frame.
func (r Response) Frame() []byte { return r }
