package graph

import (
	"context"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

// Facts is what a database says of itself. What it does not tell, or lets not
// everybody ask, is left empty.
type Facts struct {
	Server   string        // name and version, "Neo4j/5.26.0"
	Edition  string        // "enterprise", "community"
	Database string        // the one that a batch without a name goes to
	Status   string        // "online"
	Access   string        // "read-write", "read-only"
	User     string        // who we are
	Roles    []string      // of that user; none where the edition has no roles
	Skew     time.Duration // how far its clock is ahead of ours, give or take Latency
	Latency  time.Duration // of one question
}

// Diagnose asks the database what it is and what it lets us do. It changes
// nothing. The error, a *graphmill.Fault as Verify's, says why it cannot be used.
func (s *Sink) Diagnose(ctx context.Context, database string) (Facts, error) {
	var f Facts
	if err := s.Verify(ctx, database); err != nil {
		return f, err
	}
	s.mu.Lock()
	f.Server = s.server
	s.mu.Unlock()

	began := time.Now()
	if row := s.ask(ctx, database, "RETURN timestamp() AS now", nil); row != nil {
		f.Latency = time.Since(began)
		if ms, ok := row["now"].(int64); ok {
			f.Skew = time.UnixMilli(ms).Sub(began.Add(f.Latency / 2)).Round(time.Millisecond)
		}
	}
	if row := s.ask(ctx, database, "CALL dbms.components() YIELD edition RETURN edition LIMIT 1", nil); row != nil {
		f.Edition = textOf(row, "edition")
	}
	if row := s.ask(ctx, database, "CALL db.info() YIELD name RETURN name", nil); row != nil {
		f.Database = textOf(row, "name")
	}
	if f.Database != "" {
		row := s.ask(ctx, database, "SHOW DATABASES YIELD name, access, currentStatus WHERE name = $name RETURN access, currentStatus", map[string]any{"name": f.Database})
		f.Access, f.Status = textOf(row, "access"), textOf(row, "currentStatus")
	}
	if row := s.ask(ctx, database, "SHOW CURRENT USER YIELD user, roles", nil); row != nil {
		f.User = textOf(row, "user")
		roles, _ := row["roles"].([]any)
		for _, r := range roles {
			if role, ok := r.(string); ok {
				f.Roles = append(f.Roles, role)
			}
		}
		slices.Sort(f.Roles)
	}
	return f, nil
}

// ask returns the first row of a result, or nil where there is none or the
// database does not answer such a question.
func (s *Sink) ask(ctx context.Context, database, query string, params map[string]any) map[string]any {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil
	}
	defer leave()
	reach, cancel := s.bound(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	session := s.session(reach, s.database(database), nil)
	defer s.closeSession(reach, session)
	result, err := autocommit(reach, session, query, params, neo4j.WithTxTimeout(s.cfg.ConnectTimeout))
	if err != nil {
		_ = s.fault(ctx, stageReach, err, graphmill.WholeBatch) // noted: others shall not run into it
		return nil
	}
	return first(reach, result)
}

func textOf(row map[string]any, column string) string {
	text, _ := row[column].(string)
	return text
}
