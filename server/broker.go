package server

import (
	"context"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
	"github.com/graphmill/graphmill/sources"
)

// broker is what the server asks about the broker that one definition reads from.
// It is made for a question and holds no connection (see Server.broker). Errors are
// those of the package behind it: *graphmill.Fault, *graphmill.Error, or the
// context's.
type broker interface {
	// reads is what the definition reads, as far as it tells.
	reads() reading

	// validate refuses a definition that names no broker where the server has no
	// default either.
	validate() error

	// startFrom is what CONFIGS say of START_FROM, in its words; empty: nothing.
	startFrom() (setting, start string)

	// notes checks CONFIGS and CREDENTIALS, and tells what of them has no effect.
	notes() ([]string, error)

	// probe looks whether broker and topics are there and may be read.
	probe(ctx context.Context) error

	// prepare makes sure that what is sent from now on will be read by a stream that
	// starts later, where that is in the broker's hands. It returns where that begins,
	// for the catalog. Once more does no harm.
	prepare(ctx context.Context) ([]graphmill.Position, error)

	// source makes the source of a run. known are the positions of the catalog.
	source(known []graphmill.Position, accepted StartRequest, obs sources.Observer) (sources.Source, error)

	// reader makes the reader of a check, which changes nothing at the broker. from
	// is that of a CheckRequest.
	reader(known []graphmill.Position, from string) (reader, error)

	// offsets tells where a run would begin.
	offsets(ctx context.Context, known []graphmill.Position) (graphmill.OffsetsInfo, error)

	// setOffsets moves the positions at the broker, of one partition or, where only
	// is nil, of all. It returns those that it has moved.
	setOffsets(ctx context.Context, known []graphmill.Position, to graphmill.OffsetTarget, only *graphmill.TopicPartition) ([]graphmill.Position, error)

	// unsubscribe makes the broker forget how far the stream is. Errors beside the
	// broker's: KindInvalid where that is not the broker's business.
	unsubscribe(ctx context.Context) error
}

// reader is what a check reads from.
type reader interface {
	batching.Fetcher
	Close()
}

// broker returns the broker that a definition reads from.
func (s *Server) broker(spec graphmill.StreamSpec) broker {
	if spec.Source == graphmill.SourceNamePulsar {
		return &pulsarBroker{spec: spec, srv: s}
	}
	return &kafkaBroker{spec: spec, srv: s}
}
