// Bench measures how fast ratings get through Graphmill, against what one would
// write by hand, in rounds of one run that alternate. "graph" is Kafka to Neo4j:
//
//	handwritten   a Go program made for this topic, with one UNWIND (the limit)
//	graphmill     the stream with the movies plugin, a sandboxed Go guest
//	one by one    the same stream with COALESCE off: a round trip a statement
//
// "pulsar" is Pulsar to the ledger, so that the way in is measured and no database:
//
//	raw loop      pulsar-client-go, with nothing done to the messages (the limit)
//	source        sources/pulsar alone, with nothing done to them either
//	graphmill     the stream with the movies plugin, recorded in the ledger
//
// Rows are counted where they arrive: a round begins when its reader is told to
// read, and ends when all that it reads is there and acknowledged. The machine's
// load moves absolute figures; read the ratios. Run it with "make bench".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	var o options
	flag.IntVar(&o.graphRows, "graph-rows", 50_000, "rows of a round of graph; one by one takes a fifth of them")
	flag.IntVar(&o.graphRounds, "graph-rounds", 3, "rounds of graph")
	flag.IntVar(&o.pulsarRows, "pulsar-rows", 500_000, "rows of a round of pulsar")
	flag.IntVar(&o.pulsarRounds, "pulsar-rounds", 5, "rounds of pulsar")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of the Pulsar source, in the first round that counts, to this file")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] [graph] [pulsar]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	graphRows, graphRounds   int
	pulsarRows, pulsarRounds int
	profile                  string
}

// run runs the benchmarks that are named, or all.
func run(ctx context.Context, out io.Writer, o options, names []string) error {
	if len(names) == 0 {
		names = []string{"graph", "pulsar"}
	}
	for _, name := range names {
		fmt.Fprintf(out, "\n== %s\n", name)
		var err error
		switch name {
		case "graph":
			err = runGraph(ctx, out, o)
		case "pulsar":
			err = runPulsar(ctx, out, o)
		default:
			err = errors.New("there is no such benchmark; there are graph and pulsar")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func runGraph(ctx context.Context, out io.Writer, o options) (err error) {
	b, err := openGraph(ctx, out, o.graphRows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return compare(ctx, out, b.contenders(o.graphRows), o.graphRounds)
}

func runPulsar(ctx context.Context, out io.Writer, o options) (err error) {
	b, err := openPulsar(ctx, out, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return compare(ctx, out, b.contenders(), o.pulsarRounds)
}
