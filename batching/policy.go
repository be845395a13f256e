// Package batching turns the messages of a source into batches: closed by
// size, by bytes or by an interval, and never more than one ahead of the batch
// that is being executed.
//
// The interval's clock starts with the first call of Next, when the last batch
// that was handed out has been completed, and when an interval has ended with
// nothing collected. While a batch is out, the next one is closed by size or
// bytes only: closing it earlier would make batches smaller without making
// anything faster, since nothing of it may be executed yet.
package batching

import (
	"context"
	"time"

	"github.com/graphmill/graphmill"
)

// Policy says when a batch is closed.
type Policy struct {
	// Size is the most messages of a batch, at least 1.
	Size int

	// Bytes is the most bytes of a batch, by graphmill.Message.Size, at least
	// 1. A message that is bigger by itself makes a batch of its own.
	Bytes int64

	// Interval is the longest that a message waits for others once nothing is
	// out, more than 0.
	Interval time.Duration
}

// Fetcher gives messages: a sources.Source, or what reads for CHECK.
type Fetcher interface {
	// Fetch waits until there is something and returns at most max messages,
	// in order within each partition. It returns promptly with the context's
	// error when ctx ends, also while partitions are being revoked, and loses
	// nothing by that. The slices that it returns belong to the caller.
	Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error)
}
