//go:build unix

package wasmhost

import (
	"errors"
	"os/exec"
	"syscall"
)

func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// cpuTimeIsOver says whether the kernel ended a process for its processor time.
func cpuTimeIsOver(ended error) bool {
	var exit *exec.ExitError
	if !errors.As(ended, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}
