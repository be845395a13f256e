package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/graphmill/graphmill/api"
)

// maxCell is how many characters of a value a table shows; the whole is in -o
// json.
const maxCell = 2000

// printRows writes rows as a table whose head has the names of the columns as they
// are: programs and people know them so. On a terminal it fits its width: values go
// over several lines, and where the columns would become too narrow for that each
// row is written as one line a column. Behind a pipe nothing is cut into lines. It
// returns whether a value was too long to be shown whole.
func printRows(w io.Writer, answer api.Queried, terminal *os.File) (cut bool) {
	g := newGrid(answer)
	width := 0
	if terminal != nil {
		width, _, _ = term.GetSize(int(terminal.Fd())) // 0: not known, so nothing is cut
	}
	if width == 0 {
		g.across(w, wideCell)
		return g.cut
	}
	if widest := g.fit(width); widest >= max(leastCell, widestOf(g.head)) {
		g.across(w, widest)
		return g.cut
	}
	g.down(w, width)
	return g.cut
}

const (
	wideCell  = 1000 // columns of the terminal that a value takes at most behind a pipe
	leastCell = 16   // columns that a value of several lines has at least
)

// grid is an answer as text, before it is laid out.
type grid struct {
	head    []string
	rows    [][]string
	numbers []bool // the column holds numbers
	cut     bool   // a value is not whole
}

func newGrid(answer api.Queried) grid {
	g := grid{numbers: make([]bool, len(answer.Columns))}
	for _, c := range answer.Columns {
		g.head = append(g.head, printable(c))
	}
	for _, values := range answer.Rows {
		row := make([]string, len(values))
		for i, v := range values {
			whole := cell(v)
			shown := clip(whole, maxCell)
			g.cut = g.cut || shown != whole
			row[i] = printable(shown) // before widths are reckoned
			g.numbers[i] = g.numbers[i] || len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// frame is what a table of n columns takes beside its values.
func frame(n int) int { return 3*n + 1 }

// fit returns how wide a value may be for the table to be as wide as the terminal:
// narrow columns keep their width, the others share the rest. It is below 0 where
// no width is enough.
func (g grid) fit(width int) int {
	widths := make([]int, len(g.head))
	for i, h := range g.head {
		widths[i] = text.LongestLineLen(h)
	}
	for _, row := range g.rows {
		for i, v := range row {
			widths[i] = max(widths[i], text.LongestLineLen(v))
		}
	}
	slices.Sort(widths)
	left := width - frame(len(widths))
	for i, w := range widths {
		share := left / (len(widths) - i)
		if w > share {
			return share
		}
		left -= w
	}
	return wideCell
}

// across writes a line a row.
func (g grid) across(w io.Writer, widest int) {
	t := newRowsTable()
	if len(g.rows) == 0 {
		// The library draws the end of an empty table as if it had no columns: the
		// line below the head is the end.
		box := &t.Style().Box
		box.LeftSeparator, box.MiddleSeparator, box.RightSeparator = box.BottomLeft, box.BottomSeparator, box.BottomRight
		box.BottomLeft, box.BottomSeparator, box.BottomRight = "", "", ""
	}
	t.AppendHeader(tableRow(g.head))
	for _, row := range g.rows {
		folded := make([]string, len(row))
		for i, v := range row {
			folded[i] = fold(v, widest)
		}
		t.AppendRow(tableRow(folded))
	}
	configs := make([]table.ColumnConfig, len(g.head))
	for i := range configs {
		configs[i].Number = i + 1
		if g.numbers[i] {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	fmt.Fprintln(w, strings.TrimRight(t.Render(), "\n"))
}

// down writes a line a value, its column in front, and a rule between rows.
func (g grid) down(w io.Writer, width int) {
	t := newRowsTable()
	names := min(widestOf(g.head), width/2)
	for _, row := range g.rows {
		for i, v := range row {
			t.AppendRow(table.Row{fold(g.head[i], max(leastCell, names)), fold(v, max(leastCell, width-names-frame(2)))})
		}
		t.AppendSeparator()
	}
	if len(g.rows) > 0 {
		fmt.Fprintln(w, strings.TrimRight(t.Render(), "\n"))
	}
}

func newRowsTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	return t
}

func widestOf(values []string) int {
	widest := 0
	for _, v := range values {
		widest = max(widest, text.LongestLineLen(v))
	}
	return widest
}

func tableRow(values []string) table.Row {
	row := make(table.Row, len(values))
	for i, v := range values {
		row[i] = v
	}
	return row
}

// fold cuts lines that are wider than the width, behind a blank or a comma where it
// can. What follows is indented like the line's beginning.
func fold(value string, width int) string {
	var lines []string
	for line := range strings.SplitSeq(value, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if 2*len(indent) > width {
			indent = ""
		}
		for text.StringWidthWithoutEscSequences(line) > width {
			end := foldAt(line, len(indent), width)
			lines = append(lines, strings.TrimRight(line[:end], " "))
			line = indent + strings.TrimLeft(line[end:], " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// foldAt is the byte before which a line is cut: behind the last blank or comma in the
// second half of the width, else where the width ends.
func foldAt(line string, indent, width int) int {
	end, taken, gap := indent, indent, 0
	for i, r := range line[indent:] {
		taken += text.RuneWidth(r)
		if taken > width && end > indent {
			break
		}
		end = indent + i + utf8.RuneLen(r)
		if (r == ' ' || r == ',') && taken > width/2 {
			gap = end
		}
	}
	if gap > 0 {
		return gap
	}
	return end
}

// cell is a value for people: strings without quotes, each element of a list on a
// line, the queries of CHECK with their parameters behind them.
func cell(doc json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(doc, &list) == nil && len(list) > 0 {
		lines := make([]string, len(list))
		for i, item := range list {
			lines[i] = element(item)
		}
		return strings.Join(lines, "\n")
	}
	return element(doc)
}

func element(doc json.RawMessage) string {
	var s string
	if len(doc) > 0 && doc[0] == '"' && json.Unmarshal(doc, &s) == nil {
		return s
	}
	var q struct {
		Query      *string         `json:"query"`
		Parameters json.RawMessage `json:"parameters"`
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if len(doc) > 0 && doc[0] == '{' && d.Decode(&q) == nil && q.Query != nil {
		if p := string(q.Parameters); p != "null" && p != "" {
			return strings.TrimSpace(*q.Query) + "\n  " + p
		}
		return strings.TrimSpace(*q.Query)
	}
	return string(doc)
}
