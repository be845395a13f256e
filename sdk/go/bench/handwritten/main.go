//go:build wasip1

// Handwritten is a transformation that speaks the ABI without the SDK, made for one
// contract and as fast as that allows: the measure for what the SDK costs.
//
//	{"userId": 77777, "title": "Brazil", "rating": 4.5}
//
// userId is an integer and rating a number, both are needed; title may be absent or
// null; other fields are passed over; a tombstone is dropped; anything else makes its
// message fail. It leaves nothing out that has to be checked: documents to their last
// byte, UTF-8, the bounds of what the frame refers to. Package withsdk does the same,
// and sdk/hosttest proves it and measures both.
package main

import (
	"encoding/binary"
	"math"
	"math/bits"
	"runtime"
	"unsafe"
)

const query = `MERGE (u:User {id: $userId}) MERGE (m:Movie {title: $title}) MERGE (u)-[r:RATED]->(m) SET r.rating = $rating`

var names = [...]string{"userId", "title", "rating"}

const (
	null       = 0xffffffff
	headerSize = 32 // of the response, and 4 bytes to a multiple of 8
)

// record is a message record of the request frame.
type record struct {
	payload, payloadLength uint32
	_                      [16]uint32
}

// statement is a statement entry, failure a failure entry in the making.
type statement struct{ query, message, params, length uint32 }

type failure struct {
	message uint32
	text    string
}

// All that is kept from one batch to the next.
var (
	input      []byte
	output     []byte
	statements []statement
	failures   []failure
	r          rating
)

// abiVersion1 is the marker of the ABI.
//
//lint:ignore U1000 the host calls it
//go:wasmexport graphmill_abi_v1
func abiVersion1() {}

// alloc returns the one input buffer.
//
//lint:ignore U1000 the host calls it
//go:wasmexport graphmill_alloc
func alloc(size uint32) unsafe.Pointer {
	if uint32(cap(input)) < size {
		input = make([]byte, size+size/2)
	}
	return unsafe.Pointer(unsafe.SliceData(input))
}

// transform answers one batch.
//
//lint:ignore U1000 the host calls it
//go:wasmexport transform
func transform(address unsafe.Pointer, length uint32) uint64 {
	frame := unsafe.Slice((*byte)(address), length)
	le := binary.LittleEndian
	count, at, stride := le.Uint32(frame[8:]), le.Uint32(frame[12:]), le.Uint32(frame[16:])
	if le.Uint32(frame) != 0x31424d47 || stride < 72 || uint64(at)+uint64(count)*uint64(stride) > uint64(length) {
		panic("not a request frame")
	}
	cursor := (*uint32)(unsafe.Add(address, 4))
	statements, failures = statements[:0], failures[:0]
	n := headerSize
	for i := range count {
		*cursor = i
		rec := (*record)(unsafe.Add(address, at))
		at += stride
		if rec.payloadLength == null {
			continue
		}
		payload := frame[rec.payload : rec.payload+rec.payloadLength]
		if err := r.parse(payload); err != "" {
			failures = append(failures, failure{i, err})
			continue
		}
		if size := 32 + len(r.title); len(output)-n < size {
			grow(n, size)
		}
		end := n + write(output[n:])
		statements = append(statements, statement{0, i, uint32(n), uint32(end - n)})
		n = end
	}
	answer := finish(n)
	runtime.Gosched() // or the collector never runs
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(answer))))<<32 | uint64(len(answer))
}

// write writes the parameters of the rating and returns their length.
func write(b []byte) int {
	b = b[: 32+len(r.title) : len(b)]
	b[0] = 0x93
	n := 1
	if int64(int32(r.userID)) == r.userID {
		b[n] = 0xd2
		binary.LittleEndian.PutUint32(b[n+1:], bits.ReverseBytes32(uint32(r.userID)))
		n += 5
	} else {
		b[n] = 0xd3
		binary.LittleEndian.PutUint64(b[n+1:], bits.ReverseBytes64(uint64(r.userID)))
		n += 9
	}
	switch t := len(r.title); {
	case r.title == nil:
		b[n] = 0xc0
		n++
	case t < 32:
		b[n] = 0xa0 | byte(t)
		n += 1 + copy(b[n+1:], r.title)
	default:
		b[n] = 0xdb
		binary.BigEndian.PutUint32(b[n+1:], uint32(t))
		n += 5 + copy(b[n+5:], r.title)
	}
	b[n] = 0xcb
	binary.LittleEndian.PutUint64(b[n+1:], bits.ReverseBytes64(math.Float64bits(r.rating)))
	return n + 9
}

// finish writes the tables behind the n bytes of parameters, and the header.
func finish(n int) []byte {
	size := 8 + len(statements)*16 + 16 + len(names)*8 + len(query) + 64 + len(failures)*16
	for _, f := range failures {
		size += len(f.text)
	}
	if len(output)-n < size {
		grow(n, size)
	}
	le := binary.LittleEndian
	words := func(at int, values ...int) {
		for i, v := range values {
			le.PutUint32(output[at+4*i:], uint32(v))
		}
	}
	text := func(s string) (at int) {
		at = n
		n += copy(output[n:], s)
		return at
	}
	statementsAt := (n + 7) &^ 7
	if len(statements) > 0 {
		entries := unsafe.Slice((*byte)(unsafe.Pointer(&statements[0])), len(statements)*16)
		copy(output[statementsAt:], entries)
	}
	queryAt := statementsAt + len(statements)*16
	namesAt := queryAt + 16
	failuresAt := namesAt + len(names)*8
	n = failuresAt + len(failures)*16
	for i, name := range names {
		words(namesAt+8*i, text(name), len(name))
	}
	words(queryAt, text(query), len(query), namesAt, len(names))
	for i, f := range failures {
		words(failuresAt+16*i, int(f.message), 0, text(f.text), len(f.text))
	}
	words(0, 0x31524d47, 1, queryAt, len(statements), statementsAt, len(failures), failuresAt)
	return output[:n]
}

func grow(n, size int) {
	larger := make([]byte, 2*(n+size)+64<<10)
	copy(larger, output[:min(n, len(output))])
	output = larger
}

func main() {}
