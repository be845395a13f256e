//go:build !unix

package wasmhost

import (
	"os"
	"syscall"
)

func ownProcessGroup() *syscall.SysProcAttr { return nil }

func onProcessorTimeOver(func()) {}

func ranOutOfProcessorTime(*os.ProcessState, uint64) bool { return false }

func wasEndedFromOutside(*os.ProcessState) bool { return false }
