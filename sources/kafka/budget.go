package kafka

import (
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// headroom is by how much data are taken to grow when they are decompressed,
	// at least: room for a topic whose data suddenly compress better. An eighth
	// of the budget is still megabytes a request.
	headroom = 8

	// batchOverhead is what a record batch takes beside its records. It counts
	// where a batch is small.
	batchOverhead = 61

	maxFetchBytes = 50 << 20 // the client's own default

	// maxBatchBytes is the most that one record batch may decompress to. More
	// is an attack or a mistake: producers make batches of about a megabyte.
	maxBatchBytes = 256 << 20

	// forget is how quickly a bad ratio is forgotten, per record batch.
	forget = 0.01
)

// budget keeps what the client buffers within the bounds of the Config.
//
// The client buffers one answer of each broker and asks for the next when it
// has been handed out whole. An answer's size can be limited in compressed
// bytes only, so the limit is set from how much the last batches grew when they
// were decompressed, and how small their messages were; the worst counts, and
// is forgotten slowly. Before anything is known a single batch is asked for,
// which a broker gives however small the limit is, and no answer may be larger
// than twice all that is known. It is a hook of the client.
type budget struct {
	messages int
	bytes    int64
	total    int32 // most of an answer on the wire
	part     int32 // most of one partition in it

	mu      sync.Mutex
	seen    float64 // bytes on the wire of all batches
	growth  float64 // decompressed / on the wire, at least headroom
	message float64 // bytes on the wire of a message
	brokers int     // that lead partitions of ours
	set     int32   // the limit that the client has
	apply   func(total, partition int32)
}

func newBudget(cfg Config) *budget {
	total, part := cfg.Client.fetchLimits()
	return &budget{messages: cfg.MaxBufferedMessages, bytes: cfg.MaxBufferedBytes, total: total, part: part, brokers: 1}
}

// over makes the limits follow what is read by cl.
func (b *budget) over(cl *kgo.Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apply = cl.UpdateFetchMaxBytes
	b.update()
}

// among says how many brokers are asked at the same time.
func (b *budget) among(brokers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.brokers = max(brokers, 1)
	b.update()
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (b *budget) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	if m.CompressedBytes <= 0 || m.NumRecords <= 0 {
		return
	}
	wire := float64(m.CompressedBytes + batchOverhead)
	growth := max(float64(m.UncompressedBytes)/wire, headroom)
	message := wire / float64(m.NumRecords)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == 0 {
		b.growth, b.message = growth, message
	}
	b.seen += wire
	// In the geometric mean, since both range over orders of magnitude.
	b.growth = max(growth, b.growth*math.Pow(growth/b.growth, forget))
	b.message = min(message, b.message*math.Pow(message/b.message, forget))
	b.update()
}

// limits returns the most bytes on the wire to ask of one broker, and of one
// partition so that a busy one leaves room for others.
func (b *budget) limits() (total, partition int32) {
	if b.seen == 0 {
		return 1, 1
	}
	want := min(float64(b.bytes)/b.growth, float64(b.messages)*b.message, 2*b.seen) / float64(b.brokers)
	total = int32(max(1, min(want, float64(b.total))))
	return total, min(max(total/2, 1), b.part)
}

// update tells the client when the limit has moved by a tenth. The lock is
// held.
func (b *budget) update() {
	total, partition := b.limits()
	if b.apply == nil || math.Abs(float64(total-b.set)) < float64(b.set)/10 {
		return
	}
	b.set = total
	b.apply(total, partition)
}
