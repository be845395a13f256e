package wasmhost

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// killedAfter is how many seconds of processor time a process has between SIGXCPU,
// upon which it tells that its time is over, and SIGKILL.
const killedAfter = 5

// limitProcess has the kernel bound this process. Memory is bounded as data,
// which is what is mapped to be written: Go reserves far more address space than
// it uses, so that a bound of that would say nothing.
//
// Where the whole machine, or the container, runs out of memory, this process is the
// one to be killed for it, rather than its server.
func limitProcess(memory int64, compileTime time.Duration) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // without /proc it is as any other
	seconds := processorSeconds(compileTime)
	for _, l := range []struct {
		name       string
		resource   int
		soft, hard uint64
	}{
		{"data", syscall.RLIMIT_DATA, uint64(memory), uint64(memory)},
		{"processor time", syscall.RLIMIT_CPU, seconds, seconds + killedAfter},
		{"file size", syscall.RLIMIT_FSIZE, uint64(memory / machineCodeShare), uint64(memory / machineCodeShare)},
		{"core file", syscall.RLIMIT_CORE, 0, 0},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		hard := min(l.hard, now.Max) // an administrator's own limit stays
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: min(l.soft, hard), Max: hard}); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}
