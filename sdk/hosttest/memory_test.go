package hosttest_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// A batch may have 16 MiB and an instance has 64 MiB, both by default. The frame comes
// in whole, the answer is as large, both grow from one batch to the next, and handlers
// leave garbage meanwhile.
func TestBatchesOfTheLargestSizeFit(t *testing.T) {
	m := load(t, build(t, "testdata/garbage"))
	for _, c := range []struct {
		situation string
		kib       []int // of each batch's payloads, of which there are a thousand
	}{
		{"the largest at once", []int{16, 16, 16}},
		{"growing little by little", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
		{"growing in large steps", []int{1, 9, 14, 16}},
		{"small ones in between", []int{12, 1, 16, 1, 16}},
	} {
		t.Run(c.situation, func(t *testing.T) {
			i := start(t, m, wasmhost.InstanceConfig{Function: "transform"})
			for _, kib := range c.kib {
				messages := make([]graphmill.Message, 1000)
				for k := range messages {
					messages[k] = graphmill.Message{Topic: "t", BrokerTime: -1, Payload: bytes.Repeat([]byte("x"), kib<<10)}
				}
				out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
				require.NoError(t, err, "%d KiB a message, %d KiB of memory", kib, i.Memory()>>10)
				require.Len(t, out.Statements, len(messages))
				require.Len(t, out.Statements[999].Values[0], kib<<10)
				t.Logf("%d KiB a message: %d KiB of memory", kib, i.Memory()>>10)
			}
		})
	}
}

// Case 24: a Go module over a great many messages. Its collector gets its turn at the
// end of each batch, or the memory would grow by each message's garbage.
func TestCase24MemoryStaysFlatOverAMillionMessages(t *testing.T) {
	for _, c := range []struct {
		dir      string
		settings map[string]string
		batches  int
	}{
		{"testdata/garbage", nil, 90}, // four times as much garbage as there are messages
		{"../../plugins/jsonlines", map[string]string{"label": "User", "key": "userId"}, 10},
	} {
		t.Run(filepath.Base(c.dir), func(t *testing.T) {
			i := start(t, load(t, build(t, c.dir)), wasmhost.InstanceConfig{Function: "transform", Settings: c.settings, TimeLimit: time.Minute})
			const size = 10_000
			messages := make([]graphmill.Message, size)
			for k := range messages {
				messages[k] = graphmill.Message{Topic: "t", Offset: int64(k), BrokerTime: -1,
					Payload: fmt.Appendf(nil, `{"userId":%d,"title":"Amélie %d","rating":%d.5}`, k*31, k, k%5)}
			}
			rows, warmed := 0, int64(0)
			for batch := range c.batches {
				out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
				require.NoError(t, err)
				require.Empty(t, out.Failures)
				if rows += len(out.Statements); batch == c.batches/3 {
					warmed = i.Memory()
				}
			}
			require.Equal(t, size*c.batches, rows)
			t.Logf("%d messages: %d KiB of memory, %d KiB after a third of them", rows, i.Memory()>>10, warmed>>10)
			// How far the heap grows between two collections depends on the clock a little.
			// What the messages after the third leave is some hundred times this.
			require.LessOrEqual(t, i.Memory(), warmed+1<<20, "it is not flat")
		})
	}
}
