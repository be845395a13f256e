package graphmill

import (
	"fmt"
	"strconv"
	"time"
)

// OffsetTarget is where the positions of a stopped stream are to be moved. The
// zero value means latest.
type OffsetTarget struct {
	Start                // earliest, latest or a time, where the others are nil
	Offset    *int64     // this very offset, at least 0; of Kafka
	MessageID *MessageID // this very message; of Pulsar
	Partition *int32     // the one that the message id names, -1 where the topic is not partitioned; nil: it names none
}

// ParseOffsetTarget reads "earliest", "latest", a time in RFC 3339, an offset as a
// bare integer, or a message id in a form that ParseMessageID reads. The error is of
// KindInvalid and names field.
func ParseOffsetTarget(field, s string) (OffsetTarget, error) {
	if start, err := ParseStart(field, s); err == nil {
		return OffsetTarget{Start: start}, nil
	}
	if !isInteger(s) {
		if id, partition, err := parseMessageID(field, s); err == nil {
			return OffsetTarget{MessageID: &id, Partition: partition}, nil
		}
		return OffsetTarget{}, Invalid(field, "%s is neither earliest, latest, a time such as 2026-01-31T12:00:00Z, an offset such as 1200, nor a message id such as 12:5:0", clip(s))
	}
	offset, err := strconv.ParseInt(s, 10, 64)
	if err != nil || offset < 0 {
		return OffsetTarget{}, Invalid(field, "%s is no offset: offsets are from 0 to 9223372036854775807", clip(s))
	}
	return OffsetTarget{Offset: &offset}, nil
}

// isInteger tells whether s is of decimal digits, perhaps with a sign.
func isInteger(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// String returns the target in the form that ParseOffsetTarget reads.
func (t OffsetTarget) String() string {
	switch {
	case t.Offset != nil:
		return strconv.FormatInt(*t.Offset, 10)
	case t.MessageID != nil && t.Partition != nil:
		return fmt.Sprintf("%d:%d:%d:%d", t.MessageID.Ledger, t.MessageID.Entry, *t.Partition, t.MessageID.Index)
	case t.MessageID != nil:
		return t.MessageID.String()
	case t.Earliest:
		return StartEarliest
	case !t.Time.IsZero():
		return t.Time.Format(time.RFC3339Nano)
	}
	return StartLatest
}
