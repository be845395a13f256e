package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/graphmill/graphmill"
)

// maxLine bounds a line, in bytes: what has to fit into memory when the ledger
// is opened.
const maxLine = 512 << 20

// lineStart begins every line. What does not begin so was not written here, and
// is never cut off: somebody may have named a file of another kind.
const lineStart = `{"time":"`

// header is what is read of a line again.
type header struct {
	Stream string               `json:"stream"`
	Last   []graphmill.Position `json:"last"`
}

// encode makes the line of a batch:
//
//	{"time":"2026-01-31T12:00:00.000Z","stream":"s",
//	 "module":{"name":"m","version":1,"sha256":"..."},"first":[...],"last":[...],
//	 "statements":[{"query":"...","parameters":{...},"message":0}]}
//
// with "database" behind the stream where the batch names one, and without
// "module" where it names none. Parameters are in the form of
// graphmill.AppendValue. "message" is the index of the message in the batch, -1
// for the batch as a whole.
func encode(w graphmill.Work, now time.Time) ([]byte, *graphmill.Fault) {
	b := []byte(lineStart)
	b = now.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	b = append(b, `","stream":`...)
	b = appendText(b, w.Stream)
	if w.Database != "" {
		b = append(b, `,"database":`...)
		b = appendText(b, w.Database)
	}
	if w.Module.Name != "" {
		text, _ := json.Marshal(w.Module) // strings and numbers never fail
		b = append(append(b, `,"module":`...), text...)
	}
	b = append(b, `,"first":`...)
	b = appendPositions(b, w.First)
	b = append(b, `,"last":`...)
	b = appendPositions(b, w.Last)
	b = append(b, `,"statements":[`...)
	for i := range w.Statements {
		var err error
		if i > 0 {
			b = append(b, ',')
		}
		st := &w.Statements[i]
		if b, err = appendStatement(b, st); err != nil {
			return nil, &graphmill.Fault{
				Class: graphmill.FaultMessage, Code: codeMessage, Message: st.Message,
				Text: fmt.Sprintf("statement %d: %v", i+1, err),
				Next: "mend the transformation: it returns a value of a type that there is not",
			}
		}
		if len(b) > maxLine {
			return nil, &graphmill.Fault{
				Class: graphmill.FaultTooBig, Code: codeTooBig, Message: graphmill.WholeBatch,
				Text: fmt.Sprintf("the batch takes more than %d bytes as a line of the ledger", maxLine),
				Next: "lower BATCH_SIZE or BATCH_BYTES",
			}
		}
	}
	return append(b, "]}\n"...), nil
}

func appendStatement(b []byte, st *graphmill.Statement) ([]byte, error) {
	if st.Query.Names != nil && len(st.Values) != len(st.Query.Names) {
		return b, fmt.Errorf("%d values for %d parameters", len(st.Values), len(st.Query.Names))
	}
	b = append(b, `{"query":`...)
	b = appendText(b, st.Query.Text)
	b = append(b, `,"parameters":`...)
	b, err := graphmill.AppendValue(b, st.Parameters())
	if err != nil {
		return b, err
	}
	b = append(b, `,"message":`...)
	return append(strconv.AppendInt(b, int64(st.Message), 10), '}'), nil
}

func appendText(b []byte, s string) []byte {
	b, _ = graphmill.AppendValue(b, s) // a string never fails
	return b
}

func appendPositions(b []byte, positions []graphmill.Position) []byte {
	if positions == nil {
		positions = []graphmill.Position{}
	}
	text, _ := json.Marshal(positions) // strings and numbers never fail
	return append(b, text...)
}

// found is what scan has found.
type found struct {
	lines int   // good ones
	good  int64 // their bytes
	torn  int64 // bytes of a last line that is not complete
}

// damageError is a line that cannot be read and is not the last one.
type damageError struct {
	line int
	at   int64 // byte at which it begins
	err  error
}

func (e *damageError) Error() string {
	return fmt.Sprintf("line %d (at byte %d): %v", e.line, e.at, e.err)
}

// scan reads a ledger from its beginning and calls each for every good line.
//
// Only the last line can have been torn, since a line is written once the one
// before is on the disk. It may be torn in its middle and complete at its end:
// disks do not write in order.
func scan(r io.Reader, each func(header)) (found, error) {
	var all found
	lines := lineReader{r: bufio.NewReaderSize(r, 256<<10)}
	for {
		size, err := lines.next()
		if err != nil || size == 0 {
			return all, err
		}
		h, err := lines.header()
		if err != nil {
			more, readErr := lines.more()
			switch {
			case readErr != nil:
				return all, readErr
			case more || !lines.ours():
				return all, &damageError{line: all.lines + 1, at: all.good, err: err}
			}
			all.torn = size
			return all, nil
		}
		each(h)
		all.lines++
		all.good += size
	}
}

// lineReader reads lines into one buffer that grows to the longest.
type lineReader struct {
	r        *bufio.Reader
	line     []byte
	complete bool // it ends with a line feed
	long     bool // it is longer than maxLine; the rest was passed over
}

// next reads the next line and returns its size; 0 is the end.
func (l *lineReader) next() (size int64, err error) {
	l.line, l.complete, l.long = l.line[:0], false, false
	for {
		part, err := l.r.ReadSlice('\n')
		size += int64(len(part))
		if size > maxLine {
			l.long = true
		} else {
			l.line = append(l.line, part...)
		}
		switch {
		case err == nil:
			l.complete = true
			return size, nil
		case errors.Is(err, io.EOF):
			return size, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return size, err
		}
	}
}

// header reads the line as JSON, all of it.
func (l *lineReader) header() (header, error) {
	var h header
	switch {
	case !l.complete:
		return h, errors.New("it has no end")
	case l.long:
		return h, fmt.Errorf("it is longer than %d bytes", maxLine)
	}
	if err := json.Unmarshal(l.line, &h); err != nil {
		return h, err
	}
	if h.Stream == "" {
		return h, errors.New("it names no stream")
	}
	return h, nil
}

// ours reports whether the line may be one of ours, torn. The first of its bytes
// may be missing: then there are zeros.
func (l *lineReader) ours() bool {
	n := min(len(l.line), len(lineStart))
	return string(l.line[:n]) == lineStart[:n] || l.line[0] == 0
}

// more reports whether anything follows.
func (l *lineReader) more() (bool, error) {
	_, err := l.r.Peek(1)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}
