package api_test

import (
	"bytes"
	"encoding/binary"
)

// The modules of these tests are put together by hand: they are small, so that
// nothing is spent on compiling them, and do one thing.

// seenModule answers every batch with one statement, of its first message:
// MERGE (:Seen {n: $n}) with n = 9007199254740993.
var seenModule = module(seenFrame(), i64Const(frameAddress<<32|int64(len(seenFrame()))))

// loopModule never comes back from its transformation: (loop (br 0)).
var loopModule = module(nil, []byte{0x03, 0x40, 0x0c, 0x00, 0x0b, 0x00})

const frameAddress = 4096

// seenFrame is a response frame of transformation ABI 1.
func seenFrame() []byte {
	const query = "MERGE (:Seen {n: $n})"
	params := []byte{0x81, 0xa1, 'n', 0xd3, 0x00, 0x20, 0, 0, 0, 0, 0, 1} // msgpack: {"n": 2^53 + 1}
	const queries, statements, texts = 32, 48, 64
	var b []byte
	for _, v := range []uint32{
		0x31524d47, 1, queries, 1, statements, 0, texts, 0,
		texts, uint32(len(query)), 0, 0, // the query, its parameters as maps
		0, 0, uint32(texts + len(query)), uint32(len(params)), // query 0, message 0
	} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(append(b, query...), params...)
}

// module exports what ABI 1 asks for, and the function transform with body,
// which ends with its i64 on the stack. data stands at frameAddress.
func module(data, body []byte) string {
	function := func(code ...byte) []byte { return sized(append([]byte{0x00}, append(code, 0x0b)...)) }
	export := func(name string, kind, index byte) []byte { return append(sized([]byte(name)), kind, index) }

	m := []byte("\x00asm\x01\x00\x00\x00")
	m = append(m, section(1, // types
		[]byte{0x60, 0, 0},
		[]byte{0x60, 1, 0x7f, 1, 0x7f},
		[]byte{0x60, 2, 0x7f, 0x7f, 1, 0x7e})...)
	m = append(m, section(3, []byte{0}, []byte{1}, []byte{2})...) // functions
	m = append(m, section(5, []byte{0x00, 2})...)                 // memory of two pages
	m = append(m, section(7,
		export("memory", 2, 0),
		export("graphmill_abi_v1", 0, 0),
		export("graphmill_alloc", 0, 1),
		export("transform", 0, 2))...)
	m = append(m, section(10,
		function(),
		function(0x41, 0x80, 0x80, 0x04), // the input buffer is the second page
		function(body...))...)
	if data != nil {
		at := append([]byte{0x00, 0x41}, signed(frameAddress)...)
		m = append(m, section(11, append(append(at, 0x0b), sized(data)...))...)
	}
	return string(m)
}

func section(id byte, entries ...[]byte) []byte {
	all := append(unsigned(uint64(len(entries))), bytes.Join(entries, nil)...)
	return append([]byte{id}, sized(all)...)
}

func sized(b []byte) []byte { return append(unsigned(uint64(len(b))), b...) }

func i64Const(v int64) []byte { return append([]byte{0x42}, signed(v)...) }

// unsigned is LEB128.
func unsigned(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// signed is signed LEB128.
func signed(v int64) []byte {
	var b []byte
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}
