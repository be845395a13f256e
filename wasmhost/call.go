package wasmhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

// fuelSlice is the fuel that a guest gets at once: a few milliseconds at most
// (see meter.TickWeight). It bounds how late a deadline is noticed, and how long
// a garbage collection of the host waits for a guest: until then the goroutine
// is in machine code, where Go cannot stop it. Reaching any function of the host
// is enough to let Go in.
const fuelSlice = 100_000

// A call that has run for long gives up its processor now and then, so that
// guests that loop do not take turns of 10 ms, Go's own, from all others. One
// that is done soon does not: it would wait for as many turns of others.
const (
	longCall   = 100 * time.Millisecond
	turnOfLong = time.Millisecond
)

// Codes of faults.
const (
	codeTrap        = "trap"
	codeDeadline    = "deadline"
	codeOutOfMemory = "out_of_memory"
	codeBadResponse = "bad_response"
	codeOverLimit   = "over_limit"
	codeUnusable    = "instance_unusable"
	codeInitialize  = "module_initialize"
	codeConfigure   = "module_configure"
)

// nextSteps are what to do about a fault, by its code.
var nextSteps = map[string]string{
	codeOutOfMemory: "raise MEMORY_LIMIT of the stream, or lower BATCH_SIZE",
	codeDeadline:    "raise TIME_LIMIT of the stream, or lower BATCH_SIZE",
}

// What ends a guest from within a host function, by panicking with it. wazero
// returns it from the call.
type (
	// guestFault is a guest that did what it must not.
	guestFault struct{ code, text string }

	// guestExit is a guest that ended itself.
	guestExit struct{ status uint32 }

	// callEnded is a call whose context is done.
	callEnded struct{ cause error }
)

func (f *guestFault) Error() string { return f.text }
func (e *guestExit) Error() string {
	return fmt.Sprintf("the module ended itself with exit status %d", e.status)
}
func (e *callEnded) Error() string { return e.cause.Error() }

// callLimits are what ends the call under way.
type callLimits struct {
	ctx      context.Context
	deadline time.Time
	limit    time.Duration // for the message
	turn     time.Time     // when a call that is long by then gives way
}

// checkTime ends the guest by a panic where its time is over. It is called from
// within host functions only.
func (i *Instance) checkTime() {
	select {
	case <-i.limits.ctx.Done():
		panic(&callEnded{cause: i.limits.ctx.Err()})
	default:
	}
	if i.loaded.host.closing.Load() {
		panic(&callEnded{cause: errHostClosed()})
	}
	if time.Now().After(i.limits.deadline) {
		panic(&guestFault{code: codeDeadline, text: fmt.Sprintf("the module was stopped after its time limit of %s", i.limits.limit)})
	}
}

// giveWay lets other goroutines run where the call has had its turn.
func (i *Instance) giveWay() {
	if time.Now().After(i.limits.turn) {
		runtime.Gosched()
		i.limits.turn = time.Now().Add(turnOfLong)
	}
}

// within runs calls into the guest under the instance's time limit. The context
// that do gets carries the instance for the host functions.
func (i *Instance) within(ctx context.Context, do func(context.Context) error) (err error) {
	now := time.Now()
	i.limits = callLimits{ctx: ctx, deadline: now.Add(i.timeLimit), limit: i.timeLimit, turn: now.Add(longCall)}
	i.memory.refused = false
	i.log.begin()
	defer func() {
		i.log.end()
		i.limits.ctx = nil
		if i.guest != nil {
			i.size.Store(int64(i.guest.Memory().Size()))
		}
	}()
	if err := ctx.Err(); err != nil {
		return &callEnded{cause: err}
	}
	defer recovered(&err)
	return do(context.WithValue(ctx, instanceKey{}, i))
}

// explain makes the error of a call into what the caller of the instance gets:
// the context's error, or a fault of this class, whose code is one of trap,
// deadline and out_of_memory.
func (i *Instance) explain(err error, doing string, class graphmill.FaultClass) error {
	var (
		ended *callEnded
		fault *guestFault
		exit  *guestExit
	)
	f := &graphmill.Fault{Class: class, Code: codeTrap, Message: graphmill.WholeBatch}
	switch {
	case errors.As(err, &ended):
		return fmt.Errorf("%s: %w", doing, ended.cause)
	case errors.As(err, &fault):
		f.Code, f.Text = fault.code, fault.text
	case errors.As(err, &exit):
		f.Text = exit.Error()
	default:
		f.Text = trapText(err)
		i.reportDefect(err)
	}
	if i.memory.refused && f.Code == codeTrap {
		f.Code = codeOutOfMemory
		f.Text += fmt.Sprintf(", after it was refused memory over its limit of %s", sizeText(i.memoryLimit))
	}
	f.Next = nextSteps[f.Code]
	if said := lastWords(i.log.lastErrors); said != "" {
		f.Text += "; it wrote: " + said
	}
	return f
}

// lastWords is the first paragraph of what a guest wrote to standard error, in
// one line: the reason, and not the trace that follows it.
func lastWords(errors []byte) string {
	first, _, _ := bytes.Cut(bytes.TrimSpace(errors), []byte("\n\n"))
	return strings.ReplaceAll(clean(string(first)), "\n", "; ")
}

// reportDefect logs an error that is not the guest's but the host's or the
// engine's own.
func (i *Instance) reportDefect(err error) {
	var broken *enginePanic
	if errors.As(err, &broken) {
		i.loaded.host.logger.Error("the WebAssembly engine failed in a call", "panic", broken.value, "stack", string(broken.stack))
	} else if strings.Contains(err.Error(), "Go runtime stack trace:") {
		i.loaded.host.logger.Error("a host function failed", "error", err)
	}
}

// trapText says in one line what wazero says in many: the trap, and the
// innermost functions.
func trapText(err error) string {
	text, trace, traced := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	text = strings.TrimPrefix(text, "wasm error: ")
	text = "the module trapped: " + clean(strings.TrimSuffix(text, " (recovered by wazero)"))
	if !traced {
		return text
	}
	const most = 5
	var functions []string
	for line := range strings.Lines(trace) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), "(")
		if !ok || len(functions) == most {
			break
		}
		functions = append(functions, clip(strings.TrimPrefix(name, "."), 80))
	}
	if len(functions) > 0 {
		text += ", in " + clean(strings.Join(functions, " < "))
	}
	return text
}
