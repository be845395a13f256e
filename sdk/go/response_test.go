package graphmill

import (
	"encoding/binary"
	"strings"
	"testing"
)

// request makes a request frame of messages with a payload of one byte.
func request(count int) []byte {
	f := make([]byte, requestHeaderSize+count*messageSize+topicSize)
	put := func(at int, v uint32) { binary.LittleEndian.PutUint32(f[at:], v) }
	put(0, requestMagic)
	put(8, uint32(count))
	put(12, requestHeaderSize)
	put(16, messageSize)
	put(20, 1)
	put(24, uint32(requestHeaderSize+count*messageSize))
	put(32, requestHeaderSize)
	for i := range count {
		put(requestHeaderSize+i*messageSize+4, 1)
	}
	return f
}

var blob = NewQuery("BLOB", "b")

func TestAnswerOverItsLimit(t *testing.T) {
	var c call
	c.response.limit = 100_000
	for range 2 { // a second batch finds nothing left of the first
		c.open(request(5), false)
		c.perMessage(func(m Message, out Output) error {
			size := 10
			switch m.Index() {
			case 1:
				size = 200_000 // too large by itself
			case 2:
				size = 90_000
			case 3:
				size = 20_000 // too large with the others
			}
			out.Statement(blob).Bytes(make([]byte, size))
			out.Statement(blob).Int(1) // what follows must not write beyond the buffer
			return nil
		})
		frame := c.finish()
		failures := c.response.failures
		if len(failures) != 2 || failures[0].message != 1 || failures[1].message != 3 {
			t.Fatalf("the failures are %+v", failures)
		}
		if want := "grows beyond 100000 bytes"; !strings.Contains(failures[0].text, want) {
			t.Errorf("the text is %q, want %q in it", failures[0].text, want)
		}
		if n := binary.LittleEndian.Uint32(frame[12:]); n != 6 {
			t.Errorf("%d statements, want 6", n)
		}
	}
}

// A list that is being written when there is no room any more must not be mended
// where its bytes no longer are.
func TestListOverTheLimit(t *testing.T) {
	var c call
	c.response.limit = 70_000
	c.open(request(1), false)
	c.perMessage(func(_ Message, out Output) error {
		s := out.Statement(blob).List()
		for range 100 {
			s.Bytes(make([]byte, 1000)).List().String(strings.Repeat("x", 500)).End()
		}
		s.End()
		return nil
	})
	c.finish()
	if len(c.response.failures) != 1 {
		t.Errorf("the failures are %+v", c.response.failures)
	}
}

// Statements that are complete must stay as they are when later ones do not fit.
func TestBatchOverItsLimit(t *testing.T) {
	var c call
	c.response.limit = 70_000
	c.open(request(3), true)
	b := &c.batch
	for i := range 12_000 {
		b.Output(b.Message(0)).Statement(blob).Int(int64(i) + 1000)
	}
	b.Output(b.Message(1)).Statement(blob).Bytes(make([]byte, 70_000))
	b.Output(b.Message(2)).Statement(blob).Int(1)
	c.response.settle()
	frame := c.finish()
	var failed []uint32
	for _, f := range c.response.failures {
		failed = append(failed, f.message)
	}
	if len(failed) == 0 || !strings.Contains(c.response.failures[0].text, "grows beyond") {
		t.Fatalf("the failures are %+v", c.response.failures)
	}
	statements, at := binary.LittleEndian.Uint32(frame[12:]), binary.LittleEndian.Uint32(frame[16:])
	for i := range statements {
		entry := frame[at+i*statementSize:]
		params := frame[binary.LittleEndian.Uint32(entry[8:]):]
		if want := [6]byte{0x91, 0xd2, 0, 0, byte((i + 1000) >> 8), byte(i + 1000)}; [6]byte(params) != want {
			t.Fatalf("statement %d is % x, want % x", i, params[:6], want)
		}
	}
}

func TestBuffersAreUsedAgain(t *testing.T) {
	var c call
	frame := request(100)
	run := func() {
		c.open(frame, false)
		c.perMessage(func(m Message, out Output) error {
			out.Statement(blob).Text(m.Payload())
			return nil
		})
		c.finish()
	}
	run()
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("a batch of 100 messages makes %v allocations", n)
	}
}
