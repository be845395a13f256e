package wasmhost

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// collected is a logWriter whose lines are kept as "LEVEL text".
func collected(perSecond int) (*logWriter, *[]string) {
	var lines []string
	return &logWriter{perSecond: perSecond, emit: func(level slog.Level, text string) {
		lines = append(lines, level.String()+" "+text)
	}}, &lines
}

func TestLogIsLimitedASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, lines := collected(3)
		for i := range 10 {
			w.line(slog.LevelInfo, fmt.Append(nil, i))
		}
		require.Equal(t, []string{"INFO 0", "INFO 1", "INFO 2"}, *lines)

		time.Sleep(999 * time.Millisecond)
		w.end()
		require.Len(t, *lines, 3, "the second is not over")
		time.Sleep(time.Millisecond)
		w.line(slog.LevelError, []byte("next"))
		require.Equal(t, []string{"WARN 7 log lines were dropped, over 3 a second", "ERROR next"}, (*lines)[3:])

		for range 5 {
			w.line(slog.LevelInfo, nil)
		}
		w.close()
		require.Equal(t, "WARN 3 log lines were dropped, over 3 a second", (*lines)[len(*lines)-1], "and what is left at the end")
		w.close()
		require.Len(t, *lines, 8)
	})
}

func TestLogText(t *testing.T) {
	w, lines := collected(1000)
	w.line(guestLevel(0), []byte("Größe"))
	w.line(guestLevel(7), []byte("a\xff\xfeb"))
	w.line(slog.LevelInfo, []byte(strings.Repeat("x", maxLogLine)))
	w.line(slog.LevelInfo, []byte(strings.Repeat("x", maxLogLine+1)))
	require.Equal(t, []string{
		"DEBUG Größe",
		"ERROR a\ufffdb",
		"INFO " + strings.Repeat("x", maxLogLine),
		"INFO " + strings.Repeat("x", maxLogLine) + " ... (cut)",
	}, *lines)
}

func TestStandardOutputBecomesLines(t *testing.T) {
	w, lines := collected(1000)
	w.write(slog.LevelInfo, []byte("one\ntw"))
	w.write(slog.LevelWarn, []byte("error, "))
	w.write(slog.LevelInfo, []byte("o\r\n\n"))
	w.write(slog.LevelWarn, []byte("the rest"))
	require.Equal(t, []string{"INFO one", "INFO two"}, *lines)
	w.end()
	require.Equal(t, []string{"WARN error, the rest"}, (*lines)[2:])
	require.Equal(t, "error, the rest", string(w.lastErrors))
	w.begin()
	require.Empty(t, w.lastErrors)

	for range 100 {
		w.write(slog.LevelWarn, []byte(strings.Repeat("y", 1000)))
	}
	w.end()
	require.Equal(t, "WARN "+strings.Repeat("y", maxLogLine)+" ... (cut)", (*lines)[3], "a line without an end is bounded")
	require.Len(t, w.lastErrors, maxLastOutput)
}

func TestLastWords(t *testing.T) {
	for said, want := range map[string]string{
		"":                                     "",
		"panic: bad\n\ngoroutine 1 [running]:": "panic: bad",
		"thread 'main' panicked at src/lib.rs:3:5:\nbad\nnote: x\n": "thread 'main' panicked at src/lib.rs:3:5:; bad; note: x",
		"\n\n  a\xffb": "a\ufffdb",
	} {
		require.Equal(t, want, lastWords([]byte(said)))
	}
}
