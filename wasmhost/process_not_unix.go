//go:build !unix

package wasmhost

import "syscall"

func ownProcessGroup() *syscall.SysProcAttr { return nil }

func cpuTimeIsOver(error) bool { return false }
