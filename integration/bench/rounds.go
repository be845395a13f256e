package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// contender is one way to do the same work.
type contender struct {
	name string
	load func(ctx context.Context, round int) (measured, error)
}

// measured is one round of one contender.
type measured struct {
	rows    int // counted where they arrived
	elapsed time.Duration
	cpu     time.Duration // of the loading program, while it loaded; 0: not known on this system
}

func (m measured) rate() float64 { return float64(m.rows) / m.elapsed.Seconds() }

func (m measured) cpuPerRow() time.Duration { return m.cpu / time.Duration(m.rows) }

// compare runs rounds of all contenders in turn, after one that warms everything
// up, and prints what they took. The first contender is the limit.
func compare(ctx context.Context, out io.Writer, all []contender, rounds int) error {
	results := make([][]measured, len(all))
	for round := range rounds + 1 {
		for i, c := range all {
			m, err := c.load(ctx, round)
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

// report prints medians, and of the ratios to the first contender's rate in the
// same round the median and how far it can be trusted.
func report(out io.Writer, all []contender, results [][]measured) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmedian of rounds\trows/s\tof the limit\tinterval\tCPU a row")
	for i, c := range all {
		rates := values(results[i], measured.rate)
		cpu := values(results[i], func(m measured) float64 { return float64(m.cpuPerRow()) })
		ratios := make([]float64, len(rates))
		for round := range ratios {
			ratios[round] = rates[round] / results[0][round].rate()
		}
		low, high := interval(ratios)
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f-%.2f\t%s\n", c.name, median(rates), median(ratios), low, high, cpuText(time.Duration(median(cpu))))
	}
	return w.Flush()
}

func values(ms []measured, value func(measured) float64) []float64 {
	all := make([]float64, len(ms))
	for i, m := range ms {
		all[i] = value(m)
	}
	return all
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// interval returns the narrowest pair of values, as far from one end as from the
// other, that the median lies between with a probability of nine in ten, whatever
// the distribution is; of less than five values the extremes, which are less sure.
func interval(all []float64) (low, high float64) {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	outside, ways := 0.0, 1.0 // of all ways in which n values may lie about the median, those with cut or fewer below it
	cut := 0
	for ; cut < n/2; cut++ {
		if outside += 2 * ways / math.Pow(2, float64(n)); outside > 0.1 {
			break
		}
		ways = ways * float64(n-cut) / float64(cut+1)
	}
	cut = max(0, cut-1)
	return all[cut], all[n-1-cut]
}

func cpuText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f us", float64(d.Nanoseconds())/1000)
}
