package graph

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

type textHash = [sha256.Size]byte

// verdictKey names a text in a database. Databases of one server may differ in
// their default language and their indexes.
type verdictKey struct {
	database string
	text     textHash
}

// verdict says how a text is executed.
type verdict struct {
	why    string // not empty: one by one, for this reason
	query  string // else: the coalesced form
	params []string

	// schema says that the database calls the text one that changes the schema
	// or the set-up.
	schema bool
}

// needs tells what the database says that a text does beside reading and writing
// data. The tokens say so first; but a procedure of somebody's own has a name
// that means nothing here.
func (v verdict) needs() []need {
	if !v.schema {
		return nil
	}
	return []need{{what: "what the database calls a change of the schema or the set-up", allow: graphmill.AllowSchema}}
}

// A text is examined only once it has stood in this many batches, or this many
// times in one: examining costs more than it saves for a text that does not come
// again.
const repeats = 3

// Bounds of what is remembered. The texts seen are kept apart, so that a flood of
// texts that never come again cannot push out the verdicts.
const (
	maxVerdictBytes = 16 << 20
	maxSeen         = 10_000
	maxIndexes      = 10_000 // of all databases
	verdictOverhead = 500    // bytes of a verdict beside its strings
)

// verdicts remembers how texts are executed, until the server changes.
type verdicts struct {
	mu      sync.Mutex
	epoch   int // of the server: a verdict reached in an earlier one is not kept
	known   *lru[verdictKey, verdict]
	seen    *lru[verdictKey, int]        // batches in which a text stood
	judging map[verdictKey]chan struct{} // closed when the verdict is there
	indexes *lru[string, *typedIndexes]  // of each database
}

func newVerdicts() *verdicts {
	return &verdicts{
		known:   newLRU[verdictKey, verdict](maxVerdictBytes),
		seen:    newLRU[verdictKey, int](maxSeen),
		judging: map[verdictKey]chan struct{}{},
		indexes: newLRU[string, *typedIndexes](maxIndexes),
	}
}

// forget drops everything: the server has gone away, or is another one.
func (v *verdicts) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.epoch++
	v.known.clear()
	v.indexes.clear()
}

// sight counts a batch in which a text stood and returns how many there were.
func (v *verdicts) sight(key verdictKey) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, _ := v.seen.get(key)
	n++
	v.seen.put(key, n, 1)
	return n
}

func (v *verdicts) get(key verdictKey) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known.get(key)
}

// claim returns the verdict, or a channel to wait for whoever is reaching it, or
// neither: then the caller reaches it and calls settle.
func (v *verdicts) claim(key verdictKey) (got verdict, ok bool, wait <-chan struct{}, epoch int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if got, ok = v.known.get(key); ok {
		return got, true, nil, v.epoch
	}
	if busy, ok := v.judging[key]; ok {
		return got, false, busy, v.epoch
	}
	v.judging[key] = make(chan struct{})
	return got, false, nil, v.epoch
}

// settle ends a claim. got is kept if it is not nil and the server is still the
// one that it was reached with.
func (v *verdicts) settle(key verdictKey, got *verdict, epoch int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.judging[key])
	delete(v.judging, key)
	if got != nil && epoch == v.epoch {
		v.keep(key, *got)
	}
}

// replace keeps a verdict in place of the one that there is.
func (v *verdicts) replace(key verdictKey, got verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(key, got)
}

func (v *verdicts) keep(key verdictKey, got verdict) {
	cost := verdictOverhead + len(got.query) + len(got.why)
	for _, p := range got.params {
		cost += len(p)
	}
	v.known.put(key, got, cost)
}

// decide fills in how a text is executed, and what the database says that it
// does. An error is a fault of the server, never one of the text.
func (s *Sink) decide(ctx context.Context, stream, database string, u *use) error {
	key := verdictKey{database, u.hash}
	if got, ok := s.verdicts.get(key); ok {
		s.streams.earn(stream)
		u.verdict, u.why = got, got.why
		return nil
	}
	if seen := s.verdicts.sight(key); seen < repeats && u.count < repeats {
		u.why = "it has not come often enough to be examined"
		return nil
	}
	if !s.streams.try(stream) {
		u.why = "too many texts of the stream came only once or twice; put what differs into parameters"
		return nil
	}
	for {
		got, ok, wait, epoch := s.verdicts.claim(key)
		if ok {
			u.verdict, u.why = got, got.why
			return nil
		}
		if wait == nil {
			return s.reach(ctx, key, u, epoch)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return s.interrupted(ctx)
		}
	}
}

// reach reaches the verdict that the caller has claimed. The claim ends whatever
// happens: others wait for it.
func (s *Sink) reach(ctx context.Context, key verdictKey, u *use, epoch int) error {
	var got *verdict
	defer func() { s.verdicts.settle(key, got, epoch) }()
	v, err := s.judge(ctx, key.database, u.text)
	if err != nil {
		return err
	}
	got = &v
	u.verdict, u.why = v, v.why
	return nil
}

// judge judges a text. The database has to accept the text as it is
// and in its coalesced form.
func (s *Sink) judge(ctx context.Context, database, text string) (verdict, error) {
	reach, cancel := s.bound(ctx, s.limit())
	defer cancel()
	session := s.session(reach, database, nil)
	defer s.closeSession(reach, session)

	// The plain text is explained without its parameters: with those of the
	// statement at hand a value of the wrong type would speak against the text.
	schema, why, err := s.explain(ctx, reach, session, text, nil)
	if err != nil || why != "" {
		return verdict{why: why}, err
	}
	c, why := coalesce(text)
	if why != "" {
		return verdict{why: why, schema: schema}, nil
	}
	_, why, err = s.explain(ctx, reach, session, c.query, map[string]any{rowsParameter: []any{}})
	switch {
	case err != nil:
		return verdict{}, err
	case why != "":
		return verdict{why: "the database refuses the coalesced form: " + why, schema: schema}, nil
	}
	indexes, err := s.typedIndexes(ctx, reach, session, database)
	if err != nil {
		return verdict{}, err
	}
	if why := indexes.affect(c); why != "" {
		return verdict{why: why, schema: schema}, nil
	}
	return verdict{query: c.query, params: c.params, schema: schema}, nil
}

// explain asks the database to plan a text. schema tells that the text would
// change more than data, why that the database refuses it; err is any other
// fault.
func (s *Sink) explain(ctx, reach context.Context, session neo4j.SessionWithContext, text string, params map[string]any) (schema bool, why string, err error) {
	result, err := autocommit(reach, session, "EXPLAIN "+text, params, neo4j.WithTxTimeout(s.cfg.TransactionTimeout))
	var summary neo4j.ResultSummary
	if err == nil {
		summary, err = s.consume(reach, result)
	}
	if err == nil {
		return summary.StatementType() == neo4j.StatementTypeSchemaWrite, "", nil
	}
	err = s.fault(ctx, stageRun, err, graphmill.WholeBatch)
	var f *graphmill.Fault
	if errors.As(err, &f) && (f.Class == graphmill.FaultMessage || f.Class == graphmill.FaultTooBig) {
		return false, f.Text, nil
	}
	return false, "", err
}
