package graph

import (
	"context"
	"fmt"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

// unreadable is the error in place of a panic of the driver, which takes for
// granted of which types some of the database's answers are.
type unreadable struct{ panicked any }

func (u *unreadable) Error() string { return fmt.Sprintf("its answer cannot be read: %v", u.panicked) }

// rescue is deferred around a call into the driver. A panic there would end the
// stream as a defect of ours, and the process where it is no stream that asks.
func rescue(err *error) {
	if p := recover(); p != nil {
		*err = &unreadable{p}
	}
}

func run(ctx context.Context, tx neo4j.ExplicitTransaction, s *send) (result neo4j.ResultWithContext, err error) {
	defer rescue(&err)
	return tx.Run(ctx, s.query, s.params)
}

func commit(ctx context.Context, tx neo4j.ExplicitTransaction) (err error) {
	defer rescue(&err)
	return tx.Commit(ctx)
}

func closed(ctx context.Context, session neo4j.SessionWithContext) (err error) {
	defer rescue(&err)
	return session.Close(ctx)
}

// first returns the first row of a result; nil: there is none.
func first(ctx context.Context, result neo4j.ResultWithContext) (row map[string]any) {
	var err error
	defer rescue(&err)
	if !result.Next(ctx) {
		return nil
	}
	return result.Record().AsMap()
}
