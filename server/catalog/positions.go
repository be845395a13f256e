package catalog

import (
	"context"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
)

// MoveStream implements Catalog.
func (c *Bolt) MoveStream(_ context.Context, s Stream, positions []graphmill.Position, forget bool) (Stream, error) {
	err := c.update(func(tx *bbolt.Tx) (err error) {
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
