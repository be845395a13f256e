// Graphmill turns streams of messages into a graph. See graphmill --help.
package main

import "os"

func main() {
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(),
		compiler: compilerOfThisProgram(), interrupts: &interrupts{},
	}
	os.Exit(a.run(a.interrupts.untilSignal(), os.Args[1:]))
}
