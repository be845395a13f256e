package graphmill

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// MessageID is the place of a message in one partition of a Pulsar topic: its entry
// in a ledger, and its index in that entry, which may hold a whole batch of the
// producer. Ids of one partition are ordered as its messages are. The zero value is
// the beginning of a partition.
type MessageID struct {
	Ledger int64
	Entry  int64
	Index  int32 // from 0
}

// Compare returns -1, 0 or 1: whether id comes before other, is it, or comes behind.
func (id MessageID) Compare(other MessageID) int {
	return cmp.Or(cmp.Compare(id.Ledger, other.Ledger), cmp.Compare(id.Entry, other.Entry), cmp.Compare(id.Index, other.Index))
}

// SameEntry says whether both are of one entry.
func (id MessageID) SameEntry(other MessageID) bool {
	return id.Ledger == other.Ledger && id.Entry == other.Entry
}

// String returns ledger:entry:index, which ParseMessageID reads.
func (id MessageID) String() string { return fmt.Sprintf("%d:%d:%d", id.Ledger, id.Entry, id.Index) }

// MarshalText implements encoding.TextMarshaler.
func (id MessageID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *MessageID) UnmarshalText(text []byte) error {
	parsed, err := ParseMessageID("message_id", string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// ParseMessageID reads ledger:entry (the entry's first message), ledger:entry:index,
// or the form in which transformations and Pulsar's own tools have an id,
// ledger:entry:partition:index. -1 as index means a message that is its whole entry.
// The error is of KindInvalid and names field.
func ParseMessageID(field, s string) (MessageID, error) {
	id, _, err := parseMessageID(field, s)
	return id, err
}

// parseMessageID is ParseMessageID; partition is nil where the id names none.
func parseMessageID(field, s string) (id MessageID, partition *int32, err error) {
	wrong := Invalid(field, "%s is no message id: ledger:entry, ledger:entry:index or ledger:entry:partition:index, as 12:5:0", clip(s))
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 4 {
		return MessageID{}, nil, wrong
	}
	if id.Ledger, err = strconv.ParseInt(parts[0], 10, 64); err != nil || id.Ledger < 0 {
		return MessageID{}, nil, wrong
	}
	if id.Entry, err = strconv.ParseInt(parts[1], 10, 64); err != nil || id.Entry < 0 {
		return MessageID{}, nil, wrong
	}
	for i, part := range parts[2:] {
		n, err := strconv.ParseInt(part, 10, 32)
		number := int32(n)
		if err != nil || n < -1 {
			return MessageID{}, nil, wrong
		}
		if last := i == len(parts)-3; last {
			id.Index = max(0, number)
		} else {
			partition = &number
		}
	}
	return id, partition, nil
}
