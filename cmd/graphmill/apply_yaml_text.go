package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lineReader gives a text line by line, as long as ctx lasts, and counts the lines.
type lineReader struct {
	ctx   context.Context // of one reading of the text
	text  string          // what is left
	lines int             // of which at least the beginning was given
	midst bool            // of a line that is longer than a buffer
}

// Read is io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	switch {
	case r.ctx.Err() != nil:
		return 0, r.ctx.Err()
	case r.text == "":
		return 0, io.EOF
	}
	line := r.text[:strings.IndexByte(r.text, '\n')+1]
	if line == "" {
		line = r.text
	}
	n := copy(p, line)
	r.text = r.text[n:]
	if !r.midst {
		r.lines++
	}
	r.midst = n < len(line)
	return n, nil
}

// yamlDocuments returns the documents of a text that are not null; with an error,
// how many lines the parser has read by then.
func yamlDocuments(ctx context.Context, text string) (docs []*yaml.Node, read int, err error) {
	r := &lineReader{ctx: ctx, text: text}
	for d := yaml.NewDecoder(r); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return docs, r.lines, nil
		case err != nil:
			return nil, r.lines, err
		case len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null":
			docs = append(docs, doc.Content[0])
		}
	}
}

// maxYAMLSearched bounds the bytes that are read again to find the line of an error:
// in a file of 1 MiB that finds it wherever it is, and takes some seconds.
const maxYAMLSearched = 32 << 20

// yamlErrorLine returns the line that makes a text no YAML: with it, and whatever
// follows, the error is always the same. It is not behind the lines that the parser
// has read, and most often the last of them. The parser itself tells, if anything,
// about where the list, map or text began in which that line stands.
func yamlErrorLine(ctx context.Context, text string, read int, err error) int {
	var ends []int // of lines
	for line := range strings.Lines(text) {
		ends = append(ends, len(line))
		if n := len(ends); n > 1 {
			ends[n-1] += ends[n-2]
		}
	}
	told := 0
	if m := yamlLine.FindStringSubmatch(yamlReason(err)); m != nil {
		told, _ = strconv.Atoi(m[1]) // 0 is none
	}
	likely := []int{read - 1, told + 1, told, told - 1}
	before, last := 0, read // the error comes with last, and not with before
	for left := maxYAMLSearched; last-before > 1 && left > 0; {
		at := (before + last) / 2
		if len(likely) > 0 {
			if at, likely = likely[0], likely[1:]; at <= before || at >= last {
				continue
			}
		}
		left -= ends[at-1]
		if _, _, of := yamlDocuments(ctx, text[:ends[at-1]]); of != nil && of.Error() == err.Error() {
			last = at
		} else {
			before = at
		}
	}
	return last
}

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): `)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '.*' referenced$`)
)

// yamlReason is the parser's error without the words of all of them.
func yamlReason(err error) string { return strings.TrimPrefix(err.Error(), "yaml: ") }

// yamlError is the parser's error without its line, and without the name of an
// anchor, which may be the beginning of a password.
func yamlError(err error) error {
	reason := yamlLine.ReplaceAllString(yamlReason(err), "")
	if yamlAnchor.MatchString(reason) {
		return errors.New("an alias stands there (*NAME) for which there is no anchor; a text that begins with '*' has to stand in quotes")
	}
	return errors.New("it is no YAML: " + reason)
}
