package pulsar

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestPartitionNames(t *testing.T) {
	const orders = "persistent://public/default/orders"
	for name, tp := range map[string]graphmill.TopicPartition{
		orders:                             {Topic: orders, Partition: -1},
		orders + "-partition-0":            {Topic: orders, Partition: 0},
		orders + "-partition-12":           {Topic: orders, Partition: 12},
		orders + "-partition-":             {Topic: orders + "-partition-", Partition: -1},
		orders + "-partition-x":            {Topic: orders + "-partition-x", Partition: -1},
		orders + "-partition--1":           {Topic: orders + "-partition--1", Partition: -1},
		orders + "-partition-1-new":        {Topic: orders + "-partition-1-new", Partition: -1},
		orders + "-partition-00":           {Topic: orders + "-partition-00", Partition: -1},
		orders + "-partition-1e3":          {Topic: orders + "-partition-1e3", Partition: -1},
		orders + "-partition-999999999999": {Topic: orders + "-partition-999999999999", Partition: -1},
	} {
		require.Equal(t, tp, partitionOf(name), name)
		require.Equal(t, name, partitionName(tp))
	}
}
