//go:build unix

package wasmhost

import (
	"os"
	"os/signal"
	"syscall"
)

func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// onProcessorTimeOver calls f once the kernel tells this process that its
// processor time is over. Go takes no notice of that signal by itself.
func onProcessorTimeOver(f func()) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGXCPU)
	go func() {
		<-told
		f()
	}()
}

// signalOf returns the signal that ended a process; 0: none did.
func signalOf(state *os.ProcessState) syscall.Signal {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// ranOutOfProcessorTime says whether the kernel ended a process that was allowed
// so many seconds: by SIGXCPU, or by SIGKILL where it did not end by itself then.
func ranOutOfProcessorTime(state *os.ProcessState, seconds uint64) bool {
	switch signalOf(state) {
	case syscall.SIGXCPU:
		return true
	case syscall.SIGKILL:
		return (state.UserTime() + state.SystemTime()).Seconds() >= 0.8*float64(seconds)
	}
	return false
}

// wasEndedFromOutside says whether a process was ended by a signal that it does not
// bring upon itself: the kernel's, where the machine has no memory left, or an
// administrator's.
func wasEndedFromOutside(state *os.ProcessState) bool {
	switch signalOf(state) {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		return true
	}
	return false
}
