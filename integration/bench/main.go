// Bench measures how fast ratings get from a real Kafka into a real Neo4j, in
// one run and in rounds that alternate:
//
//	handwritten   a Go program made for this topic, with one UNWIND (the limit)
//	graphmill     the stream with the movies plugin, a sandboxed Go guest
//	one by one    the same stream with COALESCE off: a round trip a statement
//
// Rows are counted in the database: a round begins when its reader is told to
// read, and ends when all its relationships are there. The machine's load moves
// absolute figures; read the ratios. Run it with "make bench".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	rows := flag.Int("rows", 50_000, "rows of a round; one by one takes a fifth of them")
	rounds := flag.Int("rounds", 3, "rounds of each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *rows, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// contender is one way to load a topic into the graph.
type contender struct {
	name string
	rows int
	load func(ctx context.Context, b *bench, round, rows int) (measured, error)
}

// contenders in the order of a round; the first is the limit.
func contenders(rows int) []contender {
	return []contender{
		{"handwritten", rows, handwritten},
		{"graphmill", rows, coalesced},
		{"one by one", max(1, rows/5), oneByOne},
	}
}

// measured is one round of one contender.
type measured struct {
	rows    int
	elapsed time.Duration
	cpu     time.Duration // of the loading program, while it loaded; 0: not known on this system
}

func (m measured) rate() float64 { return float64(m.rows) / m.elapsed.Seconds() }

func (m measured) cpuPerRow() time.Duration { return m.cpu / time.Duration(m.rows) }

func run(ctx context.Context, out io.Writer, rows, rounds int) (err error) {
	b, err := open(ctx, out, rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all := contenders(rows)
	results := make([][]measured, len(all))
	// The first round of each warms up the database's caches and compiler.
	for round := range rounds + 1 {
		for i, c := range all {
			m, err := c.load(ctx, b, round, c.rows)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", c.name, round, err)
			}
			note := ""
			if round == 0 {
				note = " (warming up, not counted)"
			} else {
				results[i] = append(results[i], m)
			}
			fmt.Fprintf(out, "round %d  %-12s %7d rows in %6.2f s  %7.0f rows/s  %s CPU a row%s\n",
				round, c.name, m.rows, m.elapsed.Seconds(), m.rate(), cpuText(m.cpuPerRow()), note)
		}
	}
	return report(out, all, results)
}

// report prints medians and their ratios to the first contender's.
func report(out io.Writer, all []contender, results [][]measured) error {
	limit := medianOf(results[0], measured.rate)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmedian of rounds\trows/s\tof the limit\tCPU a row")
	for i, c := range all {
		rate := medianOf(results[i], measured.rate)
		cpu := medianOf(results[i], func(m measured) float64 { return float64(m.cpuPerRow()) })
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%s\n", c.name, rate, rate/limit, cpuText(time.Duration(cpu)))
	}
	return w.Flush()
}

func medianOf(ms []measured, value func(measured) float64) float64 {
	values := make([]float64, len(ms))
	for i, m := range ms {
		values[i] = value(m)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func cpuText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", float64(d.Nanoseconds())/1000)
}
