package pulsar

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// sentChunk is a chunk as guard lets it through.
type sentChunk struct {
	pulsar.Message
	entry   int64
	payload []byte
}

func (s sentChunk) ID() pulsar.MessageID   { return pulsar.NewMessageID(1, s.entry, -1, 0) }
func (s sentChunk) Payload() []byte        { return s.payload }
func (s sentChunk) PublishTime() time.Time { return time.UnixMilli(s.entry) }

// TestTheRoomForChunksIsOne fills it from two partitions, by what chunks hold, how many
// they are, and the names of their messages.
func TestTheRoomForChunksIsOne(t *testing.T) {
	megabyte := make([]byte, 1<<20)
	for name, one := range map[string]struct {
		payload []byte
		uuid    string
		taken   int64 // by others
		most    int   // of them
	}{
		"large ones":          {megabyte, "u", mostInChunks - 20<<20, 21},
		"many small ones":     {nil, "u", mostInChunks - 1000*chunkWeight, 1001},
		"names of a megabyte": {nil, string(megabyte), mostInChunks - 20<<20, 21},
	} {
		t.Run(name, func(t *testing.T) {
			var room atomic.Int64
			room.Store(one.taken)
			var both [2]assembly
			for i := range both {
				both[i] = new(Config).assembly(graphmill.TopicPartition{Topic: "t", Partition: int32(i)}, &room)
			}
			n := 0
			for ; ; n++ {
				require.LessOrEqual(t, n, one.most)
				c := chunk{number: int32(n / 2 % 100), of: 1000, uuid: one.uuid + fmt.Sprint(n/200)}
				whole, f := both[n%2].add(sentChunk{entry: int64(n), payload: one.payload}, c)
				require.Nil(t, whole)
				if f != nil {
					require.Equal(t, codeChunks, f.Code)
					require.Contains(t, f.Text, fmt.Sprintf("the oldest begins at 1:%d", n%2))
					require.Less(t, len(f.Text), 1000)
					break
				}
				require.LessOrEqual(t, room.Load(), int64(mostInChunks))
			}
			both[0].clear()
			require.Greater(t, room.Load(), one.taken)
			both[1].clear()
			require.Equal(t, one.taken, room.Load())
		})
	}
}

// TestAMessageInChunksThatGrows tells nothing of its size.
func TestAMessageInChunksThatGrows(t *testing.T) {
	var room atomic.Int64
	a := new(Config).assembly(graphmill.TopicPartition{Topic: "t"}, &room)
	for i := range mostUnpacked>>20 + 1 {
		whole, f := a.add(sentChunk{entry: int64(i), payload: make([]byte, 1<<20)}, chunk{number: int32(i), of: mostChunks, uuid: "u"})
		require.Nil(t, whole)
		if i < mostUnpacked>>20 {
			require.Nil(t, f)
			continue
		}
		require.NotNil(t, f)
		require.Equal(t, codeUnreadable, f.Code)
		require.Contains(t, f.Text, "entry 1:128 of t/0")
	}
}

// TestWhatIsWholeLeavesNothing puts messages together, and looks for what is left.
func TestWhatIsWholeLeavesNothing(t *testing.T) {
	var room atomic.Int64
	a := new(Config).assembly(graphmill.TopicPartition{Topic: "t"}, &room)
	for i, number := range []int32{0, 1, 0, 1, 1, 2} { // sent again from the beginning on, and one of them twice
		whole, f := a.add(sentChunk{entry: int64(i), payload: []byte(strings.Repeat("x", i))}, chunk{number: number, of: 3, uuid: "u"})
		require.Nil(t, f)
		require.Equal(t, i == 5, whole != nil)
		if whole != nil {
			require.Len(t, whole.payload, 2+3+5)
			require.Equal(t, []place{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}}, whole.others)
		}
	}
	require.Zero(t, room.Load())
	require.Empty(t, a.parts)
}
