package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestTheHeadOfABatchHasPositionsOfItsOwn(t *testing.T) {
	tp := func(p int32) graphmill.TopicPartition { return graphmill.TopicPartition{Topic: "t", Partition: p} }
	at := func(p int32, offset int64) graphmill.Position {
		return graphmill.Position{TopicPartition: tp(p), TopicID: "id", Offset: offset}
	}
	message := func(p int32, offset int64) graphmill.Message {
		return graphmill.Message{Topic: "t", Partition: p, Offset: offset, Payload: []byte("x")}
	}
	statement := func(m int) graphmill.Statement { return graphmill.Statement{Message: m} }

	// Partition 0 is cut, 1 ends in the head with control records behind it, 2
	// begins behind it, and 3 holds control records alone.
	j := newJob(
		graphmill.Batch{
			Messages:  []graphmill.Message{message(0, 10), message(1, 5), message(0, 12), message(2, 7)},
			Positions: []graphmill.Position{at(0, 13), at(1, 9), at(2, 8), at(3, 4)},
			Bytes:     4,
		},
		[]graphmill.Position{at(0, 10), at(1, 5), at(2, 7), at(3, 2)},
	)
	j.transformed = true
	j.module = graphmill.ModuleVersion{Name: "m", Version: 3}
	j.output = graphmill.Output{Statements: []graphmill.Statement{statement(3), statement(0), statement(2), statement(1)}}
	parts, seen := j.cut(2)
	require.False(t, seen)
	require.Len(t, parts, 2)
	head, rest := parts[0], parts[1]

	require.Same(t, rest.whole, head.whole)
	require.True(t, head.transformed)
	require.Equal(t, rest.module, head.module, "it is recorded with each part")
	require.Equal(t, 3, head.module.Version)
	require.Len(t, head.batch.Messages, 2)
	require.Equal(t, []graphmill.Position{at(0, 11), at(1, 9)}, head.batch.Positions)
	require.Equal(t, []graphmill.Position{at(0, 10), at(1, 5)}, head.first)
	require.EqualValues(t, 2, head.batch.Bytes)
	require.Equal(t, []graphmill.Statement{statement(0), statement(1)}, head.output.Statements, "in their order")

	require.Equal(t, whole{parts: 2, full: 2}, *rest.whole)
	require.Len(t, rest.batch.Messages, 2)
	require.Equal(t, []graphmill.Position{at(0, 13), at(2, 8), at(3, 4)}, rest.batch.Positions)
	require.Equal(t, []graphmill.Position{at(0, 11), at(2, 7), at(3, 2)}, rest.first)
	require.EqualValues(t, 2, rest.batch.Bytes)
	require.Equal(t, []graphmill.Statement{statement(1), statement(0)}, rest.output.Statements)
}
