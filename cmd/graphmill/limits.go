package main

import (
	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill/wasmhost"
)

// limitSettings are the bounds of modules. Their flags are the names of
// wasmhost.Limits behind "limit-", so that its errors name them.
type limitSettings struct {
	values wasmhost.Limits

	moduleBytes, compileMemory, memory, maxMemory, response, decoded byteCount
}

func (l *limitSettings) add(fs *pflag.FlagSet) {
	l.values = wasmhost.DefaultLimits()
	v, c := &l.values, &l.values.Counts
	size := func(p *byteCount, name string, value int64, usage string) {
		*p = byteCount(value)
		fs.Var(p, "limit-"+name, usage)
	}
	count := func(p *int, name, usage string) { fs.IntVar(p, "limit-"+name, *p, usage) }

	size(&l.moduleBytes, "module-bytes", v.ModuleBytes, "size of an uploaded module")
	size(&l.memory, "memory", v.Memory, "linear memory of a transformation whose stream does not say")
	size(&l.maxMemory, "max-memory", v.MaxMemory, "the most memory that a stream may ask for")
	fs.DurationVar(&v.Time, "limit-time", v.Time, "time for one batch of a transformation whose stream does not say")
	fs.DurationVar(&v.MaxTime, "limit-max-time", v.MaxTime, "the most time that a stream may ask for")
	size(&l.response, "response", v.Response, "answer of a transformation for one batch, where its stream does not say; 0: half of its memory")
	count(&v.Statements, "statements", "statements of one answer")
	count(&v.QueryTexts, "query-texts", "query texts of one answer")
	count(&v.QueryTextBytes, "query-text-bytes", "bytes of one query text")
	size(&l.decoded, "decoded", v.Decoded, "memory of the server for the values of one answer")
	count(&v.LogLines, "log-lines", "log lines of a transformation a second")
	fs.DurationVar(&v.CompileTime, "limit-compile-time", v.CompileTime, "time to compile a module")
	size(&l.compileMemory, "compile-memory", v.CompileMemory, "memory to compile a module, in a process of its own (kept on Linux)")
	for _, m := range []struct {
		p           *int
		name, usage string
	}{
		{&c.Functions, "functions", "functions of a module"},
		{&c.Entries, "entries", "types, imports, globals or exports of a module"},
		{&c.Segments, "segments", "data or element segments of a module"},
		{&c.Params, "params", "parameters of a function"},
		{&c.Locals, "locals", "local variables of a function"},
		{&c.AllLocals, "all-locals", "local variables of all functions"},
		{&c.Body, "body", "bytes of a function's body"},
		{&c.Nesting, "nesting", "blocks within one another"},
		{&c.Branches, "branches", "branches and blocks of a function"},
		{&c.Accesses, "accesses", "accesses to memory, divisions and indirect calls of a function"},
		{&c.BrTable, "br-table", "targets of a br_table"},
		{&c.Operands, "operands", "values that a function's calls and branches pass"},
		{&c.Tables, "tables", "tables of a module"},
		{&c.TableSize, "table-size", "entries of a table"},
	} {
		count(m.p, m.name, m.usage)
		// For the rare module that needs more; help stays readable without them.
		fs.Lookup("limit-" + m.name).Hidden = true
	}
}

// limits returns what the flags say.
func (l *limitSettings) limits() wasmhost.Limits {
	v := l.values
	v.ModuleBytes = int64(l.moduleBytes)
	v.CompileMemory = int64(l.compileMemory)
	v.Memory = int64(l.memory)
	v.MaxMemory = int64(l.maxMemory)
	v.Response = int64(l.response)
	v.Decoded = int64(l.decoded)
	return v
}

func (l *limitSettings) maxModuleBytes() int64 { return int64(l.moduleBytes) }
