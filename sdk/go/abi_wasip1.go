package graphmill

import (
	"unsafe"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
)

// This file is all that has to do with the module's memory. The host calls one
// function of an instance at a time, so there is one of everything.

// Request is a batch as Graphmill hands it to a transformation, and Response the
// answer. What they are made of depends on the platform: in a module they refer
// to its memory, elsewhere they are the frames themselves, so that tests can
// call transformations natively (package graphmilltest).
//
// A string is passed as two 32-bit numbers, address and length, as the ABI asks.
// The response is address << 32 | length.
type (
	Request  string
	Response uint64
)

// instance is the state of the module between calls. It keeps the collector from
// what the host has been told about.
var instance struct {
	call
	input   []byte // what graphmill_alloc handed out
	problem []byte // the error text of graphmill_configure
}

// maxInput is more than any host has for a frame; asking Go for more would end
// the instance.
const maxInput = 1 << 30

// abiVersion1 is a marker: it is never called, its name tells the version.
//
//lint:ignore U1000 the host looks for it
//go:wasmexport graphmill_abi_v1
func abiVersion1() {}

// alloc returns the one input buffer, made larger where it has to be. The old one
// is given up before, so that both need not fit into memory.
//
//lint:ignore U1000 the host calls it
//go:wasmexport graphmill_alloc
func alloc(size uint32) unsafe.Pointer {
	if size > maxInput {
		return nil
	}
	if uint32(cap(instance.input)) < size+scan.Pad {
		old := len(instance.input)
		instance.input = nil
		bufferGrown(old)
		instance.input = make([]byte, bufferSize(int(size)+scan.Pad))
		bufferGrown(0)
	}
	return unsafe.Pointer(unsafe.SliceData(instance.input))
}

// configure hands the stream's settings to the module. It returns 0, or where the
// text of an error is.
//
//lint:ignore U1000 the host calls it
//go:wasmexport graphmill_configure
func configure(settings string) uint64 {
	err := applySettings(settings)
	if err == nil {
		return 0
	}
	instance.problem = []byte(failureText(err))
	return reference(instance.problem)
}

func begin(batch Request, perBatch bool) *call {
	// The bytes are those of instance.input, which the host has written and the
	// cursor is written into: no Go code sees them as an immutable string.
	frame := unsafe.Slice(unsafe.StringData(string(batch)), len(batch))
	scan.SetFrame(nil)
	if unsafe.SliceData(frame) == unsafe.SliceData(instance.input) && len(frame)+scan.Pad <= len(instance.input) {
		scan.SetFrame(frame) // as it is when the host keeps the ABI
	}
	instance.open(frame, perBatch)
	return &instance.call
}

func (c *call) answer() Response { return Response(reference(c.finish())) }

// reference is how the ABI passes bytes of the module to the host.
func reference(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))<<32 | uint64(len(b))
}

// Frame returns the bytes of the response frame.
func (r Response) Frame() []byte { return instance.response.buf[:instance.response.n] }
