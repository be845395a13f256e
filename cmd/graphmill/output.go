package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// output is how a command answers: for people, or exactly.
type output struct {
	w       io.Writer
	format  string // table, json, yaml
	printed int    // documents of YAML
}

// outputFlag adds -o to a command.
func (a *app) outputFlag(cmd *cobra.Command) *output {
	o := &output{w: a.out}
	cmd.Flags().VarP(newOneOf(&o.format, "table", "json", "yaml"), "output", "o", "how to answer")
	return o
}

// plainText writes for people. Control characters are written as \x1b: a
// message, a log line or an answer may hold what a terminal would obey.
type plainText struct{ w io.Writer }

// Write is io.Writer.
func (p plainText) Write(text []byte) (int, error) {
	if !bytes.ContainsFunc(text, isControl) {
		return p.w.Write(text)
	}
	if _, err := io.WriteString(p.w, printable(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// printable writes control characters as \x1b, and those that turn the direction of
// text as \u202e.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case !isControl(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isControl(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// checkedWriter remembers the first error of writing: what could not be written
// is a failure of the command, wherever in it that was.
type checkedWriter struct {
	w   io.Writer
	err error
}

// Write is io.Writer.
func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// print writes v as JSON or YAML, or calls people.
func (o *output) print(v any, people func(w io.Writer) error) error {
	if o.format == "table" {
		return people(plainText{o.w})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	doc := escapeControls(b.Bytes())
	if o.format == "yaml" {
		if o.printed++; o.printed > 1 {
			if _, err := io.WriteString(o.w, "---\n"); err != nil {
				return err
			}
		}
		return writeYAML(o.w, doc)
	}
	_, err := o.w.Write(doc)
	return err
}

// escapeControls writes as \u009b what stands in strings of JSON as it is, although
// a terminal would obey it, or YAML does not take it.
func escapeControls(doc []byte) []byte {
	special := func(r rune) bool {
		return r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff || unicode.Is(unicode.Bidi_Control, r)
	}
	if !bytes.ContainsFunc(doc, special) {
		return doc
	}
	escaped := make([]byte, 0, len(doc)+100)
	for _, r := range string(doc) {
		if special(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// writeYAML turns JSON into YAML. JSON is YAML, so reading it as such keeps the
// order of fields and all digits of numbers.
func writeYAML(w io.Writer, doc []byte) error {
	var node yaml.Node
	if err := yaml.Unmarshal(doc, &node); err != nil {
		return fmt.Errorf("turn the answer into YAML: %w", err)
	}
	return writeNode(w, &node)
}

// writeNode writes a document that was read from JSON as YAML of lines.
func writeNode(w io.Writer, node *yaml.Node) error {
	blockStyle(node)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("turn the answer into YAML: %w", err)
	}
	return enc.Close()
}

// misread says of a text that the encoder writes it so that the parser does not take
// it: lines whose first begins with a tab, and what stands for merging maps.
func misread(text string) bool {
	blank := len(text) - len(strings.TrimLeft(text, " \t\n"))
	return text == "<<" || strings.Contains(text[:blank], "\t")
}

func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0 // an empty list or map keeps its brackets
	}
	if n.Kind == yaml.ScalarNode && misread(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// newTable returns a table without lines, which reads well on a terminal and
// behind a pipe.
func newTable(w io.Writer, columns ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatUpper
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	t.AppendHeader(columns)
	t.SuppressTrailingSpaces()
	return t
}

// count writes a number of things: 1 message, 2 messages.
func count[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// outcome counts what came of messages.
func outcome(statements, failures int) string {
	return count(statements, "statement", "statements") + ", " + count(failures, "failure", "failures")
}

// clip cuts a text for people after n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
