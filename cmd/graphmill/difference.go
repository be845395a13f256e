package main

import (
	"fmt"
	"io"
)

const (
	contextLines  = 3     // shown around a difference
	maxDiffMatrix = 1e7   // cells; larger texts are shown from the first difference on
	maxDiffLines  = 1_000 // printed
)

// printDifference prints how to get from want to got, line by line: "-" for a
// line that is only in want, "+" for one that is only in got.
func printDifference(w io.Writer, want, got []string) {
	script := difference(want, got)
	shown := make([]bool, len(script))
	for i, l := range script {
		if l[0] == ' ' {
			continue
		}
		for j := max(0, i-contextLines); j <= min(len(script)-1, i+contextLines); j++ {
			shown[j] = true
		}
	}
	printed := 0
	for i, l := range script {
		if !shown[i] {
			continue
		}
		if i > 0 && !shown[i-1] {
			fmt.Fprintln(w, "  ...")
		}
		if printed++; printed > maxDiffLines {
			fmt.Fprintln(w, "  ... and more")
			return
		}
		fmt.Fprintln(w, l)
	}
}

// difference returns all lines, each with what became of it: by the longest
// common subsequence between the first and the last line that differ.
func difference(want, got []string) []string {
	head := 0
	for head < min(len(want), len(got)) && want[head] == got[head] {
		head++
	}
	tail := 0
	for tail < min(len(want), len(got))-head && want[len(want)-1-tail] == got[len(got)-1-tail] {
		tail++
	}
	a, b := want[head:len(want)-tail], got[head:len(got)-tail]

	var script []string
	keep := func(mark string, lines ...string) {
		for _, l := range lines {
			script = append(script, mark+l)
		}
	}
	keep("  ", want[:head]...)
	if float64(len(a))*float64(len(b)) > maxDiffMatrix {
		keep("- ", a...)
		keep("+ ", b...)
	} else {
		common := commonLengths(a, b)
		i, j := 0, 0
		for i < len(a) || j < len(b) {
			switch {
			case i < len(a) && j < len(b) && a[i] == b[j]:
				keep("  ", a[i])
				i, j = i+1, j+1
			case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
				keep("- ", a[i])
				i++
			default:
				keep("+ ", b[j])
				j++
			}
		}
	}
	keep("  ", want[len(want)-tail:]...)
	return script
}

// commonLengths returns, for every i and j, how many lines a[i:] and b[j:] have
// in common, in order.
func commonLengths(a, b []string) [][]int32 {
	n := make([][]int32, len(a)+1)
	for i := range n {
		n[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				n[i][j] = n[i+1][j+1] + 1
			} else {
				n[i][j] = max(n[i+1][j], n[i][j+1])
			}
		}
	}
	return n
}
