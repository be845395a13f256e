package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// loadTransformation compiles the module's active version and lets go of the
// one before.
func (l *lane) loadTransformation(ctx context.Context) error {
	l.r.moduleChanged.Store(false)
	loaded, err := l.r.st.srv.loadTransformation(ctx, l.r.ref)
	if err != nil {
		return err
	}
	l.unload()
	l.loaded = loaded
	v := loaded.version()
	l.r.mu.Lock()
	l.r.module = &v
	l.r.mu.Unlock()
	return nil
}

// unload lets go of instance and module.
func (l *lane) unload() {
	l.discardInstance()
	if l.loaded != nil {
		l.loaded.close(l.r.ctx)
		l.loaded = nil
	}
}

// discardInstance makes the next transformation use a fresh one: an instance
// never sees a message twice, and none is used after an error.
func (l *lane) discardInstance() {
	if l.instance == nil {
		return
	}
	_ = l.instance.Close(context.WithoutCancel(l.r.ctx)) // it only lets go of memory
	l.instance = nil
}

// transform makes the statements of a batch. A fault is kept in the job and
// told when its turn comes: batches before it may still be under way. Other
// errors end the lane.
func (l *lane) transform(ctx context.Context, j *job) error {
	j.transformed = true
	if len(j.batch.Messages) == 0 {
		return nil
	}
	if l.r.moduleChanged.Load() {
		if err := l.loadTransformation(ctx); err != nil {
			j.refused = err
			return ctx.Err()
		}
		l.r.st.log.Info("the module's new version is used from here on", "module", l.loaded.module.Name, "version", l.loaded.module.Version,
			"positions", positionsText(j.first))
	}
	j.module = l.loaded.version()
	out, err := l.call(ctx, j.batch.Messages)
	if err != nil {
		l.discardInstance()
		j.refused = l.blame(j, err)
		return ctx.Err()
	}
	j.output = out
	if len(out.Failures) > 0 {
		l.discardInstance() // the batch will be read again
		j.refused = l.blame(j, failureFault(out.Failures[0]))
	}
	return nil
}

// call hands messages to the instance, which is made if there is none.
func (l *lane) call(ctx context.Context, messages []graphmill.Message) (graphmill.Output, error) {
	if l.instance == nil {
		cfg := instanceConfig(l.r.spec, l.r.ref.Function)
		cfg.Log = l.guestLog
		instance, err := l.loaded.wasm.Instantiate(ctx, cfg)
		if err != nil {
			return graphmill.Output{}, err
		}
		l.instance = instance
	}
	return l.instance.Transform(ctx, graphmill.SourceKafka, messages)
}

// instanceConfig is what a stream's transformation is given. Its log is
// dropped unless the caller sets Log.
func instanceConfig(spec graphmill.StreamSpec, function string) wasmhost.InstanceConfig {
	return wasmhost.InstanceConfig{
		Function:      function,
		Stream:        spec.Name,
		Settings:      spec.Settings,
		MemoryLimit:   spec.MemoryLimit,
		TimeLimit:     time.Duration(spec.TimeLimitMS) * time.Millisecond,
		ResponseLimit: spec.ResponseLimit,
	}
}

// guestLog passes on what the transformation logs.
func (l *lane) guestLog(level slog.Level, text string) {
	l.r.st.log.Log(context.Background(), level, text, "module", l.r.ref.Module)
}

// failureFault is the fault of a transformation's own report.
func failureFault(f graphmill.Failure) *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultMessage, Code: "transformation", Message: f.Message,
		Text: fmt.Sprintf("the transformation reports: %s", f.Text),
	}
}

// blame names the batch, and the message where it is known, in a fault of the
// message; other errors stay as they are.
func (l *lane) blame(j *job, err error) error {
	f, ok := asFault(err)
	if !ok || errors.Is(err, context.Canceled) {
		return err
	}
	failure := graphmill.FailureStatus{At: now(), Code: f.Code, Text: describe(f), Positions: j.first}
	if f.Class == graphmill.FaultMessage {
		named := *f
		named.Text = fmt.Sprintf("%s, in the batch that begins at %s", f.Text, positionsText(j.first))
		if f.Message >= 0 && f.Message < len(j.batch.Messages) {
			m := &j.batch.Messages[f.Message]
			tp := graphmill.TopicPartition{Topic: m.Topic, Partition: m.Partition}
			named.Text = fmt.Sprintf("%s (look first at message %s@%d)", named.Text, tp, m.Offset)
			failure.Message, failure.Offset = &tp, &m.Offset
		}
		f = &named
	}
	l.r.mu.Lock()
	l.r.lastFailure = &failure
	l.r.counters.Failures++
	l.r.mu.Unlock()
	return f
}
