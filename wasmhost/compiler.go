package wasmhost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A compiler process compiles one module and ends. Its standard input holds one
// line of JSON, a compileRequest, then the module; its standard output one line
// of JSON, a compileAnswer. The input stays open until the answer has come: its
// end before that means that the server is gone.

// compileRequest is what a compiler process is asked.
type compileRequest struct {
	Folder string        `json:"folder"` // for the machine code
	Size   int           `json:"size"`   // bytes of the module that follow
	Memory int64         `json:"memory"` // bytes that the process may use
	Time   time.Duration `json:"time"`   // that compiling may take
}

// compileAnswer is what came of it.
type compileAnswer struct {
	Outcome string `json:"outcome"`
	Text    string `json:"text,omitempty"`
	Stack   string `json:"stack,omitempty"` // where the engine panicked
}

// Outcomes of a compilation.
const (
	outcomeDone     = "done"
	outcomeTime     = "time"
	outcomeMemory   = "memory"
	outcomeSize     = "size"
	outcomeFolder   = "folder" // the machine code cannot be written there
	outcomeRejected = "rejected"
	outcomePanic    = "panic"
)

// Why a compiler process did not compile a module.
var (
	errNoCompiler    = errors.New("no process can compile it")
	errCompileTime   = errors.New("out of time")
	errCompileMemory = errors.New("out of memory")
	errCompileSize   = errors.New("machine code too large")
)

// compilerAway is why no process could compile a module this time, which says
// nothing about the module.
type compilerAway struct {
	text, next string
	cause      error // may be nil
}

func (e *compilerAway) Error() string { return e.text }
func (e *compilerAway) Unwrap() error { return e.cause }

// isShortage says whether the system refused something that it may give later.
func isShortage(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOMEM, syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT},
		func(shortage error) bool { return errors.Is(err, shortage) })
}

// cannotStart is the error of a compiler process that cannot be started.
func cannotStart(err error) error {
	if isShortage(err) {
		return &compilerAway{text: fmt.Sprintf("no process to compile it can be started: %v", err), cause: err,
			next: "try again once the machine has more to give (memory, processes, open files, room on its disk)"}
	}
	return fmt.Errorf("%w: %w", errNoCompiler, err)
}

// cannotKeep is the error of machine code that cannot be written, or be read again.
func cannotKeep(why string) error {
	return &compilerAway{text: "its machine code cannot be kept: " + why,
		next: "make room on the disk of the data directory, or of temporary files, and try again"}
}

// processorSeconds is what a compiler process may take of the processors' time: its
// workers run at once.
func processorSeconds(compileTime time.Duration) uint64 {
	return uint64(compileWorkers*compileTime/time.Second) + 2
}

// machineCodeShare is the part of CompileMemory that machine code may have: the
// server maps it into its own memory.
const machineCodeShare = 4

// maxCompilerInput bounds the module that a compiler process is given, in bytes: a
// metered one is larger than the largest upload that can be allowed.
const maxCompilerInput = 4 << 30

// maxCompilerOutput bounds what is kept of the output of a compiler process, in
// bytes.
const maxCompilerOutput = 64 << 10

// runCompiler has a process of its own write the machine code of a module to a
// folder. Whatever becomes of the process is an error about the module, unless it is
// errNoCompiler, a compilerAway, or the end of ctx.
func (h *Host) runCompiler(ctx context.Context, metered []byte, folder string) error {
	folder, err := filepath.Abs(folder) // the process works elsewhere
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCompiler, err)
	}
	cmd := exec.CommandContext(ctx, h.compiler[0], h.compiler[1:]...)
	// Nothing of the server's environment, which may hold secrets. Its files are
	// closed in the child by close-on-exec, which Go sets on all of them.
	cmd.Env = []string{"GOTRACEBACK=single"}
	cmd.Dir = folder
	cmd.SysProcAttr = ownProcessGroup() // a terminal's Ctrl-C is for the server
	cmd.WaitDelay = 5 * time.Second
	var ended atomic.Bool // by us
	cmd.Cancel = func() error {
		ended.Store(true)
		return cmd.Process.Kill()
	}
	answer, complaints := &cappedBuffer{}, &cappedBuffer{}
	cmd.Stdout, cmd.Stderr = answer, complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		return cannotStart(err)
	}
	if err := cmd.Start(); err != nil {
		return cannotStart(err)
	}
	sent := make(chan struct{})
	go func() { // ends with the process, whose end of the pipe is closed then
		defer close(sent)
		request, _ := json.Marshal(compileRequest{Folder: folder, Size: len(metered), Memory: h.limits.CompileMemory, Time: h.limits.CompileTime})
		if _, err := in.Write(append(request, '\n')); err == nil {
			_, _ = in.Write(metered) // what is missing, the process complains about
		}
	}()
	err = cmd.Wait()
	<-sent
	if err != nil && ended.Load() {
		return ctx.Err()
	}
	return h.verdict(err, cmd.ProcessState, answer.kept, string(complaints.kept))
}

// verdict tells what the end of a compiler process means that nobody here has ended.
func (h *Host) verdict(ended error, state *os.ProcessState, output []byte, complaints string) error {
	var a compileAnswer
	if ended == nil {
		if err := json.Unmarshal(output, &a); err != nil {
			return fmt.Errorf("%w: it answered %q: %w", errNoCompiler, clip(string(output), 200), err)
		}
	}
	switch {
	case a.Outcome == outcomeDone:
		return nil
	case a.Outcome == outcomeTime, ranOutOfProcessorTime(state, processorSeconds(h.limits.CompileTime)):
		return errCompileTime
	case a.Outcome == outcomeMemory:
		return errCompileMemory
	case a.Outcome == outcomeSize:
		return errCompileSize
	case a.Outcome == outcomeFolder:
		return cannotKeep(clip(a.Text, 500))
	case a.Outcome == outcomePanic:
		return &enginePanic{value: a.Text, stack: []byte(a.Stack)}
	case a.Outcome == outcomeRejected:
		return errors.New(a.Text)
	case ended == nil:
		return fmt.Errorf("%w: it answered %q", errNoCompiler, clip(string(output), 200))
	case wasEndedFromOutside(state):
		return &compilerAway{text: fmt.Sprintf("the process that compiled it was ended from outside (%v), as where the machine has no memory left", ended),
			next: "try again; where it happens again, the kernel's log tells whether memory ran out"}
	case lacksThreads(complaints):
		return &compilerAway{text: "the process that compiled it could start no thread",
			next: "try again once the machine has room for more processes (ulimit -u, the limit of pids of a container)"}
	case isOutOfMemory(complaints):
		return errCompileMemory
	}
	h.logger.Error("a process that compiled a module failed", "error", ended, "output", complaints)
	return fmt.Errorf("the process that compiled it failed: %w", ended)
}

// isOutOfMemory recognises how Go's runtime says that memory is refused, which it
// ends the process for.
func isOutOfMemory(complaints string) bool {
	return strings.Contains(complaints, "out of memory") || strings.Contains(complaints, "cannot allocate memory")
}

// lacksThreads recognises how Go's runtime says that the system gives it no thread,
// which it ends the process for.
func lacksThreads(complaints string) bool {
	return strings.Contains(complaints, "failed to create new OS thread")
}

// cappedBuffer keeps the beginning of what is written to it. It embeds nothing: a
// ReadFrom would get round the cap.
type cappedBuffer struct{ kept []byte }

// Write never fails.
func (b *cappedBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxCompilerOutput-len(b.kept))]...)
	return len(p), nil
}

// RunCompiler is the whole of a process that a Host starts with its Compiler: it
// reads one request from in, compiles within its limits of memory and processor
// time, and writes the answer to out. It ends the process when in ends before
// that, because the server has gone then.
//
// The limits are those of the whole process: nothing else may go on in it. They
// are kept by the kernel on Linux; elsewhere only the time is, by the server.
func RunCompiler(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what is to be compiled: %w", err)
	}
	var request compileRequest
	if err := json.Unmarshal(line, &request); err != nil {
		return fmt.Errorf("read what is to be compiled: %w", err)
	}
	if request.Size < 0 || request.Size > maxCompilerInput || request.Memory <= 0 || request.Time <= 0 {
		return fmt.Errorf("read what is to be compiled: size %d, memory %d or time %d cannot be", request.Size, request.Memory, request.Time)
	}
	var once sync.Once
	tell := func(a compileAnswer) (err error) {
		once.Do(func() { err = json.NewEncoder(out).Encode(a) })
		return err
	}
	onProcessorTimeOver(func() {
		_ = tell(compileAnswer{Outcome: outcomeTime})
		os.Exit(0)
	})
	if err := limitProcess(request.Memory, request.Time); err != nil {
		return fmt.Errorf("limit the memory and time of this process: %w", err)
	}
	debug.SetMemoryLimit(request.Memory / 4 * 3) // collect garbage rather than run into the hard limit
	module := make([]byte, request.Size)
	if _, err := io.ReadFull(r, module); err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	go func() {
		_, _ = r.ReadByte() // nothing comes but the end
		os.Exit(1)
	}()
	return tell(compileAlone(&request, module))
}

// compileAlone compiles in this process, which is there for nothing else.
func compileAlone(request *compileRequest, module []byte) compileAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), request.Time)
	defer cancel()
	e, err := newEngine(ctx, module, request.Folder)
	if err == nil {
		_ = e.close(context.Background()) // the machine code is written
		return compileAnswer{Outcome: outcomeDone}
	}
	broken, panicked := errors.AsType[*enginePanic](err)
	_, bySystem := errors.AsType[syscall.Errno](err)
	switch {
	case ctx.Err() != nil:
		return compileAnswer{Outcome: outcomeTime}
	case errors.Is(err, syscall.EFBIG):
		return compileAnswer{Outcome: outcomeSize}
	case errors.Is(err, syscall.ENOMEM): // the engine maps memory by itself, and panics where it gets none
		return compileAnswer{Outcome: outcomeMemory}
	case bySystem: // else it works with nothing of the system's but files
		return compileAnswer{Outcome: outcomeFolder, Text: err.Error()}
	case panicked:
		return compileAnswer{Outcome: outcomePanic, Text: fmt.Sprint(broken.value), Stack: string(broken.stack)}
	default:
		return compileAnswer{Outcome: outcomeRejected, Text: err.Error()}
	}
}
