// Graphmill turns streams of messages into a graph. See graphmill --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end. It also gives the signals back
	// to the system, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(),
		compiler: compilerOfThisProgram(),
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}
