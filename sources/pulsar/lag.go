package pulsar

import "github.com/graphmill/graphmill"

// lag is how many entries of a partition are still to be read from next on, where
// last is its last message and some is false where it holds none: 0 where all is
// read, and -1 where that cannot be told of ids alone, since next is of an earlier
// ledger. Within a ledger entries are numbered without gaps, so it is exact but for
// what the broker keeps for itself (marks of transactions and of replication).
//
// The broker's own count, its backlog, is better where an admin URL is known.
func lag(next, last graphmill.MessageID, some bool) int64 {
	switch {
	case !some || next.Compare(last) > 0:
		return 0
	case next.Ledger == last.Ledger:
		return last.Entry - next.Entry + 1
	}
	return -1
}
