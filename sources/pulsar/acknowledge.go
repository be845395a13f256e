package pulsar

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// mostAtOnce is how many entries one request acknowledges, at most: a quarter of a
// megabyte, of the five that a broker takes.
const mostAtOnce = 10_000

// Acknowledge implements sources.Source. Whole entries are acknowledged: of one that
// a position lies in nothing is stored at the broker, which would send it again as a
// whole; the caller has the position.
//
// Each entry that was handed out is named, many in one request, rather than the last
// one alone for all before it (cumulatively). What lies between them is not ours to
// acknowledge: the first chunks of a big message whose last one has not come yet
// stand among the entries of others, and would be lost.
func (s *Source) Acknowledge(ctx context.Context, positions []graphmill.Position) error {
	if s.isClosed() {
		return errClosed()
	}
	jobs := s.due(positions)
	if len(jobs) == 0 {
		return nil
	}
	answers := make(chan error, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		if !s.spawn(func() { answers <- s.send(job) }) {
			return errClosed()
		}
	}
	var all []error
	for range jobs {
		select {
		case err := <-answers:
			all = append(all, err)
		case <-ctx.Done():
			return ctx.Err() // the requests end by the operation timeout
		}
	}
	if err := errors.Join(all...); err != nil {
		return s.links.fault(fmt.Sprintf("acknowledge messages of subscription %q", s.cfg.Subscription), err)
	}
	return nil
}

// acknowledgement is what of a position is to be sent to the broker.
type acknowledgement struct {
	p   *partition
	c   *consumer
	at  graphmill.Position
	ids []pulsar.MessageID
}

// due returns what is to be sent for positions of partitions that are owned.
func (s *Source) due(positions []graphmill.Position) []acknowledgement {
	s.mu.Lock()
	defer s.mu.Unlock()
	var jobs []acknowledgement
	for _, at := range positions {
		p := s.partitions[at.TopicPartition]
		if p == nil || !p.owned || p.current == nil {
			continue
		}
		job := acknowledgement{p: p, c: p.current, at: at}
		for i := range p.out {
			e := &p.out[i]
			if !e.before(at.MessageID) {
				break
			}
			job.ids = append(job.ids, pulsar.NewMessageID(e.ledger, e.entry, -1, 0))
			for _, other := range e.others {
				job.ids = append(job.ids, pulsar.NewMessageID(other.ledger, other.entry, -1, 0))
			}
		}
		if len(job.ids) > 0 {
			jobs = append(jobs, job)
		} else if at.MessageID.Compare(p.at.MessageID) > 0 {
			p.at = at
		}
	}
	return jobs
}

// send acknowledges entries and notes it.
func (s *Source) send(job *acknowledgement) error {
	for ids := job.ids; len(ids) > 0; ids = ids[min(len(ids), mostAtOnce):] {
		err := job.c.acknowledge(ids[:min(len(ids), mostAtOnce)])
		if errors.Is(err, errLeft) {
			return nil // it has lost the partition meanwhile
		}
		if err != nil {
			return fmt.Errorf("acknowledge %s: %w", job.at, plain(err))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	job.p.pass(job.at.MessageID)
	if job.at.MessageID.Compare(job.p.at.MessageID) > 0 {
		job.p.at = job.at
	}
	return nil
}

// plain is the cause of an error that names each message that it is about.
func plain(err error) error {
	var list pulsar.AckError
	if errors.As(err, &list) {
		for _, cause := range list {
			return cause
		}
	}
	return err
}
