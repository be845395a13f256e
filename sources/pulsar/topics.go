package pulsar

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/graphmill/graphmill"
)

// partitionMark stands between the name of a partitioned topic and the number of a
// partition, in the name by which clients have that one partition.
const partitionMark = "-partition-"

// partitionName is the name of a topic by which clients have one partition only. A
// topic that is not partitioned has the partition -1 and its own name.
func partitionName(tp graphmill.TopicPartition) string {
	if tp.Partition < 0 {
		return tp.Topic
	}
	return tp.Topic + partitionMark + strconv.Itoa(int(tp.Partition))
}

// partitionOf is partitionName backwards.
func partitionOf(name string) graphmill.TopicPartition {
	if i := strings.LastIndex(name, partitionMark); i > 0 {
		number := name[i+len(partitionMark):]
		if n, err := strconv.ParseUint(number, 10, 31); err == nil && strconv.FormatUint(n, 10) == number {
			return graphmill.TopicPartition{Topic: name[:i], Partition: int32(n)}
		}
	}
	return graphmill.TopicPartition{Topic: name, Partition: -1}
}

// sortPartitions orders by topic, then partition, in place.
func sortPartitions(tps []graphmill.TopicPartition) {
	slices.SortFunc(tps, func(a, b graphmill.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
