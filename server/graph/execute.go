package graph

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/db"
)

// fetchSize is how many rows of a result come without being asked for again.
// Nobody reads them.
const fetchSize = 100

// grace is how much longer than the server we wait before a transaction is given
// up: the server looks for transactions that have run too long every 2 s.
const grace = 15 * time.Second

// Execute runs the statements of a work in order in one transaction. It takes as
// many round trips as statements are sent, and two.
//
// Where the database refuses a coalesced statement for what is in it, the whole
// transaction is tried a second time with that statement's rows one by one: it
// is this attempt's verdict that counts, and it names the statement.
//
// An error is a *graphmill.Fault, or wraps ctx's error. A COMMIT that ctx
// interrupts is both: a Fault that is Unknown and wraps ctx's error.
func (s *Sink) Execute(ctx context.Context, w graphmill.Work) (graphmill.Executed, error) {
	if len(w.Statements) == 0 {
		return graphmill.Executed{}, nil
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return graphmill.Executed{}, err
	}
	defer leave()
	p, err := s.planWork(ctx, w)
	if err != nil {
		return graphmill.Executed{}, err
	}
	s.streams.note(w.Stream, p.uses)

	sends := p.sends
	failed, err := s.transact(ctx, p, sends)
	if s.formInDoubt(sends, failed) {
		sends = p.unfold(failed.send)
		suspect := p.sends[failed.send].coalesced
		var again *failure
		if again, err = s.transact(ctx, p, sends); again == nil {
			s.acquit(p, suspect, failed)
		}
	}
	if err != nil {
		return graphmill.Executed{}, err
	}
	return graphmill.Executed{Statements: len(w.Statements), Sent: len(sends)}, nil
}

// failure is where and why a transaction has failed.
type failure struct {
	at   stage
	send int   // at stageRun: the index of what was sent last
	err  error // of the driver
}

// formInDoubt reports whether it may be the coalesced form that the database
// refuses, and not what the statements say.
func (s *Sink) formInDoubt(sends []send, f *failure) bool {
	if f == nil || f.at != stageRun || sends[f.send].coalesced == nil {
		return false
	}
	return classify(s.target, true, f.at, f.err, graphmill.WholeBatch).Class == graphmill.FaultMessage
}

// acquit is called when statements passed one by one that had failed coalesced.
// A syntax error can only have come from the form, as from a member of a cluster
// that is older than the one which was asked; then the text is never coalesced
// again. Other errors may have healed by themselves.
func (s *Sink) acquit(p *plan, u *use, f *failure) {
	e := find[*db.Neo4jError](causesOf(f.err))
	if e == nil || !strings.HasSuffix(e.Code, ".ClientError.Statement.SyntaxError") {
		return
	}
	u.why = "the coalesced form failed where the text passed: " + squeeze(e.Msg)
	s.verdicts.replace(verdictKey{s.database(p.work.Database), u.hash}, verdict{why: u.why})
	s.streams.note(p.work.Stream, p.uses)
	s.log.Warn("a query text is executed one by one from now on",
		"stream", p.work.Stream, "query", shownText(u.text), "reason", u.why)
}

// limit bounds a transaction as seen from here.
func (s *Sink) limit() time.Duration { return s.cfg.TransactionTimeout + s.cfg.ConnectTimeout + grace }

// transact runs the sends in one transaction. It returns both what the driver
// said and what that means.
func (s *Sink) transact(ctx context.Context, p *plan, sends []send) (*failure, error) {
	database := s.database(p.work.Database)
	reach, cancel := s.bound(ctx, s.limit())
	defer cancel()
	session := s.session(reach, database, s.streams.bookmarks(p.work.Stream, database))
	defer s.closeSession(reach, session)

	tx, err := begin(reach, session,
		neo4j.WithTxTimeout(s.cfg.TransactionTimeout), neo4j.WithTxMetadata(metadata(p.work)))
	if err != nil {
		s.streams.setBookmarks(p.work.Stream, database, nil)
		return &failure{at: stageReach, err: err}, s.fault(ctx, stageReach, err, graphmill.WholeBatch)
	}
	s.answered(reach)
	for k := range sends {
		result, err := run(reach, tx, &sends[k])
		if err == nil {
			_, err = s.consume(reach, result)
		}
		if err != nil {
			first := &p.work.Statements[sends[k].first]
			return &failure{at: stageRun, send: k, err: err}, named(s.fault(ctx, stageRun, err, first.Message), first)
		}
	}
	if err := commit(reach, tx); err != nil {
		return &failure{at: stageCommit, err: err}, s.fault(ctx, stageCommit, err, graphmill.WholeBatch)
	}
	s.streams.setBookmarks(p.work.Stream, database, session.LastBookmarks())
	return nil, nil
}

// named adds to a fault of the message which statement it is about.
func named(err error, st *graphmill.Statement) error {
	if f, ok := errors.AsType[*graphmill.Fault](err); ok && f.Class == graphmill.FaultMessage {
		f.Text += " (in the statement " + shownText(st.Query.Text) + ")"
	}
	return err
}

// maxPositions bounds the positions in a transaction's metadata, in bytes. Neo4j
// takes 2048 characters of metadata.
const maxPositions = 1000

// metadata is what SHOW TRANSACTIONS tells of a batch.
func metadata(w graphmill.Work) map[string]any {
	m := map[string]any{"app": "graphmill", "stream": w.Stream, "positions": positions(w)}
	if w.Module.Name != "" {
		m["module"] = fmt.Sprintf("%s version %d", w.Module.Name, w.Module.Version)
	}
	if w.Attempt > 0 {
		m["attempt"] = w.Attempt
	}
	return m
}

// positionRange writes what lies between two positions of a partition: Kafka's
// first and last offset, Pulsar's first message and the one behind the last.
func positionRange(first, next graphmill.Position) string {
	if first.Offset >= 0 {
		return fmt.Sprintf("%s:%d-%d", first.TopicPartition, first.Offset, next.Offset-1)
	}
	return fmt.Sprintf("%s:%s until %s", first.TopicPartition, first.At(), next.At())
}

// positions writes the positions of a batch, partition by partition.
func positions(w graphmill.Work) string {
	last := make(map[graphmill.TopicPartition]graphmill.Position, len(w.Last))
	for _, p := range w.Last {
		last[p.TopicPartition] = p
	}
	var b strings.Builder
	for i, p := range w.First {
		one := positionRange(p, last[p.TopicPartition])
		if i > 0 {
			one = ", " + one
		}
		if b.Len()+len(one) > maxPositions {
			fmt.Fprintf(&b, " and %d more", len(w.First)-i)
			break
		}
		b.WriteString(one)
	}
	return b.String()
}
