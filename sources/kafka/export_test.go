package kafka

import (
	"context"

	"github.com/graphmill/graphmill"
)

// Buffered tells what the client of a source has fetched and not handed out.
func Buffered(s *Source) (messages, bytes int64) {
	return s.cl.BufferedFetchRecords(), s.cl.BufferedFetchBytes()
}

// Commit commits a position of each partition, asking admit when it is about to
// be sent.
func Commit(ctx context.Context, s *Source, at []graphmill.Position, admit func(graphmill.TopicPartition) bool) error {
	offsets := make([]offset, 0, len(at))
	for _, p := range at {
		offsets = append(offsets, offset{p.TopicPartition, p.Offset, -1, note{p.TopicID, 1, ""}})
	}
	return s.commit(ctx, offsets, admit)
}

// Kill ends everything that a source's client does at once, as the end of its
// process would: the group is not told.
func Kill(s *Source) { s.abort() }
