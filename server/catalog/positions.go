package catalog

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
)

// Positions implements Catalog.
func (c *Bolt) Positions(_ context.Context, stream string) ([]graphmill.Position, error) {
	var ps []graphmill.Position
	err := c.view(func(tx *bbolt.Tx) (err error) {
		ps, err = getPositions(tx, stream)
		return err
	})
	return ps, err
}

func getPositions(tx *bbolt.Tx, stream string) ([]graphmill.Position, error) {
	v := tx.Bucket(positionsBucket).Get([]byte(stream))
	if v == nil {
		return nil, nil
	}
	var ps []graphmill.Position
	if err := strictJSON(v, &ps); err != nil {
		return nil, &graphmill.Error{Kind: graphmill.KindConflict, Code: "entry_broken",
			Text: fmt.Sprintf("the catalog's entry of the positions of stream %q cannot be read", stream), Err: err,
			Next: "where the consumer group still has its positions, drop the stream and create it again"}
	}
	return ps, nil
}

// MergePositions implements Catalog.
func (c *Bolt) MergePositions(_ context.Context, stream string, positions []graphmill.Position) error {
	// Many streams write at once, at the end of a server above all: they share
	// transactions, and what these cost the disk.
	return c.wrap("write", c.db.Batch(func(tx *bbolt.Tx) error {
		if tx.Bucket(streamsBucket).Get([]byte(stream)) == nil {
			return graphmill.NotFound("stream_not_found", "there is no stream %q", stream)
		}
		stored, err := getPositions(tx, stream)
		if err != nil {
			return err
		}
		return putPositions(tx, stream, stored, positions)
	}))
}

// MoveStream implements Catalog.
func (c *Bolt) MoveStream(_ context.Context, s Stream, positions []graphmill.Position, forget bool) (Stream, error) {
	err := c.store(func(tx *bbolt.Tx) (err error) {
		if s, err = c.replaceStream(tx, s); err != nil {
			return err
		}
		var stored []graphmill.Position
		if !forget {
			if stored, err = getPositions(tx, s.Spec.Name); err != nil {
				return err
			}
		}
		return putPositions(tx, s.Spec.Name, stored, positions)
	})
	return s, err
}

// putPositions stores positions with those of other partitions that there are.
func putPositions(tx *bbolt.Tx, stream string, stored, positions []graphmill.Position) error {
	merged := slices.DeleteFunc(stored, func(old graphmill.Position) bool {
		return slices.ContainsFunc(positions, func(p graphmill.Position) bool { return p.TopicPartition == old.TopicPartition })
	})
	merged = append(merged, positions...)
	graphmill.SortPositions(merged)
	return putJSON(tx.Bucket(positionsBucket), stream, merged)
}
