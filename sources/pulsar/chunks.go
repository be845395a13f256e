package pulsar

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// A message that is too large for an entry comes in chunks, each an entry of its own,
// among those of others. They are put together here: the client keeps what is not whole
// without bound, acknowledges it when a clock says so, and forgets it when there are
// many (docs/decisions/0027-messages-in-chunks-are-put-together-here.md). guard makes a
// message of each chunk, and notes in it what it is a chunk of.

const (
	// chunkPatience is how much later than the latest chunk of a message others have to
	// come, and have been sent, for it to be given up: its producer is taken for dead.
	chunkPatience = 6 * time.Hour

	// mostInChunks bounds what a source keeps of messages that are not whole, in bytes.
	mostInChunks = 4 * mostUnpacked

	// chunkWeight is what a chunk takes beside its bytes, or more.
	chunkWeight = 1 << 10

	// chunkMark begins what guard notes in a chunk. It stands where the name of the
	// cluster does that a message is from, which no one here reads.
	chunkMark = "graphmill: chunk "
)

// chunk is what is known of one.
type chunk struct {
	number, of   int32
	compression  uint64 // of the whole message
	uncompressed uint32 // bytes of the whole message
	uuid         string // of the message
}

func (c *chunk) String() string {
	return fmt.Sprintf("%s%d/%d/%d/%d/%s", chunkMark, c.number, c.of, c.compression, c.uncompressed, c.uuid)
}

// chunkOf reads what guard has noted; is tells whether it has.
func chunkOf(m pulsar.Message) (c chunk, is bool) {
	text, is := strings.CutPrefix(m.GetReplicatedFrom(), chunkMark)
	if !is {
		return c, false
	}
	parts := strings.SplitN(text, "/", 5)
	if len(parts) != 5 {
		return c, false
	}
	var n [4]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint(parts[i], 10, 32) // as String has written them
	}
	return chunk{number: int32(n[0]), of: int32(n[1]), compression: n[2], uncompressed: uint32(n[3]), uuid: parts[4]}, true
}

// place is where an entry stands in its partition.
type place struct{ ledger, entry int64 }

func placeOf(id pulsar.MessageID) place { return place{id.LedgerID(), id.EntryID()} }

// assembly puts the messages of one partition together. It is for one goroutine, or
// guarded by its owner's lock.
type assembly struct {
	tp       graphmill.TopicPartition
	most     int           // messages that may be incomplete at a time; 0: as many as there is room for
	patience time.Duration // see chunkPatience
	room     *atomic.Int64 // bytes that are taken, of all assemblies of a source
	log      *slog.Logger

	parts  map[string]*incomplete // by uuid
	looked time.Time              // for what is to be given up
	spare  []place                // chunks that have been given up and not acknowledged
}

func (c *Config) assembly(tp graphmill.TopicPartition, room *atomic.Int64) assembly {
	return assembly{tp: tp, most: c.Client.maxChunked, patience: cmp.Or(c.Client.expireChunked, chunkPatience), room: room, log: c.Logger, parts: map[string]*incomplete{}}
}

// incomplete is a message of which chunks are still to come.
type incomplete struct {
	next      int32 // chunk that is to come; missing: the message can only begin anew
	of        int32
	pieces    [][]byte
	size      int     // bytes of pieces
	taken     int64   // of the room
	entries   []place // of all its chunks, of those that came twice, too
	since     time.Time
	published time.Time // as since, of its latest chunk
}

const missing = -1

// whole is a message that has been put together.
type whole struct {
	payload []byte
	others  []place // entries of its chunks, but for the last
}

// add takes a chunk. It returns the message once that was its last one, and a fault
// where it can never be put together.
func (a *assembly) add(m pulsar.Message, c chunk) (*whole, *graphmill.Fault) {
	a.giveUp(m.PublishTime())
	at, piece := placeOf(m.ID()), m.Payload()
	p := a.parts[c.uuid]
	switch {
	case p == nil:
		p = &incomplete{next: missing}
		a.parts[c.uuid] = p
	case c.number > 0 && p.has(at):
		return nil, nil // a reader has it again
	}
	if c.number == 0 {
		// The producer sends it again, not knowing that we have it, or has begun another
		// one by the same name. What came before is acknowledged with it, if it is not
		// the same that comes again.
		if p.has(at) {
			p.entries = nil
		}
		p.drop(a.room)
		p.next, p.of = 0, c.of
	}
	p.entries = append(p.entries, at)
	p.since, p.published = time.Now(), m.PublishTime()
	p.reserve(a.room, chunkWeight+int64(len(c.uuid)))
	switch {
	case p.next == missing || c.number < p.next: // it has no beginning, or comes twice
	case c.number > p.next || c.of != p.of:
		p.drop(a.room)
		p.next = missing
	case p.size+len(piece) > mostUnpacked:
		return nil, unreadableAt(a.tp, m.ID(), fmt.Sprintf("it is chunk %d of a message of more than %d bytes, which are the most", c.number, mostUnpacked))
	case c.number == c.of-1:
		delete(a.parts, c.uuid)
		defer p.drop(a.room)
		return a.finish(m, c, bytes.Join(append(p.pieces, piece), nil), p.entries[:len(p.entries)-1])
	default:
		p.pieces = append(p.pieces, bytes.Clone(piece)) // it may be a small part of what the client has received
		p.size += len(piece)
		p.next++
		p.reserve(a.room, int64(len(piece)))
	}
	return nil, a.full()
}

func (a *assembly) finish(m pulsar.Message, c chunk, payload []byte, others []place) (*whole, *graphmill.Fault) {
	if c.compression != compressionNone && c.uncompressed > 0 {
		plain, err := unpack(c.compression, payload, int(c.uncompressed))
		if err != nil {
			return nil, unreadableAt(a.tp, m.ID(), "with it a message in chunks is whole, and "+err.Error())
		}
		payload = plain
	}
	return &whole{payload: payload, others: others}, nil
}

// full is the fault that there is no room for more messages that are not whole; nil
// where there is. Nothing is left out in its place: it would be lost.
func (a *assembly) full() *graphmill.Fault {
	taken := a.room.Load()
	if (a.most == 0 || len(a.parts) <= a.most) && taken <= mostInChunks {
		return nil
	}
	var oldest *incomplete
	for _, p := range a.parts {
		if oldest == nil || p.entries[0].compare(oldest.entries[0]) < 0 {
			oldest = p
		}
	}
	return ends(codeChunks, fmt.Sprintf("%d messages in chunks are incomplete in %s, and no more are kept (%d bytes of %d are taken); the oldest begins at %s", len(a.parts), a.tp, taken, mostInChunks, oldest.entries[0]),
		"look at the producers; to go on without the oldest, move the position behind its beginning with stream offsets --set", nil)
}

// giveUp finds messages that will never be whole, now that something has come that was
// published then. Both clocks have to say so: after an outage much that was sent in time
// comes late, and a producer's clock may be wrong.
func (a *assembly) giveUp(published time.Time) {
	if len(a.parts) == 0 || time.Since(a.looked) < a.patience/10 {
		return
	}
	now := time.Now()
	a.looked = now
	for uuid, p := range a.parts {
		if now.Sub(p.since) < a.patience || published.Sub(p.published) < a.patience {
			continue
		}
		a.log.Warn("a message in chunks is given up: the rest of it has not come", "partition", a.tp.String(), "entry", p.entries[0].String(), "chunks", len(p.entries), "name", uuid)
		a.spare = append(a.spare, p.entries...)
		p.drop(a.room)
		delete(a.parts, uuid)
	}
}

// takeSpare returns what is to be acknowledged with the next message.
func (a *assembly) takeSpare() []place {
	spare := a.spare
	a.spare = nil
	return spare
}

// clear forgets everything: it comes again.
func (a *assembly) clear() {
	for _, p := range a.parts {
		p.drop(a.room)
	}
	clear(a.parts)
	a.spare = nil
}

// has tells whether an entry is one of it. Entries come in order, but for a reader that
// goes back.
func (p *incomplete) has(at place) bool {
	n := len(p.entries)
	return n > 0 && at.compare(p.entries[n-1]) <= 0 && slices.Contains(p.entries, at)
}

// reserve counts bytes that are kept, until drop.
func (p *incomplete) reserve(room *atomic.Int64, n int64) {
	p.taken += n
	room.Add(n)
}

// drop lets the bytes go.
func (p *incomplete) drop(room *atomic.Int64) {
	room.Add(-p.taken)
	p.taken, p.pieces, p.size = 0, nil, 0
}

func (p place) String() string { return fmt.Sprintf("%d:%d", p.ledger, p.entry) }

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.ledger, other.ledger), cmp.Compare(p.entry, other.entry))
}
