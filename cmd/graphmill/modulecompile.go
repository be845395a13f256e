package main

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill/wasmhost"
)

// compileCommandName is the command of a process that a server starts to compile
// one module. It is not for people.
const compileCommandName = "compile-module"

func (a *app) compileCommand() *cobra.Command {
	return &cobra.Command{
		Use:    compileCommandName,
		Short:  "Compile one module; started by a server, whose limits come on standard input",
		Hidden: true,
		Args:   takes(),
		RunE:   func(*cobra.Command, []string) error { return wasmhost.RunCompiler(a.in, a.out) },
	}
}

// compilerOfThisProgram is the command line of compile-module: of this very
// program, since the machine code must come from the same compiler. Nil where the
// program does not know its own file.
func compilerOfThisProgram() []string {
	if runtime.GOOS == "linux" {
		// Still right when the file has been replaced by a newer one.
		return []string{"/proc/self/exe", compileCommandName}
	}
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, compileCommandName}
}
