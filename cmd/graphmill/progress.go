package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

const (
	progressAfter = time.Second // what is done sooner needs no line
	progressEvery = 200 * time.Millisecond
)

// progress is a line on a terminal that tells what a command is doing, once that
// takes a while. The line is gone when the command is done. The zero value tells
// nothing.
type progress struct {
	w    io.Writer
	text atomic.Pointer[func() string]
	quit chan struct{}
	done sync.WaitGroup
}

// startProgress begins to tell, on standard error, if that is a terminal. The
// caller stops it before it prints anything else.
func (a *app) startProgress(text string) *progress {
	f, ok := a.err.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return newProgress(f, text)
}

func newProgress(w io.Writer, text string) *progress {
	p := &progress{w: w, quit: make(chan struct{})}
	p.say(func() string { return text })
	p.done.Go(p.tell)
	return p
}

// say sets what is told from now on. text is called from another goroutine.
func (p *progress) say(text func() string) { p.text.Store(&text) }

// shown says whether there is somebody to tell.
func (p *progress) shown() bool { return p.quit != nil }

// stop ends the telling and removes the line. Stopping twice does nothing.
func (p *progress) stop() {
	if p.quit == nil {
		return
	}
	close(p.quit)
	p.done.Wait()
	p.quit = nil
}

func (p *progress) tell() {
	next := time.NewTimer(progressAfter)
	defer next.Stop()
	const clear = "\r\x1b[K"
	shown := false
	for {
		select {
		case <-p.quit:
			if shown {
				fmt.Fprint(p.w, clear)
			}
			return
		case <-next.C:
		}
		shown = true
		fmt.Fprint(p.w, clear)
		fmt.Fprint(plainText{p.w}, clip((*p.text.Load())(), 79), "...")
		next.Reset(progressEvery)
	}
}

// countedReader counts what has been read.
type countedReader struct {
	r io.Reader
	n atomic.Int64
}

// Read is io.Reader.
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
