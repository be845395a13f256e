package wasmtest

import "encoding/binary"

// Instructions without immediates.
var (
	Unreachable = []byte{0x00}
	Return      = []byte{0x0f}
	Drop        = []byte{0x1a}
	Else        = []byte{0x05}
	End         = []byte{0x0b}
	I32Add      = []byte{0x6a}
	I32Eqz      = []byte{0x45}
	MemorySize  = []byte{0x3f, 0}
	MemoryGrow  = []byte{0x40, 0}
	MemoryFill  = []byte{0xfc, 11, 0}
)

// I32Const pushes v.
func I32Const(v int32) []byte { return Cat([]byte{0x41}, S64(int64(v))) }

// I64Const pushes v.
func I64Const(v int64) []byte { return Cat([]byte{0x42}, S64(v)) }

// F64Const pushes the number with these bits.
func F64Const(bits uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{0x44}, bits) }

// LocalGet pushes local variable i.
func LocalGet(i uint32) []byte { return Cat([]byte{0x20}, U32(i)) }

// LocalSet pops into local variable i.
func LocalSet(i uint32) []byte { return Cat([]byte{0x21}, U32(i)) }

// GlobalGet pushes global variable i.
func GlobalGet(i uint32) []byte { return Cat([]byte{0x23}, U32(i)) }

// GlobalSet pops into global variable i.
func GlobalSet(i uint32) []byte { return Cat([]byte{0x24}, U32(i)) }

// Call calls function i.
func Call(i uint32) []byte { return Cat([]byte{0x10}, U32(i)) }

// ReturnCall is a tail call of function i.
func ReturnCall(i uint32) []byte { return Cat([]byte{0x12}, U32(i)) }

// I32Store stores at an address and an offset.
func I32Store(offset uint32) []byte { return Cat([]byte{0x36, 2}, U32(offset)) }

// Block has no parameters and no results; Br(0) in it leaves it.
func Block(body ...[]byte) []byte { return Cat([]byte{0x02, 0x40}, Cat(body...), End) }

// Loop goes on only where its body branches to it: Br(0).
func Loop(body ...[]byte) []byte { return Cat([]byte{0x03, 0x40}, Cat(body...), End) }

// Br branches to the block that is depth blocks out.
func Br(depth uint32) []byte { return Cat([]byte{0x0c}, U32(depth)) }

// BrIf is Br on a condition.
func BrIf(depth uint32) []byte { return Cat([]byte{0x0d}, U32(depth)) }

// Forever loops without end around body.
func Forever(body ...[]byte) []byte { return Loop(Cat(body...), Br(0)) }
