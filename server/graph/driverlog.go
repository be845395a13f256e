package graph

import (
	"context"
	"fmt"
	"log/slog"
)

// driverLog takes what the driver logs. All of it is for debugging: the errors
// that matter come back as errors.
type driverLog struct{ log *slog.Logger }

func (d driverLog) Error(name, id string, err error) { d.put(name, id, "%v", err) }

func (d driverLog) Warnf(name, id, msg string, args ...any) { d.put(name, id, msg, args...) }

func (d driverLog) Infof(name, id, msg string, args ...any) { d.put(name, id, msg, args...) }

func (d driverLog) Debugf(name, id, msg string, args ...any) { d.put(name, id, msg, args...) }

func (d driverLog) put(name, id, msg string, args ...any) {
	ctx := context.Background()
	if d.log.Enabled(ctx, slog.LevelDebug) {
		d.log.LogAttrs(ctx, slog.LevelDebug, "database driver: "+fmt.Sprintf(msg, args...),
			slog.String("component", name), slog.String("id", id))
	}
}
