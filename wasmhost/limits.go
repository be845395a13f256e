package wasmhost

import (
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/meter"
)

// Limits are what modules are held to. The zero value of a field means what
// DefaultLimits says, but for Response. Counts.MemoryPages is not looked at:
// MaxMemory says it.
type Limits struct {
	ModuleBytes int64         // bytes of an uploaded file
	CompileTime time.Duration // for compiling one module
	Counts      meter.Limits  // what a module may hold, checked before it is compiled

	// CompileMemory is what compiling one module may take, in bytes, where a process
	// of its own does it (Config.Compiler); a quarter of it is for the machine code.
	CompileMemory int64

	Memory    int64         // bytes of linear memory of an instance, where its stream does not say
	MaxMemory int64         // the most that a stream may ask for; a multiple of 64 KiB, at most 4 GiB - 64 KiB
	Time      time.Duration // for one call into an instance, where its stream does not say
	MaxTime   time.Duration // the most that a stream may ask for

	Response       int64 // bytes of a response frame, where its stream does not say; 0: half of the instance's memory
	Statements     int   // of a response
	QueryTexts     int   // of a response
	QueryTextBytes int   // bytes of one query text
	Decoded        int64 // bytes of the host's memory for the statements and values of one response

	LogLines int // a second and instance
}

// pageSize is the unit in which linear memory grows, in bytes.
const pageSize = 64 << 10

// DefaultLimits returns the defaults.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes:    32 << 20,
		CompileTime:    60 * time.Second,
		CompileMemory:  1 << 30,
		Counts:         meter.DefaultLimits(),
		Memory:         64 << 20,
		MaxMemory:      256 << 20,
		Time:           5 * time.Second,
		MaxTime:        10 * time.Minute,
		Statements:     1_000_000,
		QueryTexts:     65_536,
		QueryTextBytes: 1 << 20,
		Decoded:        512 << 20,
		LogLines:       100,
	}
}

// withDefaults fills in what is zero and checks the rest. The error is of
// KindInvalid and names the setting.
func (l Limits) withDefaults() (Limits, error) {
	d := DefaultLimits()
	orDefault(&l.ModuleBytes, d.ModuleBytes)
	orDefault(&l.CompileTime, d.CompileTime)
	orDefault(&l.CompileMemory, d.CompileMemory)
	l.Counts = l.Counts.WithDefaults()
	orDefault(&l.MaxMemory, d.MaxMemory)
	orDefault(&l.Memory, min(d.Memory, l.MaxMemory))
	orDefault(&l.MaxTime, d.MaxTime)
	orDefault(&l.Time, min(d.Time, l.MaxTime))
	orDefault(&l.Statements, d.Statements)
	orDefault(&l.QueryTexts, d.QueryTexts)
	orDefault(&l.QueryTextBytes, d.QueryTextBytes)
	orDefault(&l.Decoded, d.Decoded)
	orDefault(&l.LogLines, d.LogLines)
	l.Counts.MemoryPages = int(l.MaxMemory / pageSize)

	const wholeMemory = 4<<30 - pageSize
	for _, r := range []struct {
		name             string
		value, low, high int64
	}{
		{"module_bytes", l.ModuleBytes, 1, 1 << 30},
		{"compile_time", int64(l.CompileTime), 1, int64(time.Hour)},
		{"compile_memory", l.CompileMemory, 256 << 20, 1 << 40},
		{"max_memory", l.MaxMemory, pageSize, wholeMemory},
		{"memory", l.Memory, pageSize, l.MaxMemory},
		{"max_time", int64(l.MaxTime), 1, int64(time.Hour)},
		{"time", int64(l.Time), 1, int64(l.MaxTime)},
		{"response", l.Response, 0, l.MaxMemory},
		{"statements", int64(l.Statements), 1, 1 << 31},
		{"query_texts", int64(l.QueryTexts), 1, 1 << 31},
		{"query_text_bytes", int64(l.QueryTextBytes), 1, 1 << 31},
		{"decoded", l.Decoded, 1 << 20, 1 << 40},
		{"log_lines", int64(l.LogLines), 1, 1 << 31},
	} {
		if r.value < r.low || r.value > r.high {
			return Limits{}, graphmill.Invalid("limits."+r.name, "%d is outside of %d to %d", r.value, r.low, r.high)
		}
	}
	return l, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
