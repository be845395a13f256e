package pulsarserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// What follows are the statistics of the admin interface, as far as they are kept,
// with the broker's names.

type topicStats struct {
	MsgInCounter  int                          `json:"msgInCounter"` // messages, not entries
	StorageSize   int                          `json:"storageSize"`  // bytes
	Publishers    []publisherStats             `json:"publishers"`
	Subscriptions map[string]subscriptionStats `json:"subscriptions"`
}

type publisherStats struct {
	ProducerName string `json:"producerName"`
}

type subscriptionStats struct {
	Type               string          `json:"type"`       // "None" without consumers
	MsgBacklog         int             `json:"msgBacklog"` // entries, not messages
	BacklogSize        int             `json:"backlogSize"`
	UnackedMessages    int             `json:"unackedMessages"` // 0: not counted for these types
	Durable            bool            `json:"durable"`
	ActiveConsumerName string          `json:"activeConsumerName"`
	Consumers          []consumerStats `json:"consumers"`
}

type consumerStats struct {
	ConsumerName     string `json:"consumerName"`
	Address          string `json:"address"`
	AvailablePermits int64  `json:"availablePermits"`
}

func (t *topic) stats() topicStats {
	st := topicStats{Publishers: []publisherStats{}, Subscriptions: map[string]subscriptionStats{}}
	for _, e := range t.entries {
		st.MsgInCounter += e.messages
		st.StorageSize += len(e.data)
	}
	for p := range t.producers {
		st.Publishers = append(st.Publishers, publisherStats{p.name})
	}
	for name, sub := range t.subs {
		st.Subscriptions[name] = sub.stats()
	}
	return st
}

func (sub *subscription) stats() subscriptionStats {
	st := subscriptionStats{
		Type: "None", MsgBacklog: sub.backlog(), BacklogSize: sub.backlogSize(),
		Durable: sub.durable, Consumers: []consumerStats{},
	}
	if sub.active != nil {
		st.Type, st.ActiveConsumerName = sub.kind, sub.active.name
	}
	for _, c := range sub.consumers {
		st.Consumers = append(st.Consumers, consumerStats{c.name, "/" + c.conn.nc.RemoteAddr().String(), c.permits})
	}
	return st
}

// backlogSize returns the bytes from the first entry on that is not acknowledged.
func (sub *subscription) backlogSize() (bytes int) {
	for _, e := range sub.topic.entries[sub.mark:] {
		bytes += len(e.data)
	}
	return bytes
}

// add sums up what two partitions have in common.
func (st *topicStats) add(other topicStats) {
	st.MsgInCounter += other.MsgInCounter
	st.StorageSize += other.StorageSize
	st.Publishers = append(st.Publishers, other.Publishers...)
	for name, sub := range other.Subscriptions {
		sum, ok := st.Subscriptions[name]
		if !ok {
			sub.ActiveConsumerName = "" // which is another in each partition
			st.Subscriptions[name] = sub
			continue
		}
		if sum.Type == "None" {
			sum.Type = sub.Type
		}
		sum.MsgBacklog += sub.MsgBacklog
		sum.BacklogSize += sub.BacklogSize
		sum.Consumers = append(sum.Consumers, sub.Consumers...)
		st.Subscriptions[name] = sum
	}
}

func (s *Server) getStats(r request) (any, *refusal) {
	t, refused := s.topicOf(r)
	if refused != nil {
		return nil, refused
	}
	return t.stats(), nil
}

func (s *Server) getPartitionedStats(r request) (any, *refusal) {
	n, ok := s.partitioned[r.topic]
	if !ok {
		return nil, refuse(http.StatusNotFound, "Partitioned Topic not found: %s", r.topic)
	}
	var answer struct {
		topicStats
		Metadata struct {
			Partitions int `json:"partitions"`
		} `json:"metadata"`
		Partitions map[string]topicStats `json:"partitions"` // only where perPartition is asked for
	}
	answer.topicStats = topicStats{Publishers: []publisherStats{}, Subscriptions: map[string]subscriptionStats{}}
	answer.Metadata.Partitions = n
	answer.Partitions = map[string]topicStats{}
	for _, t := range s.partsOf(r.topic) {
		answer.add(t.stats())
		if r.URL.Query().Get("perPartition") == "true" {
			answer.Partitions[t.name] = t.stats()
		}
	}
	return answer, nil
}

type internalStats struct {
	EntriesAddedCounter int                    `json:"entriesAddedCounter"`
	NumberOfEntries     int                    `json:"numberOfEntries"`
	TotalSize           int                    `json:"totalSize"`
	LastConfirmedEntry  string                 `json:"lastConfirmedEntry"` // ledger:entry
	Ledgers             []ledgerStats          `json:"ledgers"`
	Cursors             map[string]cursorStats `json:"cursors"`
}

type ledgerStats struct {
	LedgerID int64 `json:"ledgerId"`
	Entries  int   `json:"entries"` // of the one that is written to, 0
}

type cursorStats struct {
	MarkDeletePosition          string `json:"markDeletePosition"`          // ledger:entry
	ReadPosition                string `json:"readPosition"`                // ledger:entry
	IndividuallyDeletedMessages string `json:"individuallyDeletedMessages"` // ranges, the first of each not included
}

func (s *Server) getInternalStats(r request) (any, *refusal) {
	t, refused := s.topicOf(r)
	if refused != nil {
		return nil, refused
	}
	st := internalStats{
		EntriesAddedCounter: len(t.entries), NumberOfEntries: len(t.entries), TotalSize: t.stats().StorageSize,
		LastConfirmedEntry: t.last().String(), Ledgers: t.ledgers(), Cursors: map[string]cursorStats{},
	}
	for name, sub := range t.subs {
		st.Cursors[name] = cursorStats{t.before(sub.mark).String(), t.place(sub.read).String(), sub.ranges()}
	}
	return st, nil
}

// place returns where an index is, or will be.
func (t *topic) place(i int) MessageID {
	if i < len(t.entries) {
		return t.entries[i].id
	}
	return MessageID{t.ledger, t.next}
}

// ledgers lists those with entries and the one that is written to.
func (t *topic) ledgers() []ledgerStats {
	var list []ledgerStats
	for _, e := range t.entries {
		if n := len(list); n > 0 && list[n-1].LedgerID == e.id.Ledger {
			list[n-1].Entries++
		} else if e.id.Ledger != t.ledger {
			list = append(list, ledgerStats{e.id.Ledger, 1})
		}
	}
	return append(list, ledgerStats{t.ledger, 0})
}

// ranges writes what is acknowledged behind the mark: "[(16:2..16:3]]".
func (sub *subscription) ranges() string {
	var parts []string
	indices := slices.Sorted(maps.Keys(sub.acked))
	for len(indices) > 0 {
		n := 1
		for n < len(indices) && indices[n] == indices[0]+n {
			n++
		}
		parts = append(parts, fmt.Sprintf("(%s..%s]", sub.topic.before(indices[0]), sub.topic.place(indices[n-1])))
		indices = indices[n:]
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (s *Server) getSubscriptions(r request) (any, *refusal) {
	topics := s.partsOf(r.topic)
	if len(topics) == 0 {
		return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
	}
	names := []string{}
	for _, t := range topics {
		for name := range t.subs {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
