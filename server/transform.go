package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// transformTries is how often a batch is transformed whose failures are all
// worth another try.
const transformTries = 3

// load compiles the module's active version and makes an instance of it, so
// that START tells what it cannot begin with. While the version cannot be compiled
// for a reason that may pass, it is tried again.
func (l *lane) load(ctx context.Context) error {
	for {
		l.r.moduleChanged.Store(false)
		loaded, err := l.r.st.srv.loadTransformation(ctx, l.r.ref)
		if err == nil {
			l.use(loaded)
			return l.instantiate(ctx)
		}
		f := notCompiled(err)
		if f == nil || ctx.Err() != nil {
			return err
		}
		if err := sleep(ctx, l.compileLater(f)); err != nil {
			return err
		}
	}
}

// compileLater notes that the module could not be compiled, and returns how long to
// wait.
func (l *lane) compileLater(f *graphmill.Fault) time.Duration {
	l.r.observed.waiting(moduleSide, f)
	if l.compiling == nil {
		l.compiling = compilePauses()
	}
	return l.compiling.next()
}

// use lets go of the version before.
func (l *lane) use(loaded *transformation) {
	l.unload()
	l.compiled()
	l.loaded = loaded
	l.r.observed.setModule(loaded.version())
}

// follow takes the module's active version, if that is another one by now. All
// that is not being executed yet is transformed anew then. A kick ends it, and
// the loop comes back to it.
func (l *lane) follow() error {
	ctx, done := l.interruptible()
	defer done()
	l.r.moduleChanged.Store(false)
	loaded, err := l.r.st.srv.loadTransformation(ctx, l.r.ref)
	f := notCompiled(err)
	switch {
	case err != nil && ctx.Err() != nil:
		l.r.moduleChanged.Store(true)
		return nil
	case f != nil && !l.r.askedToEnd():
		l.r.moduleChanged.Store(true)
		l.rest(l.compileLater(f))
		return nil
	case err != nil:
		return err
	case loaded.version() == l.loaded.version():
		l.compiled()
		loaded.close(ctx)
		return nil
	}
	l.use(loaded)
	for _, j := range l.queue {
		if !j.committed {
			j.forget()
			j.tries = 0
		}
	}
	l.r.st.log.Info("the module's new version is used from here on", "module", loaded.module.Name, "version", loaded.module.Version)
	return nil
}

// compiled ends what compileLater began.
func (l *lane) compiled() {
	l.compiling = nil
	l.r.observed.recovered(moduleSide)
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
	l.r.observed.memory.Store(0)
}

// transform makes the statements of a batch. Why it cannot is kept in the job
// and told when its turn comes: batches before it may still be under way. A kick
// ends it, and the loop comes back to it.
func (l *lane) transform(j *job) {
	if l.r.moduleChanged.Load() {
		if err := l.follow(); err != nil {
			j.refuse(err)
		}
		return
	}
	if len(j.batch.Messages) == 0 {
		j.transformed = true
		return
	}
	ctx, done := l.interruptible()
	defer done()
	fresh := l.instance == nil
	began := time.Now()
	out, err := l.call(ctx, j.batch.Messages)
	l.r.observed.transformed(l.instance, time.Since(began))
	if err != nil || len(out.Failures) > 0 {
		l.discardInstance() // the batch will be handed over again
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return
	case outOfMemory(err) && !fresh:
		return // batches before may have filled it: once more, in a fresh instance
	case err != nil:
		j.refuse(err)
	case len(out.Failures) > 0:
		j.refuse(reported(out.Failures[0]))
		if !slices.ContainsFunc(out.Failures, func(f graphmill.Failure) bool { return !f.Retry }) {
			j.retryLater()
		}
	default:
		j.transformed, j.output, j.module = true, out, l.loaded.version()
	}
}

// call hands messages to the instance, which is made if there is none.
func (l *lane) call(ctx context.Context, messages []graphmill.Message) (graphmill.Output, error) {
	if l.instance == nil {
		if err := l.instantiate(ctx); err != nil {
			return graphmill.Output{}, err
		}
	}
	return l.instance.Transform(ctx, l.r.kind, messages)
}

func (l *lane) instantiate(ctx context.Context) error {
	cfg := instanceConfig(l.r.spec, l.r.ref.Function)
	cfg.Log = l.guestLog
	instance, err := l.loaded.wasm.Instantiate(ctx, cfg)
	if err != nil {
		return err
	}
	l.instance = instance
	l.r.observed.instantiated(instance)
	return nil
}

// instanceConfig is what a stream's transformation is given.
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
	l.r.st.log.Log(context.Background(), level, text, "from", "transformation", "module", l.r.ref.Module)
}

// refused is what becomes of a job that could not be transformed, now that its
// turn has come: it is cut, or tried again after a pause, or ends the stream.
func (l *lane) refused(j *job) error {
	if f := j.overLimit(); f != nil {
		l.halve(j, f, l.queue[1:])
		return nil
	}
	if j.retryAt.IsZero() || j.tries == transformTries {
		return l.blame(j, j.refused)
	}
	if wait := time.Until(j.retryAt); wait > 0 {
		l.rest(wait)
		return nil
	}
	j.forget()
	l.r.observed.metrics.retries[retryTransformation].Inc()
	return nil
}

// rest waits, or until a kick, or until the run is asked to end.
func (l *lane) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	ending := l.r.working.Done()
	if l.r.askedToEnd() {
		ending = nil // what still has to be waited for is
	}
	select {
	case <-timer.C:
	case <-l.wake:
	case <-ending:
	}
}

// blame notes that a batch has failed, and names it in the fault where it is to
// blame, and the message where that is known.
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
			tp := m.TopicPartition()
			named.Text = fmt.Sprintf("%s (look first at message %s)", named.Text, m.Position())
			failure.Message = &tp
			if m.Offset >= 0 {
				offset := m.Offset
				failure.Offset = &offset
			} else {
				id := m.MessageID
				failure.MessageID = &id
			}
			named.Next = l.pastMessage(j, f)
		}
		f = &named
	}
	l.r.observed.failed(f, failure)
	return f
}

// pastMessage tells, beside what mends the fault, how to go on without its
// message.
func (l *lane) pastMessage(j *job, f *graphmill.Fault) string {
	stream, m := l.r.spec.Name, &j.batch.Messages[f.Message]
	before := 0
	for i := range f.Message {
		if j.batch.Messages[i].TopicPartition() == m.TopicPartition() {
			before++
		}
	}
	caution := ""
	if before > 0 {
		caution = fmt.Sprintf(" (to have the %s before it applied first: graphmill stream edit %s --batch-size 1, and start it)", count(before, "message"), stream)
	}
	behind := m.Position()
	behind.Pass(m)
	return fmt.Sprintf("%s; or go past the message%s: graphmill stream offsets %s --set %s --partition %s",
		cmp.Or(nextStep(stream, f), "mend the cause"), caution, stream, behind.At(), m.TopicPartition())
}
