// Package ledger is a sink that records statements in a file and executes
// nothing: for trying Graphmill out, and for those who write plugins.
//
// The file holds one line of JSON for each batch. A line is on the disk before
// Execute returns, so the last line of a stream and partition is its checkpoint.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/graphmill/graphmill"
)

// Reason codes of faults.
const (
	codeMessage    = "message"
	codeTooBig     = "too_big"
	codeDiskFull   = "disk_full"
	codeUnwritable = "ledger_unwritable"
	codeMoved      = "ledger_moved"
)

// file is the part of os.File that is used once the ledger is open.
type file interface {
	WriteAt(b []byte, at int64) (int, error)
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
	Close() error
}

// Sink is a graphmill.Sink that writes to a file. It is safe for concurrent use:
// batches of several streams are written one after the other. At no time is
// there more than one line whose place on the disk is not certain, which is what
// tells a line that was torn by a crash from any other damage.
type Sink struct {
	path string
	log  *slog.Logger

	mu        sync.Mutex
	file      file
	end       int64 // bytes of good lines
	torn      bool  // there may be something behind end
	closed    bool
	positions map[string]map[graphmill.TopicPartition]graphmill.Position // by stream
}

// Open opens a ledger, or makes one of mode 0600. One process has it at a time:
// a *graphmill.Error of KindConflict tells that another one does. What a crash
// has left of a last line is cut off and logged; any other damage is an error
// that names the line.
//
// Opening reads the whole file, and takes as much memory as its longest line.
// log may be nil.
func Open(path string, log *slog.Logger) (*Sink, error) {
	if path == "" {
		return nil, graphmill.Invalid("graph_uri", "the path of the ledger is missing, as in ledger:FILE")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	s := &Sink{path: path, log: log, file: f, positions: map[string]map[graphmill.TopicPartition]graphmill.Position{}}
	if err := s.load(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// openLocked opens the file and takes its lock, which goes with the open file.
func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	fail := func(err error) (*os.File, error) { return nil, errors.Join(err, f.Close()) }
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(fmt.Errorf("open the ledger: %w", err))
	case !info.Mode().IsRegular():
		return fail(graphmill.Invalid("graph_uri", "the ledger %s is not a file", path))
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			c := graphmill.Conflict("ledger_in_use", "the ledger %s is in use by another process", path)
			c.Next = "stop the other process, or name another file"
			return fail(c)
		}
		return fail(fmt.Errorf("lock the ledger %s: %w", path, err))
	}
	if info.Size() == 0 {
		if err := syncDir(filepath.Dir(path)); err != nil {
			return fail(fmt.Errorf("make the ledger %s: %w", path, err))
		}
	}
	return f, nil
}

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reads all lines and cuts off a torn one.
func (s *Sink) load(f *os.File) error {
	found, err := scan(f, func(l header) { s.advance(l.Stream, l.Last) })
	if err != nil {
		var damage *damageError
		if errors.As(err, &damage) {
			return &graphmill.Error{
				Kind: graphmill.KindInternal, Code: "ledger_damaged",
				Text: fmt.Sprintf("the ledger %s is damaged: %v", s.path, err),
				Next: "move the file away to begin a new one, or take the line out",
			}
		}
		return fmt.Errorf("read the ledger %s: %w", s.path, err)
	}
	s.end = found.good
	if found.torn == 0 {
		return nil
	}
	s.log.Warn("the last line of the ledger was not complete and has been cut off: its batch had not been acknowledged",
		"ledger", s.path, "line", found.lines+1, "bytes", found.torn)
	if err := errors.Join(f.Truncate(s.end), f.Sync()); err != nil {
		return fmt.Errorf("cut a torn line off the ledger %s: %w", s.path, err)
	}
	return nil
}

// advance remembers how far a stream is. mu is held, or nobody else knows s.
func (s *Sink) advance(stream string, last []graphmill.Position) {
	of := s.positions[stream]
	if of == nil {
		of = map[graphmill.TopicPartition]graphmill.Position{}
		s.positions[stream] = of
	}
	for _, p := range last {
		of[p.TopicPartition] = p
	}
}

// Positions returns how far a stream is, by its last lines. Sorted; empty where
// there are none.
func (s *Sink) Positions(stream string) []graphmill.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]graphmill.Position, 0, len(s.positions[stream]))
	for _, p := range s.positions[stream] {
		list = append(list, p)
	}
	graphmill.SortPositions(list)
	return list
}

// Execute writes one line and has it on the disk when it returns, also for a
// work without statements: its positions count. On error the file is as it was
// before, unless the fault says Unknown.
func (s *Sink) Execute(ctx context.Context, w graphmill.Work) (graphmill.Executed, error) {
	line, fault := encode(w, time.Now())
	if fault != nil {
		return graphmill.Executed{}, fault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return graphmill.Executed{}, fmt.Errorf("waiting for the ledger %s: %w", s.path, err)
	}
	if fault := s.usable(); fault != nil {
		return graphmill.Executed{}, fault
	}
	if fault := s.append(line); fault != nil {
		return graphmill.Executed{}, fault
	}
	s.advance(w.Stream, slices.Clone(w.Last))
	return graphmill.Executed{Statements: len(w.Statements), Sent: len(w.Statements)}, nil
}

// append writes a line behind the good ones. mu is held.
func (s *Sink) append(line []byte) *graphmill.Fault {
	s.torn = true
	_, err := s.file.WriteAt(line, s.end)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		s.torn = false
		s.end += int64(len(line))
		return nil
	}
	fault := s.fault(fmt.Errorf("write: %w", err))
	// Whatever of the line is there must not be taken for one that counts.
	if err := s.cut(); err != nil {
		fault.Unknown = true
	}
	return fault
}

// cut drops what is behind the good lines. mu is held.
func (s *Sink) cut() error {
	if err := s.file.Truncate(s.end); err != nil {
		return fmt.Errorf("cut off what could not be written: %w", err)
	}
	s.torn = false
	return nil
}

// usable reports why nothing can be written. mu is held.
func (s *Sink) usable() *graphmill.Fault {
	if s.closed {
		return s.fault(errors.New("it is closed"))
	}
	if s.torn {
		if err := s.cut(); err != nil {
			return s.fault(err)
		}
	}
	ours, err := s.file.Stat()
	if err != nil {
		return s.fault(err)
	}
	named, err := os.Stat(s.path)
	if err != nil || !os.SameFile(ours, named) {
		return &graphmill.Fault{
			Class: graphmill.FaultTransient, Code: codeMoved, Outage: true, Message: graphmill.WholeBatch,
			Text: fmt.Sprintf("the ledger %s has been moved or removed while it was in use", s.path),
			Next: "put the file back, or restart the server to begin a new one",
		}
	}
	return nil
}

// fault is for errors of the disk: they are waited out.
func (s *Sink) fault(err error) *graphmill.Fault {
	f := &graphmill.Fault{
		Class: graphmill.FaultTransient, Code: codeUnwritable, Outage: true, Message: graphmill.WholeBatch,
		Text: fmt.Sprintf("the ledger %s cannot be written: %v", s.path, err),
		Next: "mend the disk; the stream goes on by itself once the file can be written",
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f.Code = codeDiskFull
		f.Next = "make room on the disk; the stream goes on by itself then"
	}
	return f
}

// Verify tells whether batches can be written. A ledger has no databases: any
// name will do.
func (s *Sink) Verify(ctx context.Context, database string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for the ledger %s: %w", s.path, err)
	}
	if fault := s.usable(); fault != nil {
		return fault
	}
	return nil
}

// Texts returns nothing: no text is executed.
func (s *Sink) Texts(stream string) []graphmill.TextStatus { return []graphmill.TextStatus{} }

// Lanes does nothing: lanes write one after the other.
func (s *Sink) Lanes(int) {}

// Close closes the file and gives up its lock. It may be called more than once.
func (s *Sink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("close the ledger: %w", err)
	}
	return nil
}
