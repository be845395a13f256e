package wasmhost

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Bounds of what a guest can make the host keep of its output, in bytes.
const (
	maxLogLine    = 8 << 10 // a longer line is cut
	maxLastOutput = 1 << 10 // of standard error, kept to explain a trap
)

// logWriter carries what a guest writes to the log of its stream: bounded in
// length, and in lines a second. For the goroutine that holds the instance.
type logWriter struct {
	emit      func(level slog.Level, text string)
	perSecond int

	second  time.Time // when the second began that is counted
	lines   int       // let through in it
	dropped int       // not let through in it

	output lineBuffer // of standard output
	errors lineBuffer // of standard error

	// lastErrors is how standard error began during the call under way: programs
	// that die say why there.
	lastErrors []byte
}

// lineBuffer is the line that is not complete yet.
type lineBuffer struct {
	text []byte
	cut  bool
}

func guestLevel(level uint32) slog.Level {
	switch level {
	case 0:
		return slog.LevelDebug
	case 1:
		return slog.LevelInfo
	case 2:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

// line writes one line.
func (w *logWriter) line(level slog.Level, text []byte) {
	if !w.admit() {
		return
	}
	cut := ""
	if len(text) > maxLogLine {
		text, cut = text[:maxLogLine], " ... (cut)"
	}
	w.emit(level, strings.ToValidUTF8(string(text), "\ufffd")+cut)
}

// admit counts a line and says whether it is written.
func (w *logWriter) admit() bool {
	w.tellDropped()
	if w.lines >= w.perSecond {
		w.dropped++
		return false
	}
	w.lines++
	return true
}

// tellDropped begins a new second where the last one is over, and tells what was
// dropped in that.
func (w *logWriter) tellDropped() {
	now := time.Now()
	if now.Sub(w.second) < time.Second {
		return
	}
	dropped := w.dropped
	w.second, w.lines, w.dropped = now, 0, 0
	if dropped > 0 {
		w.emit(slog.LevelWarn, fmt.Sprintf("%d log lines were dropped, over %d a second", dropped, w.perSecond))
	}
}

// write takes what goes to standard output (info) or standard error (warn).
func (w *logWriter) write(level slog.Level, text []byte) {
	b := &w.output
	if level == slog.LevelWarn {
		b = &w.errors
		w.lastErrors = append(w.lastErrors, text[:min(len(text), maxLastOutput-len(w.lastErrors))]...)
	}
	for {
		line, rest, complete := bytes.Cut(text, []byte("\n"))
		room := min(len(line), maxLogLine-len(b.text))
		b.cut = b.cut || room < len(line)
		b.text = append(b.text, line[:room]...)
		if !complete {
			return
		}
		w.flush(level, b)
		text = rest
	}
}

func (w *logWriter) flush(level slog.Level, b *lineBuffer) {
	if b.cut {
		b.text = append(b.text, 0) // one more than the limit: line cuts and says so
	}
	if len(b.text) > 0 {
		w.line(level, bytes.TrimSuffix(b.text, []byte("\r")))
	}
	b.text, b.cut = b.text[:0], false
}

// begin starts the log of a call.
func (w *logWriter) begin() { w.lastErrors = w.lastErrors[:0] }

// end writes what a call left incomplete.
func (w *logWriter) end() {
	w.flush(slog.LevelInfo, &w.output)
	w.flush(slog.LevelWarn, &w.errors)
	w.tellDropped()
}

// close tells what was dropped last.
func (w *logWriter) close() {
	w.second = time.Time{}
	w.tellDropped()
}
