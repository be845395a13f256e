package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger hands the client's own messages on, all of them for debugging:
// what a user should know is told to the Observer once, while the client
// repeats errors that it is healing by itself for as long as an outage lasts.
type clientLogger struct{ to *slog.Logger }

// Level tells the client which messages need not be put together.
func (l clientLogger) Level() kgo.LogLevel {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.to.Log(context.Background(), slog.LevelDebug, "kafka client: "+msg, append(keyvals, "client_level", level.String())...)
}
