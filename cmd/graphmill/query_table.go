package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/graphmill/graphmill/api"
)

// maxCell is how many characters of a value a table shows; the whole is in -o
// json.
const maxCell = 2000

// printRows writes rows as a table whose head has the names of the columns as they
// are: programs and people know them so. On a terminal it fits its width.
func printRows(w io.Writer, answer api.Queried, terminal *os.File) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	if len(answer.Rows) == 0 {
		// The library draws the end of an empty table as if it had no columns: the
		// line below the head is the end.
		box := &style.Box
		box.LeftSeparator, box.MiddleSeparator, box.RightSeparator = box.BottomLeft, box.BottomSeparator, box.BottomRight
		box.BottomLeft, box.BottomSeparator, box.BottomRight = "", "", ""
	}
	t.SetStyle(style)
	head := make(table.Row, len(answer.Columns))
	for i, c := range answer.Columns {
		head[i] = printable(c)
	}
	t.AppendHeader(head)
	numbers := make([]bool, len(answer.Columns))
	for _, values := range answer.Rows {
		row := make(table.Row, len(values))
		for i, v := range values {
			row[i] = printable(clip(cell(v), maxCell)) // before widths are reckoned
			numbers[i] = numbers[i] || len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
		}
		t.AppendRow(row)
	}
	configs := make([]table.ColumnConfig, len(answer.Columns))
	for i := range configs {
		configs[i].Number = i + 1
		if numbers[i] {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
		configs[i].WidthMax, configs[i].WidthMaxEnforcer = columnWidth(terminal, len(answer.Columns)), text.WrapText
	}
	t.SetColumnConfigs(configs)
	fmt.Fprintln(w, strings.TrimRight(t.Render(), "\n"))
}

// columnWidth is how wide a column may be; behind a pipe nothing is cut into
// lines.
func columnWidth(terminal *os.File, columns int) int {
	const wide, least = 1000, 20
	if terminal == nil || columns == 0 {
		return wide
	}
	width, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return wide
	}
	return max(least, (width-1)/min(columns, 2)-3)
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
