package main

import (
	"context"
	"io"
)

// input is standard input as long as ctx lasts; then a read returns the
// context's error. A read of a terminal cannot be cancelled: the goroutine that
// is in one stays behind and ends with the process.
func (a *app) input(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, a.in)
		_ = w.CloseWithError(err) // nil is the end of the input
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return r
}
