package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

// typedIndexes are the indexes of a database that serve values of one type only:
// TEXT and POINT.
//
// In the coalesced form a parameter is an entry of a map, whose type the planner
// does not know; such an index is then not used for n.name = $name, and the
// database scans all nodes of the label instead: the same graph, but slowly. So a
// text that may use one is executed one by one. The rule errs on that side: it
// goes by names, not by the clause in which they stand, and a POINT index would
// still be used for distances.
//
// An index that is made later is taken into account once the verdicts are
// forgotten, when the server has been away.
type typedIndexes struct {
	list []typedIndex
}

type typedIndex struct {
	kind       string // TEXT or POINT
	labels     []string
	properties []string
}

const showIndexes = "SHOW INDEXES YIELD type, labelsOrTypes, properties " +
	"WHERE type IN ['TEXT', 'POINT', 'RANGE'] RETURN type, labelsOrTypes, properties"

// typedIndexes asks the database for its indexes, once.
func (s *Sink) typedIndexes(ctx, reach context.Context, session neo4j.SessionWithContext, database string) (*typedIndexes, error) {
	s.verdicts.mu.Lock()
	known, ok := s.verdicts.indexes.get(database)
	epoch := s.verdicts.epoch
	s.verdicts.mu.Unlock()
	if ok {
		return known, nil
	}
	found, err := readIndexes(reach, session)
	if err != nil {
		err = s.fault(ctx, stageRun, err, graphmill.WholeBatch)
		var f *graphmill.Fault
		if !errors.As(err, &f) || f.Class == graphmill.FaultTransient {
			return nil, err
		}
		// The server does not know the statement, or the user must not see
		// indexes. Only speed is at stake.
		s.log.Debug("the indexes of the database cannot be listed", "error", err)
		found = &typedIndexes{}
	}
	s.verdicts.mu.Lock()
	defer s.verdicts.mu.Unlock()
	if epoch == s.verdicts.epoch {
		s.verdicts.indexes.put(database, found, 1+len(found.list))
	}
	return found, nil
}

func readIndexes(ctx context.Context, session neo4j.SessionWithContext) (_ *typedIndexes, err error) {
	defer rescue(&err)
	result, err := autocommit(ctx, session, showIndexes, nil)
	if err != nil {
		return nil, err
	}
	var all []typedIndex
	for result.Next(ctx) {
		values := result.Record().Values
		if len(values) != 3 {
			continue
		}
		kind, _ := values[0].(string)
		all = append(all, typedIndex{kind: kind, labels: names(values[1]), properties: names(values[2])})
	}
	if err := result.Err(); err != nil {
		return nil, err
	}
	return &typedIndexes{list: withoutRanges(all)}, nil
}

// names reads a list of strings, which is null where it does not apply.
func names(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// withoutRanges drops the RANGE indexes, and each TEXT index beside which there
// is a RANGE index on the same property: that one serves equality in any form.
func withoutRanges(all []typedIndex) []typedIndex {
	type column struct{ label, property string }
	ranges := map[column]bool{}
	for _, i := range all {
		if i.kind == "RANGE" && len(i.labels) == 1 && len(i.properties) == 1 {
			ranges[column{i.labels[0], i.properties[0]}] = true
		}
	}
	var typed []typedIndex
	for _, i := range all {
		covered := i.kind == "TEXT" && len(i.labels) == 1 && len(i.properties) == 1 &&
			ranges[column{i.labels[0], i.properties[0]}]
		if i.kind != "RANGE" && !covered {
			typed = append(typed, i)
		}
	}
	return typed
}

// affect returns why a text must not be coalesced: it names the label and the
// property of one of the indexes. A label that is worked out may be any.
func (t *typedIndexes) affect(c coalesced) string {
	if len(c.params) == 0 {
		return "" // the types of everything are known
	}
	for _, i := range t.list {
		label := c.dynamic
		for _, l := range i.labels {
			label = label || c.mentions[l]
		}
		for _, p := range i.properties {
			if label && c.mentions[p] {
				return fmt.Sprintf("the coalesced form could not use the %s index on %s", i.kind, clip(p, 100))
			}
		}
	}
	return ""
}
