package wasmhost

import (
	"fmt"
	"syscall"
	"time"
)

// limitProcess has the kernel bound this process. Memory is bounded as data,
// which is what is mapped to be written: Go reserves far more address space than
// it uses, so that a bound of that would say nothing.
func limitProcess(memory int64, compileTime time.Duration) error {
	// The workers run at once, and the time is the processors'.
	seconds := uint64(compileWorkers*compileTime/time.Second) + 2
	for _, l := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"data", syscall.RLIMIT_DATA, uint64(memory)},
		{"processor time", syscall.RLIMIT_CPU, seconds},
		{"file size", syscall.RLIMIT_FSIZE, uint64(memory / machineCodeShare)},
		{"core file", syscall.RLIMIT_CORE, 0},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		value := min(l.value, now.Max) // an administrator's own limit stays
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}
