package main

import (
	"context"
	"io"
	"os"
)

// input is standard input as long as ctx lasts; then a read returns the
// context's error.
func (a *app) input(ctx context.Context) io.Reader {
	return interruptible(ctx, func() (io.Reader, error) { return a.in, nil })
}

// pipe is what only reading tells the size of, such as a named pipe: as input
// is.
func pipe(ctx context.Context, path string) io.Reader {
	return interruptible(ctx, func() (io.Reader, error) { return os.Open(path) })
}

// interruptible reads what open returns until ctx ends. Neither a read of a
// terminal nor the opening of a pipe that nobody writes to can be cancelled: the
// goroutine that is in one stays behind and ends with the process.
func interruptible(ctx context.Context, open func() (io.Reader, error)) io.Reader {
	r, w := io.Pipe()
	go func() {
		in, err := open()
		if err == nil {
			_, err = io.Copy(w, in)
		}
		_ = w.CloseWithError(err) // nil is the end of the input
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return r
}
