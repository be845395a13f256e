package stack

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	firstReport = time.Second     // what is done sooner is not worth a line
	nextReports = 5 * time.Second // and then a sign of life this often
)

// progress writes lines about what a server is doing. A nil writer discards
// them. It is safe for concurrent use.
type progress struct {
	name string // of the server, before each line

	mu sync.Mutex
	w  io.Writer
}

func newProgress(name string, w io.Writer) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{name: name, w: w}
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Progress that cannot be written is no reason to fail.
	_, _ = fmt.Fprintf(p.w, "%s: %s\n", p.name, fmt.Sprintf(format, args...))
}

// during runs f and says what it is doing once that takes longer than a second.
func (p *progress) during(what string, f func() error) error {
	start := time.Now()
	done := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() {
		timer := time.NewTimer(firstReport)
		defer timer.Stop()
		for {
			select {
			case <-done:
				return
			case <-timer.C:
				p.printf("%s (%s)", what, time.Since(start).Round(time.Second))
				timer.Reset(nextReports)
			}
		}
	})
	err := f()
	close(done)
	reporter.Wait()
	return err
}
