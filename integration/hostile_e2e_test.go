//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// A stream whose transformation misbehaves, beside one that does not: what the
// one does fails it at its own limit, and harms nobody else.
func TestKafkaAHostileTransformationHarmsNobodyElse(t *testing.T) {
	p := serve(t)
	fickle, err := os.ReadFile(filepath.Join(world.dir, "fickle.wasm"))
	require.NoError(t, err)
	p.do("PUT", "/modules/fickle", fickle, nil)
	for _, c := range []struct {
		name    string // with the row of the cases
		payload string
		code    string
		limits  map[string]any
	}{
		{"case22_endless_loop", "loop", "deadline", map[string]any{"time_limit_ms": 2000}},
		{"case23_memory_without_end", "hoard", "out_of_memory", map[string]any{"memory_limit": 64 << 20}},
		{"case25_panic", "panic", "trap", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := topicOf(t, 1, "-bad")
			require.NoError(t, produceValues(t.Context(), bad, []byte(t.Name()), []byte(c.payload), []byte(t.Name())))
			hostile, honest := "hostile_"+c.name, "honest_"+c.name
			def := map[string]any{"name": hostile, "topics": []string{bad}, "start_from": "earliest", "transform": "fickle.transform"}
			for name, limit := range c.limits {
				def[name] = limit
			}
			p.do("POST", "/streams", def, nil)
			topic, label := topicOf(t, 3), labelOf(t)
			p.do("POST", "/streams", traceStream(honest, topic, label), nil)
			p.do("POST", "/streams/"+honest+":start", nil, nil)
			work := startLoad(t, onKafka().feed(t, honest, topic, label))
			p.await(honest, "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 3000 })
			before := p.residentMemory()

			// It fails again and again, as often as somebody says START.
			for range sized(2, 10) {
				done := p.status(honest).Counters.Messages
				p.do("POST", "/streams/"+hostile+":start", nil, nil)
				s := p.await(hostile, "it has failed, and the program answers meanwhile", func(s graphmill.StreamStatus) bool {
					at := time.Now()
					status, _ := p.call("GET", "/healthz", nil, nil)
					require.Equal(t, http.StatusOK, status)
					require.Less(t, time.Since(at), 2*time.Second)
					return s.State == graphmill.StateFailed
				})
				require.Equal(t, "message", s.Reason.Code)
				require.Equal(t, c.code, s.LastFailure.Code, s.LastFailure.Text)
				require.EqualValues(t, 1, *s.LastFailure.Offset, "the message in hand is named")
				p.await(honest, "it goes on", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > done })
			}
			n := work.stop()
			p.awaitDone(honest, 3)
			require.Zero(t, requireAllApplied(t, label, n))
			after := p.residentMemory()
			t.Logf("RSS before %s, after %s", mebibytes(before), mebibytes(after))
			require.Less(t, after, before+100<<20, "what a hostile transformation took is given back")
			require.Zero(t, askOne(t, fmt.Sprintf("MATCH (m:Message {payload: %q}) RETURN count(m)", c.payload)))
		})
	}
}
