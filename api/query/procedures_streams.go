package query

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// reducted stands in place of secrets, with the spelling that clients match.
const reducted = "<REDUCTED>"

// What mg.kafka_set_stream_offset means by the numbers that are no offsets: not
// what Kafka means by them.
const (
	offsetBeginning = -1
	offsetEnd       = -2
)

func (e *executor) setOffset(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	name, offset := a.text(0), a.number(1)
	to := strconv.FormatInt(offset, 10)
	switch {
	case offset == offsetBeginning:
		to = graphmill.StartEarliest
	case offset == offsetEnd:
		to = graphmill.StartLatest
	case offset < 0:
		err := graphmill.Invalid("", "%d is no offset", offset)
		err.Next = "-1 is the beginning, -2 the end, a number from 0 on that offset of every partition"
		return nil, e.failed(ctx, name, settingOffset, err)
	}
	info, err := e.stream(ctx, name)
	if err == nil {
		err = only(info, "mg.kafka_set_stream_offset", graphmill.SourceNameKafka)
	}
	if err == nil {
		_, err = e.engine.SetStreamOffsets(ctx, name, server.SetOffsetsRequest{To: to})
	}
	return nil, e.failed(ctx, name, settingOffset, err)
}

// only refuses streams of the other source.
func only(info server.StreamInfo, procedure, source string) error {
	if info.Spec.Source == source {
		return nil
	}
	return graphmill.Conflict(codeWrongSource, "'%s' can be only used for %s stream sources", procedure, consumerOf(source))
}

func (e *executor) kafkaInfo(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	info, err := e.stream(ctx, a.text(0))
	if err == nil {
		err = only(info, "mg.kafka_stream_info", graphmill.SourceNameKafka)
	}
	if err != nil {
		return nil, e.failed(ctx, a.text(0), showing, err)
	}
	spec := info.Spec.Redacted()
	configs := make(map[string]any, len(spec.Configs))
	for k, v := range spec.Configs {
		if v == graphmill.RedactedValue {
			v = reducted
		}
		configs[k] = v
	}
	credentials := make(map[string]any, len(spec.Credentials))
	for k := range spec.Credentials {
		credentials[k] = reducted
	}
	return [][]graphmill.Value{{strings.Join(info.Brokers, ","), configs, spec.ConsumerGroup, credentials, texts(spec.Topics)}}, nil
}

func (e *executor) pulsarInfo(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	info, err := e.stream(ctx, a.text(0))
	if err == nil {
		err = only(info, "mg.pulsar_stream_info", graphmill.SourceNamePulsar)
	}
	if err != nil {
		return nil, e.failed(ctx, a.text(0), showing, err)
	}
	topics := texts(info.Spec.Topics)
	if info.Spec.TopicsPattern != "" {
		topics = texts([]string{info.Spec.TopicsPattern})
	}
	return [][]graphmill.Value{{strings.Join(info.Brokers, ","), topics}}, nil
}

// texts is a list of strings as a value.
func texts(list []string) []any {
	values := make([]any, len(list))
	for i, s := range list {
		values[i] = s
	}
	return values
}

var statusColumns = []string{"end", "lag", "last_error", "messages_per_second", "module", "next_step", "partition", "position", "reason", "state", "topic"}

// status has a row for each partition; one without a partition where none is
// known.
func (e *executor) status(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	s, err := e.engine.StreamStatus(ctx, a.text(0))
	if err != nil {
		return nil, e.failed(ctx, a.text(0), showing, err)
	}
	var reason, next, lastError, module graphmill.Value
	if s.Reason != nil {
		reason = s.Reason.Code + ": " + s.Reason.Text
		if s.Reason.NextStep != "" {
			next = s.Reason.NextStep
		}
	}
	if s.LastFailure != nil {
		lastError = s.LastFailure.Code + ": " + s.LastFailure.Text
	}
	if s.Module != nil {
		module = fmt.Sprintf("%s version %d", s.Module.Name, s.Module.Version)
	}
	row := func(end, lag, rate, partition, position, topic graphmill.Value) []graphmill.Value {
		return []graphmill.Value{end, lag, lastError, rate, module, next, partition, position, reason, string(s.State), topic}
	}
	if len(s.Partitions) == 0 {
		return [][]graphmill.Value{row(nil, nil, nil, nil, nil, nil)}, nil
	}
	var rows [][]graphmill.Value
	for _, p := range s.Partitions {
		rows = append(rows, row(end(&p), known(p.Lag), math.Round(100*p.MessagesPerSecond10s)/100, int64(p.Partition), position(&p), p.Topic))
	}
	return rows, nil
}

// position is how far a partition is acknowledged: an offset, or a message id.
func position(p *graphmill.PartitionStatus) graphmill.Value {
	if p.MessageID != (graphmill.MessageID{}) {
		return p.MessageID.String()
	}
	return known(p.Acknowledged)
}

// end is where a partition ends: an offset, or the id of its last message.
func end(p *graphmill.PartitionStatus) graphmill.Value {
	if p.LastMessageID != (graphmill.MessageID{}) {
		return p.LastMessageID.String()
	}
	return known(p.End)
}

// known is a number of a status, of which -1 is not known.
func known(n int64) graphmill.Value {
	if n < 0 {
		return nil
	}
	return n
}
