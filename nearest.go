package graphmill

import "strings"

// Nearest returns the known name that a mistyped one most likely means, or ""
// where none is near: at most a third of its characters, and at most three,
// may differ. Case, '-' and '_' do not count. Of equally near names the first
// is taken.
func Nearest(given string, known []string) string {
	plain := strings.NewReplacer("_", "-")
	fold := func(s string) string { return plain.Replace(strings.ToLower(s)) }
	best, least := "", min(3, (len(given)+2)/3)+1
	for _, k := range known {
		if longer := len(given) - len(k); longer >= least || -longer >= least {
			continue // so many would have to be left out or put in; given may be huge
		}
		if d := editDistance(fold(given), fold(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete, change or swap with their
// neighbour that lead from a to b.
func editDistance(a, b string) int {
	var before []int // the row before previous, for swaps
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous = previous, row
	}
	return previous[len(b)]
}
