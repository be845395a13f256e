package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
)

// othersTimeout is how long partitions that are not this member's may be without
// a position before it settles them all the same.
const othersTimeout = 5 * time.Second

// awaitGroup returns once no partition of the topics is left whose position
// depends on when it is settled, whoever has it: what is produced from then on is
// not missed, although members may die before they have begun. A topic counts as
// absent when that is sure (see noteAbsent), and is younger than the start then.
//
// What this member owns is settled by now. Others settle their own; where none
// does so in time, because it has died, cannot reach a leader or is another
// program, or because the client has not noticed a partition yet, this member
// commits a position for it. A broker lets every member of a generation do so.
// Where another does it at the same moment, the later commit stays. Nothing is
// lost by that: each has listed its offset before it found no commit (see gather),
// so before anybody's Open could return because of one.
func (s *Source) awaitGroup(ctx context.Context) error {
	if s.cfg.Start.Earliest {
		return nil // nothing is left out, however late it is settled
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	began := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		open, sure, err := s.withoutPosition(ctx)
		if err == nil && sure && len(open) == 0 {
			return nil
		}
		if err == nil && len(open) > 0 {
			s.cl.ForceMetadataRefresh() // a partition may be new to the client, which looks now and then only
			if time.Since(began) > othersTimeout {
				err = s.settleForOthers(ctx, open)
			}
		}
		if err != nil && ctx.Err() == nil {
			f := s.links.fault("settle the positions of the group", err)
			if f.Class == graphmill.FaultSetup {
				s.fail(f)
			}
			s.cfg.Logger.Debug("positions of the group are not settled yet", "error", err)
			s.links.signal()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			continue
		case <-s.failed:
			err = s.fault
		case <-ctx.Done():
			if err = ctx.Err(); s.life.Err() != nil {
				err = errClosed()
			}
		}
		timer.Stop()
		return err
	}
}

// withoutPosition returns the partitions that nobody has settled and that are not
// younger than the group's reading. sure is false while it may be that a topic
// is absent and may be that it is not.
func (s *Source) withoutPosition(ctx context.Context) (open []graphmill.TopicPartition, sure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var f facts
	if f.topics, err = describeTopics(ctx, s.cl, s.cfg.Topics); err != nil {
		return nil, false, err
	}
	if f.commits, err = commitsOf(ctx, s.cl, s.cfg.Group, s.cfg.Topics); err != nil {
		return nil, false, err
	}
	sure = true
	for topic, info := range f.topics {
		// What only the catalog here knows, the members that have them do not.
		past := f.pastOf(&Config{}, topic)
		switch {
		case info.absent():
			sure = sure && s.isAbsent(topic)
			continue
		case info.err != nil && past.settled:
			continue // reading has begun there; the watcher tells what is wrong
		case info.err != nil:
			return nil, false, fmt.Errorf("describe topic %q: %w", topic, info.err)
		}
		for p := range info.partitions {
			c, committed := f.commits.Lookup(topic, p)
			if committed && c.At >= 0 || past.settled && p >= past.base {
				continue
			}
			open = append(open, graphmill.TopicPartition{Topic: topic, Partition: p})
		}
	}
	sortPartitions(open)
	return open, sure, nil
}

// settleForOthers commits positions of partitions that have none.
func (s *Source) settleForOthers(ctx context.Context, tps []graphmill.TopicPartition) error {
	asked, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.mu.Lock()
	cfg := s.cfg
	cfg.Known = slices.Clone(cfg.Known) // rebalances change them
	s.mu.Unlock()
	all, _, err := s.decide(asked, &cfg, tps)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(one settled) bool { return one.origin == graphmill.OriginGroup }) // settled meanwhile
	for _, one := range all {
		s.cfg.Logger.Info("start position settled for another member", "partition", one.TopicPartition.String(), "offset", one.Offset)
	}
	return s.store(asked, all)
}
