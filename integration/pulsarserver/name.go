package pulsarserver

import (
	"fmt"
	"strconv"
	"strings"
)

const scheme = "persistent://"

// partitionMark stands between the name of a partitioned topic and the number of
// a partition.
const partitionMark = "-partition-"

// fullName returns persistent://tenant/namespace/topic for any of the forms that
// clients use: topic, tenant/namespace/topic, and the full one.
func fullName(topic string) (string, error) {
	rest, full := strings.CutPrefix(topic, scheme)
	if !full && strings.Contains(topic, "://") {
		return "", fmt.Errorf("topic %q: only persistent topics are served here", topic)
	}
	if !full && topic != "" && !strings.Contains(topic, "/") {
		return scheme + "public/default/" + topic, nil
	}
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return "", fmt.Errorf("topic %q is not of the form tenant/namespace/topic or topic", topic)
	}
	return scheme + rest, nil
}

// namespaceOf returns tenant/namespace of a full name.
func namespaceOf(full string) string {
	parts := strings.SplitN(strings.TrimPrefix(full, scheme), "/", 3)
	return parts[0] + "/" + parts[1]
}

// splitPartition returns the name of the partitioned topic and the number of the
// partition, which is -1 where the name is not that of one.
func splitPartition(full string) (base string, partition int) {
	i := strings.LastIndex(full, partitionMark)
	if i < 0 {
		return full, -1
	}
	digits := full[i+len(partitionMark):]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return full, -1
	}
	return full[:i], int(n)
}

func partitionName(base string, partition int) string {
	return base + partitionMark + strconv.Itoa(partition)
}
