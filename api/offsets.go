package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// SetOffsets is the body that sets positions.
type SetOffsets struct {
	Set       string                    `json:"set" doc:"Where the stream goes on: earliest, latest, a time in RFC 3339, an offset as digits, or a message id of Pulsar, LEDGER:ENTRY:INDEX."`
	Partition *graphmill.TopicPartition `json:"partition,omitempty" doc:"The partition that is meant; all of the stream's topics by default. A topic of Pulsar that is not partitioned has the partition -1."`
}

type (
	setOffsetsInput struct {
		Name string `path:"name" doc:"The name of the stream."`
		Body SetOffsets
	}
	offsetsOutput struct{ Body graphmill.OffsetsInfo }
)

func (s *service) registerOffsets() {
	const path = prefix + "/streams/{name}/offsets"
	register(s, huma.Operation{
		OperationID: "streamOffsets", Method: http.MethodGet, Path: path, Tags: []string{"Streams"},
		Summary:     "Show where a stream would begin",
		Description: "In each partition, and why there, and who is in the consumer group, or subscription, now. Nothing is joined and nothing moves.",
	}, func(ctx context.Context, in *streamInput) (*offsetsOutput, error) {
		if err := graphmill.ValidateName("name", in.Name); err != nil {
			return nil, err
		}
		return offsetsAnswer(s.engine.StreamOffsets(ctx, in.Name))
	})
	register(s, huma.Operation{
		OperationID: "setStreamOffsets", Method: http.MethodPut, Path: path, Tags: []string{"Streams"},
		Summary: "Set where a stream begins",
		Description: "The stream is stopped or has failed, and its consumer group, or subscription, is empty; else it is a conflict (stream_running, group_active). " +
			"Messages that are left out are not applied; those before the old position are applied again.",
	}, func(ctx context.Context, in *setOffsetsInput) (*offsetsOutput, error) {
		if err := graphmill.ValidateName("name", in.Name); err != nil {
			return nil, err
		}
		return offsetsAnswer(s.engine.SetStreamOffsets(ctx, in.Name, server.SetOffsetsRequest{To: in.Body.Set, Partition: in.Body.Partition}))
	})
}

func offsetsAnswer(info graphmill.OffsetsInfo, err error) (*offsetsOutput, error) {
	if err != nil {
		return nil, err
	}
	info.Members, info.Partitions = orEmpty(info.Members), orEmpty(info.Partitions)
	return &offsetsOutput{Body: info}, nil
}
