//go:build e2e

package integration_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// Definitions that change under load, as a file that is applied again and again.
func TestKafkaAppliedChangesLoseAndDoubleNothing(t *testing.T) {
	n := sized(20_000, 200_000)
	const more = 1000
	topic, another, label := topicOf(t, 3), topicOf(t, 1, "-another"), labelOf(t)
	p := serve(t)
	stream := traceStream("applied", topic, label)
	stream["batch_size"], stream["state"] = 100, "running"
	apply := func(args ...string) string {
		text, err := json.Marshal(map[string]any{"streams": []any{stream}})
		require.NoError(t, err)
		return p.run(string(text), append([]string{"apply", "-f", "-"}, args...)...) // JSON is YAML
	}
	const nothing = "stream applied: unchanged\nnothing to change\n"

	produced := make(chan error, 1)
	go func() { produced <- produce(t.Context(), topic, 0, n) }()
	require.Contains(t, apply("--dry-run"), "1 to create")
	require.Contains(t, apply(), "created stream applied: running\n")
	for _, size := range []int{50, 2000, 500} {
		p.await("applied", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 0 })
		stream["batch_size"] = size
		require.Contains(t, apply(), "changed stream applied: running\n")
		require.Equal(t, nothing, apply())
	}
	require.NoError(t, <-produced)
	p.awaitDone("applied", 3)

	require.NoError(t, produce(t.Context(), another, n, n+more))
	stream["topics"] = []string{topic, another}
	require.Contains(t, apply(), "changed stream applied: running\n")
	p.awaitDone("applied", 4)
	require.Zero(t, requireAllApplied(t, label, n+more), "nothing was repeated")
	require.Contains(t, p.run(p.run("", "export"), "apply", "-f", "-", "--prune"), nothing)

	stream["state"] = "stopped"
	require.Contains(t, apply(), "changed stream applied: stopped\n")
	require.NoError(t, produce(t.Context(), topic, 0, 10))
	p.terminate()
	p.start()
	require.Equal(t, nothing, apply())
	require.Equal(t, graphmill.StateStopped, p.status("applied").State)
	require.Zero(t, repeatsIn(t, label), "nothing is read of a stream that is stopped")
}
