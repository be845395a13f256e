package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

// acknowledgeTimeout is how long one Acknowledge tries before it calls it an
// outage.
const acknowledgeTimeout = 10 * time.Second

// Acknowledge implements sources.Source. A position that is not beyond what is
// acknowledged already is left out, so the group never goes back.
//
// A partition that was lost to an outage rather than to another member may be
// acknowledged all the same: the position is kept, and if the partition comes
// back before anybody else has read it, reading goes on there.
func (s *Source) Acknowledge(ctx context.Context, positions []graphmill.Position) error {
	if s.isClosed() {
		return errClosed()
	}
	s.promise(positions)
	trying, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		offsets := s.unacknowledged(positions)
		if len(offsets) == 0 {
			return nil
		}
		err := s.commit(trying, offsets, s.holds)
		if err == nil {
			s.acknowledged(offsets)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f := s.links.fault(fmt.Sprintf("commit offsets of group %q", s.cfg.Group), err)
		if f.Class == graphmill.FaultSetup {
			return f
		}
		s.links.signal()
		// Between rounds of the group the client's membership may be out of
		// date; it is renewed by itself, and with it what is owned.
		if patience.Pause(trying, wait) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if s.inRound(err) {
				return waits(codeRebalancing, fmt.Sprintf("group %q is distributing partitions; commits wait for that", s.cfg.Group), err)
			}
			return f
		}
	}
}

// progress is how far a stream has come in a partition.
type progress struct {
	note         note
	epochs       epochs
	acknowledged int64 // confirmed by the group
	promised     int64 // asked to be acknowledged: its effects are there
}

// promise notes what has been done, whether or not the group can be told.
func (s *Source) promise(positions []graphmill.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range positions {
		at := s.lately[p.TopicPartition]
		if own := s.owned[p.TopicPartition]; own != nil {
			at = &own.progress
		}
		if at != nil && !differ(p.TopicID, at.note.topicID) {
			at.promised = max(at.promised, p.Offset)
		}
	}
}

// originPromise stands in the log where what was done before the partition was
// lost says more than the group does.
const originPromise graphmill.OffsetOrigin = "done_before_loss"

// goOn moves a start position past what this source has done before it lost
// the partition, if the group stands where it stood then. A member that has read
// on meanwhile has done again some of what was done here, over the effects of what
// came behind it: from there on all of it has to be done once more.
func (s *Source) goOn(start *settled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.lately[start.TopicPartition]
	if was == nil || differ(was.note.topicID, start.TopicID) || start.Offset != was.acknowledged || start.Offset >= was.promised {
		return
	}
	start.Offset, start.epoch, start.store = was.promised, was.epochs.before(was.promised), true
	start.origin = originPromise
}

// inRound tells whether a commit failed because of the group's state rather
// than of the connection.
func (s *Source) inRound(err error) bool {
	for _, e := range []error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID} {
		if errors.Is(err, e) {
			return true
		}
	}
	return s.links.standing() && errors.Is(err, context.DeadlineExceeded)
}

// unacknowledged returns what of positions is owned and beyond what is
// acknowledged.
func (s *Source) unacknowledged(positions []graphmill.Position) []offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	offsets := make([]offset, 0, len(positions))
	for _, p := range positions {
		own := s.owned[p.TopicPartition]
		if own == nil || differ(p.TopicID, own.note.topicID) || p.Offset <= own.acknowledged {
			continue
		}
		offsets = append(offsets, offset{p.TopicPartition, p.Offset, own.epochs.before(p.Offset), own.note})
	}
	return offsets
}

func (s *Source) acknowledged(offsets []offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offsets {
		if own := s.owned[o.tp]; own != nil {
			own.acknowledged = max(own.acknowledged, o.at)
			own.epochs.forget(own.acknowledged)
		}
	}
}

// holds tells whether a partition is owned now.
func (s *Source) holds(tp graphmill.TopicPartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[tp] != nil
}

// offset is one partition's part of a commit.
type offset struct {
	tp    graphmill.TopicPartition
	at    int64
	epoch int32
	note  note
}

// commit stores offsets in the group with their notes and returns when the
// broker has confirmed them. Right before the request goes out, after it has
// waited for its turn, admit is asked once more for each partition. The error
// is the first of any partition.
//
// The client holds a commit back while it joins the group, and joins only when
// commits under way are answered. So no commit goes out in the name of a
// generation that is over.
func (s *Source) commit(ctx context.Context, offsets []offset, admit func(graphmill.TopicPartition) bool) error {
	notes := make(map[graphmill.TopicPartition]string, len(offsets))
	at := make(map[string]map[int32]kgo.EpochOffset)
	for _, o := range offsets {
		if at[o.tp.Topic] == nil {
			at[o.tp.Topic] = make(map[int32]kgo.EpochOffset)
		}
		at[o.tp.Topic][o.tp.Partition] = kgo.EpochOffset{Epoch: o.epoch, Offset: o.at}
		notes[o.tp] = o.note.String()
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		topics := req.Topics[:0]
		for _, t := range req.Topics {
			parts := t.Partitions[:0]
			for _, p := range t.Partitions {
				tp := graphmill.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				if admit(tp) {
					p.Metadata = kmsg.StringPtr(notes[tp])
					parts = append(parts, p)
				}
			}
			if t.Partitions = parts; len(parts) > 0 {
				topics = append(topics, t)
			}
		}
		req.Topics = topics
		return nil
	})
	var result error
	s.cl.CommitOffsetsSync(ctx, at, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if result = err; err != nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && result == nil {
					result = fmt.Errorf("partition %d of topic %q: %w", p.Partition, cmp.Or(t.Topic, topicWithID(offsets, formatID(t.TopicID))), err)
				}
			}
		}
	})
	return result
}

// topicWithID returns the topic of that id: from Kafka 4 on, answers to commits
// name topics by id only.
func topicWithID(offsets []offset, id string) string {
	for _, o := range offsets {
		if o.note.topicID == id {
			return o.tp.Topic
		}
	}
	return ""
}
