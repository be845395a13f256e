// Goguest is a guest in Go without any SDK, for tests of the host: it shows what
// Go's own runtime needs and gets. Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"
)

var le = binary.LittleEndian

// The buffers that the host reads and writes are kept from one call to the next.
var input, output []byte

//go:wasmexport graphmill_abi_v1
func marker() {}

//go:wasmexport graphmill_alloc
func alloc(size uint32) unsafe.Pointer {
	if uint32(cap(input)) < size {
		input = make([]byte, size+size/4)
	}
	return unsafe.Pointer(unsafe.SliceData(input))
}

//go:wasmimport graphmill log
func log(level uint32, text unsafe.Pointer, size uint32)

var settings string

//go:wasmexport graphmill_configure
func configure(at unsafe.Pointer, size uint32) uint64 {
	settings = string(unsafe.Slice((*byte)(at), size))
	if bytes.Contains([]byte(settings), []byte("refuse")) {
		output = append(output[:0], "this guest refuses"...)
		return returned()
	}
	return 0
}

func main() {}

// request is a frame whose records the methods look up.
type request []byte

func (f request) count() int { return int(le.Uint32(f[8:])) }

func (f request) payload(i int) []byte {
	r := f[le.Uint32(f[12:])+uint32(i)*le.Uint32(f[16:]):]
	off, n := le.Uint32(r), le.Uint32(r[4:])
	if n == 0xffffffff {
		return nil
	}
	return f[off : off+n]
}

func frame(at unsafe.Pointer, size uint32) request {
	return unsafe.Slice((*byte)(at), size)
}

func returned() uint64 {
	runtime.Gosched() // lets the collector run: an export that never yields starves it
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(output))))<<32 | uint64(len(output))
}

// answer is a frame with one query of one parameter, value, and a statement for
// each of the values.
func answer(query string, values [][]byte) uint64 {
	const header, entry, name = 28, 16, "value"
	statements := header + entry
	names := statements + entry*len(values)
	text := names + 8
	nameAt := text + len(query)
	at := nameAt + len(name)

	output = append(output[:0], make([]byte, at)...)
	for i, v := range []int{0x31524d47, 1, header, len(values), statements, 0, 0, text, len(query), names, 1} {
		le.PutUint32(output[4*i:], uint32(v))
	}
	le.PutUint32(output[names:], uint32(nameAt))
	le.PutUint32(output[names+4:], uint32(len(name)))
	copy(output[text:], query)
	copy(output[nameAt:], name)
	for i, v := range values {
		s := output[statements+entry*i:]
		le.PutUint32(s[4:], uint32(i))
		le.PutUint32(s[8:], uint32(len(output)))
		le.PutUint32(s[12:], uint32(len(v)+6))
		output = append(output, 0x91, 0xdb)
		output = binary.BigEndian.AppendUint32(output, uint32(len(v)))
		output = append(output, v...)
	}
	return returned()
}

//go:wasmexport transform
func transform(at unsafe.Pointer, size uint32) uint64 {
	f := frame(at, size)
	values := make([][]byte, f.count())
	for i := range values {
		le.PutUint32(f[4:], uint32(i))
		values[i] = f.payload(i)
	}
	return answer("RETURN $value", values)
}

// garbage leaves so many KiB behind as each payload says.
//
//go:wasmexport garbage
func garbage(at unsafe.Pointer, size uint32) uint64 {
	f := frame(at, size)
	var values [][]byte
	for i := range f.count() {
		n, _ := strconv.Atoi(string(f.payload(i)))
		for range n {
			kept = make([]byte, 1024)
		}
	}
	return answer("RETURN $value", values)
}

var kept []byte

// probe tells what the guest sees of the world.
//
//go:wasmexport probe
func probe(unsafe.Pointer, uint32) uint64 {
	before := time.Now()
	time.Sleep(10 * time.Millisecond)
	for time.Since(before) < time.Millisecond {
	}
	_, fileErr := os.ReadFile("/etc/passwd")
	_, dirErr := os.ReadDir("/")
	random := make([]byte, 16)
	rand.Read(random)
	return answer("PROBE", [][]byte{
		[]byte(strconv.FormatInt(before.UnixMilli(), 10)),
		[]byte(strconv.FormatBool(time.Since(before) > 0)),
		[]byte(fmt.Sprint(fileErr != nil, dirErr != nil)),
		[]byte(fmt.Sprintf("%x", random)),
		[]byte(fmt.Sprint(len(os.Args), len(os.Environ()))),
	})
}

// speak writes to everything that there is to write to.
//
//go:wasmexport speak
func speak(at unsafe.Pointer, size uint32) uint64 {
	f := frame(at, size)
	for i := range f.count() {
		text := f.payload(i)
		log(uint32(i), unsafe.Pointer(unsafe.SliceData(text)), uint32(len(text)))
		fmt.Printf("out %s\nand ", text)
		fmt.Fprintf(os.Stderr, "err %s\r\n", text)
	}
	return answer("RETURN $value", nil)
}

//go:wasmexport crash
func crash(at unsafe.Pointer, size uint32) uint64 {
	f := frame(at, size)
	for i := range f.count() {
		le.PutUint32(f[4:], uint32(i))
		if string(f.payload(i)) == "crash" {
			panic("message is bad")
		}
	}
	return answer("RETURN $value", nil)
}

// hoard keeps all that it allocates.
//
//go:wasmexport hoard
func hoard(unsafe.Pointer, uint32) uint64 {
	for {
		hoarded = append(hoarded, make([]byte, 1<<20))
	}
}

var hoarded [][]byte

//go:wasmexport endless
func endless(unsafe.Pointer, uint32) uint64 {
	for n := 0; ; n++ {
		kept = append(kept[:0], byte(n))
	}
}

// Reading configure's settings back.
//
//go:wasmexport settings
func tellSettings(unsafe.Pointer, uint32) uint64 {
	return answer("SETTINGS", [][]byte{fmt.Appendf(nil, "%x", settings)})
}
