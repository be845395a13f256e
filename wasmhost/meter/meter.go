// Package meter reads a WebAssembly module with suspicion and rewrites it so
// that its host can stop it.
//
// An engine that compiles to machine code cannot interrupt a guest: one that
// loops for ever would stop even Go's garbage collector, and with it the whole
// process. So the module is given fuel, a counter in a global of its own. Every
// loop and every function that calls or is long takes fuel for the instructions
// that it is about to run, and every instruction that works on a range of memory or
// of a table for the size of that; when none is left, the guest calls the imported
// function yield, which tells the guest how much it gets next, lets Go's
// scheduler in, or ends the guest by panicking.
//
// Parse bounds every count in the binary before anything is allocated or
// compiled for it, since a compiler trusts them: 56 bytes that declare four
// billion local variables end a process. Rewrite adds the fuel and clamps memory
// and tables. Both return *Error and never panic.
package meter

import "fmt"

// The import that Rewrite adds: a function without parameters that returns the
// fuel (i64) for the time until its next call. A guest may not import it itself.
const (
	YieldModule = "graphmill_meter"
	YieldName   = "yield"
)

// TickWeight is how many plain instructions one unit of fuel stands for, at
// most. So fuel is bound to time: a unit is about 10 ns of straight code.
const TickWeight = 32

// Limits are the most that a module may hold. Zero means none at all; see
// WithDefaults.
type Limits struct {
	Functions int // functions, imported ones not counted
	Entries   int // entries of each other section: types, imports, globals, exports; and custom sections
	Segments  int // data segments, element segments; Go makes tens of thousands

	Params      int // parameters of a type, and as many results
	Locals      int // local variables of a function
	AllLocals   int // parameters, results and local variables of all functions together
	Body        int // bytes of a function's body
	Nesting     int // blocks, loops and ifs within one another
	Branches    int // blocks, branches and targets of br_tables of a function; an if, a br_if or an instruction on a range counts for 2, a loop for 6
	Accesses    int // accesses to memory, divisions and indirect calls of a function: what a compiler adds a check to
	BrTable     int // targets of a br_table
	Operands    int // values that the calls, branches and blocks of a function pass, in total
	Tables      int // tables
	TableSize   int // entries of a table
	MemoryPages int // pages of 64 KiB of the memory, the most that it may grow to
}

// DefaultLimits leave room above the output of every toolchain that was met (Go
// nests a block for each call in a function), and keep what a hostile function
// costs the compiler within about 10 seconds and a gigabyte: the time for the
// branches of a function grows with the square of their number at least, and each
// access takes kilobytes.
func DefaultLimits() Limits {
	return Limits{
		Functions:   100_000,
		Entries:     10_000,
		Segments:    1_000_000,
		Params:      1_000,
		Locals:      50_000,
		AllLocals:   4_000_000,
		Body:        1 << 20,
		Nesting:     5_000,
		Branches:    30_000,
		Accesses:    200_000,
		BrTable:     10_000,
		Operands:    1_000_000,
		Tables:      16,
		TableSize:   100_000,
		MemoryPages: 256 << 20 >> 16,
	}
}

// WithDefaults returns the limits with the defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Functions, d.Functions}, {&l.Entries, d.Entries}, {&l.Segments, d.Segments},
		{&l.Params, d.Params}, {&l.Locals, d.Locals}, {&l.AllLocals, d.AllLocals}, {&l.Body, d.Body},
		{&l.Nesting, d.Nesting}, {&l.Branches, d.Branches}, {&l.Accesses, d.Accesses}, {&l.BrTable, d.BrTable},
		{&l.Operands, d.Operands}, {&l.Tables, d.Tables}, {&l.TableSize, d.TableSize}, {&l.MemoryPages, d.MemoryPages},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

// Reason says in which way a module cannot be used.
type Reason uint8

// The reasons.
const (
	Malformed   Reason = iota // a module, but not a sound one
	NotWasm                   // no WebAssembly at all
	Component                 // a component, not a core module
	Truncated                 // ends in the middle
	OverLimit                 // one of Limits
	Unsupported               // a feature that the host does not offer
)

// Error is why a module cannot be used.
type Error struct {
	Reason Reason
	Text   string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

func errorf(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}
