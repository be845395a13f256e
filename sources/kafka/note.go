package kafka

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// note is what Graphmill writes beside every offset that it commits, in the
// commit's metadata: "gm1:TOPICID:PARTITIONS".
//
// The topic id tells a topic from a later one of the same name; it is empty
// where the broker has no ids. The number of partitions tells partitions that
// are new from those whose position has been lost: it is what the topic had
// when the group's first position in it was settled, 0 where the topic itself
// is younger than that, and never raised after that (see settle). Later versions
// may add fields behind these; they are carried on from commit to commit by
// versions that do not know them.
type note struct {
	topicID    string // as in graphmill.Position
	partitions int32
	more       string // further fields
}

const noteVersion = "gm1"

// maxNote is how long a note may be, in bytes: fields of later versions count.
const maxNote = 128

func (n note) String() string {
	s := fmt.Sprintf("%s:%s:%d", noteVersion, n.topicID, n.partitions)
	if n.more != "" {
		s += ":" + n.more
	}
	return s
}

// parseNote reads a commit's metadata. It is false for commits of other tools,
// which have none or their own.
func parseNote(metadata string) (note, bool) {
	fields := strings.SplitN(metadata, ":", 4)
	if len(fields) < 3 || fields[0] != noteVersion {
		return note{}, false
	}
	if id, err := hex.DecodeString(fields[1]); err != nil || (len(id) != 0 && len(id) != 16) {
		return note{}, false
	}
	count, err := strconv.ParseInt(fields[2], 10, 32)
	if err != nil || count < 0 {
		return note{}, false
	}
	n := note{topicID: fields[1], partitions: int32(count)}
	if len(fields) > 3 {
		n.more = fields[3]
	}
	return n, true
}

// formatID returns a broker's topic id as graphmill.Position holds it.
func formatID(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}
