package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

const (
	// restPatience is how long the status of a stream that does not run waits for
	// the broker.
	restPatience = 2 * time.Second

	// restValid is how long an answer counts, and that there was none.
	restValid = 5 * time.Second
)

// atRest is what the broker last said about the partitions of a stream while it did
// not run. A status asks for it, since no run does. Safe for concurrent use.
type atRest struct {
	asking sync.Mutex // held by the status that asks; the others get its answer

	mu         sync.Mutex
	partitions []graphmill.PartitionStatus // nil: there was no answer
	at         time.Time                   // when; zero: it was not asked
	revision   uint64                      // of the definition that it was asked with
	refused    bool                        // the broker does not let that in: not asked again, attempts lock accounts
}

// known returns the last answer; ok says that it still counts.
func (a *atRest) known(rec catalog.Stream) (partitions []graphmill.PartitionStatus, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ok = !a.at.IsZero() && a.revision == rec.Revision && (a.refused || time.Since(a.at) < restValid)
	return a.partitions, ok
}

func (a *atRest) note(rec catalog.Stream, partitions []graphmill.PartitionStatus, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.partitions, a.at, a.revision, a.refused = partitions, time.Now(), rec.Revision, refused
}

// forget makes the next status ask again: the positions have been moved.
func (a *atRest) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
}

// partitionsAtRest asks the broker, outside the group, how far the stream has come
// and where its partitions end. It is not ok where the broker does not answer in
// time, or must not be asked.
func (st *stream) partitionsAtRest() (partitions []graphmill.PartitionStatus, ok bool) {
	st.rest.asking.Lock()
	defer st.rest.asking.Unlock()
	rec := st.record()
	if st.active() || rec.Locked != nil || rec.Failed != nil && lockedOut(rec.Failed.Code) {
		return nil, false
	}
	if partitions, ok := st.rest.known(rec); ok {
		return partitions, partitions != nil
	}
	partitions, refused := st.askAtRest(rec)
	st.rest.note(rec, partitions, refused)
	return partitions, partitions != nil
}

// lockedOut says of a reason that the broker has not let the stream in.
func lockedOut(code string) bool {
	return code == "auth" || strings.HasPrefix(code, "sasl_") || strings.HasPrefix(code, "tls_")
}

func (st *stream) askAtRest(rec catalog.Stream) (partitions []graphmill.PartitionStatus, refused bool) {
	// Not the caller's context: others wait for the answer, too.
	ctx, cancel := context.WithTimeout(st.srv.life, restPatience)
	defer cancel()
	select {
	case st.srv.asking <- struct{}{}:
		defer func() { <-st.srv.asking }()
	case <-ctx.Done():
		return nil, false
	}
	info, err := st.srv.offsets(ctx, rec.Spec)
	if err != nil {
		var e *graphmill.Error
		return nil, errors.As(err, &e) && lockedOut(e.Code)
	}
	partitions = make([]graphmill.PartitionStatus, len(info.Partitions))
	for i, p := range info.Partitions {
		partitions[i] = graphmill.PartitionStatus{TopicPartition: p.TopicPartition, TopicID: p.TopicID, Acknowledged: -1, End: p.End, LastMessageID: p.LastMessageID, LagFrom: p.LagFrom, Lag: -1, Lane: -1}
		if p.Origin == graphmill.OriginGroup || p.Origin == graphmill.OriginCatalog {
			partitions[i].Acknowledged, partitions[i].MessageID, partitions[i].Lag = p.Offset, p.MessageID, p.Lag
		}
	}
	return partitions, false
}
