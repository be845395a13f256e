package wasmhost

import (
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// WASI's error numbers that are used here.
const (
	errnoSuccess = 0
	errnoBadF    = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoNoSys   = 52
	errnoNotSup  = 58
)

// wasiFunctions is what guests get of WASI preview 1. Guests link far more of it
// than they need: a libc brings files along, so that importing a function must
// be possible where using it is not.
func wasiFunctions() map[string]hostFunction {
	errno := []api.ValueType{i32}
	f := map[string]hostFunction{
		"proc_exit": {params: []api.ValueType{i32}, call: procExit},
	}
	for _, w := range []struct {
		name   string
		params string // i: i32, I: i64
		call   func(i *Instance, mem api.Memory, p []uint64) uint32
	}{
		{"args_get", "ii", wasiSuccess},
		{"args_sizes_get", "ii", wasiNone},
		{"environ_get", "ii", wasiSuccess},
		{"environ_sizes_get", "ii", wasiNone},
		{"clock_res_get", "ii", clockResGet},
		{"clock_time_get", "iIi", clockTimeGet},
		{"random_get", "ii", randomGet},
		{"sched_yield", "", wasiSuccess},
		{"poll_oneoff", "iiii", pollOneoff},
		{"fd_write", "iiii", fdWrite},
		{"fd_fdstat_get", "ii", fdFdstatGet},
		{"fd_filestat_get", "ii", fdFilestatGet},

		{"proc_raise", "i", wasiNoSys},
		{"fd_advise", "iIIi", wasiBadF},
		{"fd_allocate", "iII", wasiBadF},
		{"fd_close", "i", wasiBadF},
		{"fd_datasync", "i", wasiBadF},
		{"fd_fdstat_set_flags", "ii", wasiBadF},
		{"fd_fdstat_set_rights", "iII", wasiBadF},
		{"fd_filestat_set_size", "iI", wasiBadF},
		{"fd_filestat_set_times", "iIIi", wasiBadF},
		{"fd_pread", "iiiIi", wasiBadF},
		{"fd_prestat_get", "ii", wasiBadF},
		{"fd_prestat_dir_name", "iii", wasiBadF},
		{"fd_pwrite", "iiiIi", wasiBadF},
		{"fd_read", "iiii", wasiBadF},
		{"fd_readdir", "iiiIi", wasiBadF},
		{"fd_renumber", "ii", wasiBadF},
		{"fd_seek", "iIii", wasiBadF},
		{"fd_sync", "i", wasiBadF},
		{"fd_tell", "ii", wasiBadF},
		{"path_create_directory", "iii", wasiBadF},
		{"path_filestat_get", "iiiii", wasiBadF},
		{"path_filestat_set_times", "iiiiIIi", wasiBadF},
		{"path_link", "iiiiiii", wasiBadF},
		{"path_open", "iiiiiIIii", wasiBadF},
		{"path_readlink", "iiiiii", wasiBadF},
		{"path_remove_directory", "iii", wasiBadF},
		{"path_rename", "iiiiii", wasiBadF},
		{"path_symlink", "iiiii", wasiBadF},
		{"path_unlink_file", "iii", wasiBadF},
		{"sock_accept", "iii", wasiBadF},
		{"sock_recv", "iiiiii", wasiBadF},
		{"sock_send", "iiiii", wasiBadF},
		{"sock_shutdown", "ii", wasiBadF},
	} {
		var params []api.ValueType
		for _, c := range w.params {
			t := i32
			if c == 'I' {
				t = i64
			}
			params = append(params, t)
		}
		f[w.name] = hostFunction{params: params, results: errno, call: func(i *Instance, mem api.Memory, stack []uint64) {
			stack[0] = uint64(w.call(i, mem, stack))
		}}
	}
	return f
}

func wasiSuccess(*Instance, api.Memory, []uint64) uint32 { return errnoSuccess }
func wasiBadF(*Instance, api.Memory, []uint64) uint32    { return errnoBadF }
func wasiNoSys(*Instance, api.Memory, []uint64) uint32   { return errnoNoSys }

// wasiNone answers how many arguments or variables there are, and how many bytes
// they take: none.
func wasiNone(_ *Instance, mem api.Memory, p []uint64) uint32 {
	if !mem.WriteUint32Le(uint32(p[0]), 0) || !mem.WriteUint32Le(uint32(p[1]), 0) {
		return errnoFault
	}
	return errnoSuccess
}

// procExit ends the guest with any status, 0 too. The instance is only marked:
// wazero's own proc_exit closes the module, after which the next call into it
// would touch memory that is gone.
func procExit(_ *Instance, _ api.Memory, stack []uint64) {
	panic(&guestExit{status: uint32(stack[0])})
}

// Clocks of WASI.
const (
	clockRealtime  = 0
	clockMonotonic = 1
	clockProcess   = 2
	clockThread    = 3
)

// clockTimeGet tells the real time. Go's runtime in a guest paces its garbage
// collector by the monotonic clock: with one that stands still it never runs.
func clockTimeGet(i *Instance, mem api.Memory, p []uint64) uint32 {
	var now int64
	switch uint32(p[0]) {
	case clockRealtime:
		now = time.Now().UnixNano()
	case clockMonotonic, clockProcess, clockThread:
		now = int64(time.Since(i.born) + time.Second) // some runtimes take 0 for a failure
	default:
		return errnoInval
	}
	if !mem.WriteUint64Le(uint32(p[2]), uint64(now)) {
		return errnoFault
	}
	return errnoSuccess
}

func clockResGet(_ *Instance, mem api.Memory, p []uint64) uint32 {
	if uint32(p[0]) > clockThread {
		return errnoInval
	}
	if !mem.WriteUint64Le(uint32(p[1]), uint64(time.Microsecond)) {
		return errnoFault
	}
	return errnoSuccess
}

// hostChunk bounds what one host call does before it looks at the clock, in
// bytes: a guest's fuel does not pay for the host's work.
const hostChunk = 64 << 10

func randomGet(i *Instance, mem api.Memory, p []uint64) uint32 {
	buf, ok := mem.Read(uint32(p[0]), uint32(p[1]))
	if !ok {
		return errnoFault
	}
	for len(buf) > 0 {
		i.checkTime()
		n := min(len(buf), hostChunk)
		rand.Read(buf[:n]) // never fails
		buf = buf[n:]
	}
	return errnoSuccess
}

// Sizes of structures in a guest's memory.
const (
	iovecSize        = 8
	fdstatSize       = 24
	filestatSize     = 64
	subscriptionSize = 48
	eventSize        = 32
)

const filetypeCharacterDevice = 2

func isStandard(fd uint64) bool { return uint32(fd) <= 2 }

func fdFdstatGet(_ *Instance, mem api.Memory, p []uint64) uint32 {
	if !isStandard(p[0]) {
		return errnoBadF
	}
	stat, ok := mem.Read(uint32(p[1]), fdstatSize)
	if !ok {
		return errnoFault
	}
	clear(stat)
	stat[0] = filetypeCharacterDevice
	if uint32(p[0]) != 0 {
		const rightFdWrite = 1 << 6
		binary.LittleEndian.PutUint64(stat[8:], rightFdWrite)
	}
	return errnoSuccess
}

func fdFilestatGet(_ *Instance, mem api.Memory, p []uint64) uint32 {
	if !isStandard(p[0]) {
		return errnoBadF
	}
	stat, ok := mem.Read(uint32(p[1]), filestatSize)
	if !ok {
		return errnoFault
	}
	clear(stat)
	stat[16] = filetypeCharacterDevice
	return errnoSuccess
}

// fdWrite writes standard output and standard error to the log, at most
// hostChunk bytes at once: the guest's libc asks again for the rest.
func fdWrite(i *Instance, mem api.Memory, p []uint64) uint32 {
	i.checkTime()
	var level slog.Level
	switch uint32(p[0]) {
	case 1:
		level = slog.LevelInfo
	case 2:
		level = slog.LevelWarn
	default:
		return errnoBadF
	}
	const maxVectors = 1024
	count := uint32(p[2])
	if count > maxVectors {
		return errnoInval
	}
	vectors, ok := mem.Read(uint32(p[1]), count*iovecSize)
	if !ok {
		return errnoFault
	}
	written := 0
	for ; len(vectors) > 0 && written < hostChunk; vectors = vectors[iovecSize:] {
		text, ok := mem.Read(binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:]))
		if !ok {
			return errnoFault
		}
		text = text[:min(len(text), hostChunk-written)]
		i.log.write(level, text)
		written += len(text)
	}
	if !mem.WriteUint32Le(uint32(p[3]), uint32(written)) {
		return errnoFault
	}
	return errnoSuccess
}

// pollOneoff answers that every wait on a clock is over: sleeping takes no time,
// since nothing that a guest waits for could happen meanwhile.
func pollOneoff(i *Instance, mem api.Memory, p []uint64) uint32 {
	i.checkTime()
	const maxSubscriptions = 1024
	n := uint32(p[2])
	if n == 0 || n > maxSubscriptions {
		return errnoInval
	}
	in, inOK := mem.Read(uint32(p[0]), n*subscriptionSize)
	out, outOK := mem.Read(uint32(p[1]), n*eventSize)
	if !inOK || !outOK {
		return errnoFault
	}
	const kindClock = 0
	for k := range int(n) {
		sub, event := in[k*subscriptionSize:], out[k*eventSize:][:eventSize]
		userdata, kind := binary.LittleEndian.Uint64(sub), sub[8]
		clear(event)
		binary.LittleEndian.PutUint64(event, userdata)
		event[10] = kind
		if kind != kindClock {
			binary.LittleEndian.PutUint16(event[8:], errnoNotSup)
		}
	}
	if !mem.WriteUint32Le(uint32(p[3]), n) {
		return errnoFault
	}
	return errnoSuccess
}
