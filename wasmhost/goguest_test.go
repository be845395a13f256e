package wasmhost_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// goGuest builds testdata/goguest, once for all tests.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "goguest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, ".")
	build.Dir = filepath.Join("testdata", "goguest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the Go guest: %w\n%s", err, text)
	}
	return os.ReadFile(out)
})

func payloads(texts ...string) []graphmill.Message {
	messages := make([]graphmill.Message, len(texts))
	for i, text := range texts {
		messages[i] = graphmill.Message{Topic: "t", Payload: []byte(text), BrokerTime: -1}
	}
	return messages
}

func transform(t testing.TB, i *wasmhost.Instance, messages []graphmill.Message) []graphmill.Statement {
	t.Helper()
	out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
	require.NoError(t, err)
	require.Empty(t, out.Failures)
	return out.Statements
}

// TestGoGuest is one test for one module, since compiling it takes seconds: when
// it is checked, and not again when it is loaded.
func TestGoGuest(t *testing.T) {
	wasm, err := goGuest()
	require.NoError(t, err)
	cfg := wasmhost.Config{CacheDir: t.TempDir(), Limits: wasmhost.Limits{Time: time.Minute}}
	report, err := newHost(t, cfg).Check(t.Context(), wasm)
	require.NoError(t, err)
	require.Contains(t, strings.Join(report.Checked, "\n"), "_initialize returns")
	cfg.Compiler = []string{"/bin/sh", "-c", "kill -KILL $$"} // so that whatever is compiled again is refused
	m := load(t, newHost(t, cfg), wasm)
	require.Equal(t, []string{"crash", "endless", "garbage", "hoard", "probe", "settings", "speak", "transform"}, m.Transformations())

	t.Run("statements", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{})
		for round := range 3 {
			statements := transform(t, i, payloads("a", "", "größe "+strconv.Itoa(round)))
			require.Len(t, statements, 3)
			require.Equal(t, []any{"größe " + strconv.Itoa(round)}, statements[2].Values)
			require.Equal(t, 2, statements[2].Message)
			require.Same(t, statements[0].Query, statements[2].Query)
		}
	})

	t.Run("settings", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{Function: "settings", Settings: map[string]string{"query": "MERGE (n)"}})
		require.Equal(t, []any{hex.EncodeToString([]byte("\x81\xa5query\xa9MERGE (n)"))}, transform(t, i, payloads("x"))[0].Values)

		_, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "settings", Settings: map[string]string{"refuse": ""}})
		var f *graphmill.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, "this guest refuses", f.Text)
	})

	t.Run("what it sees of the world", func(t *testing.T) {
		value := func(s graphmill.Statement) string { return s.Values[0].(string) }
		first := transform(t, instantiate(t, m, wasmhost.InstanceConfig{Function: "probe"}), payloads("1", "2", "3", "4", "5"))
		second := transform(t, instantiate(t, m, wasmhost.InstanceConfig{Function: "probe"}), payloads("1", "2", "3", "4", "5"))

		now, err := strconv.ParseInt(value(first[0]), 10, 64)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), time.UnixMilli(now), 30*time.Second, "the wall clock is real")
		require.Equal(t, "true", value(first[1]), "the monotonic clock moves")
		require.Equal(t, "true true", value(first[2]), "there are no files")
		require.NotEqual(t, value(first[3]), value(second[3]), "random numbers are random")
		require.Equal(t, "0 0", value(first[4]), "no arguments, no environment")
	})

	t.Run("log", func(t *testing.T) {
		var log logLines
		i := instantiate(t, m, wasmhost.InstanceConfig{Function: "speak", Log: log.add})
		transform(t, i, payloads("ü", "b"))
		require.ElementsMatch(t, []string{
			"DEBUG ü", "INFO b", "INFO out ü", "INFO and out b", "INFO and ", "WARN err ü", "WARN err b",
		}, log.all())
	})

	t.Run("panic", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{Function: "crash"})
		_, err := i.Transform(t.Context(), graphmill.SourceKafka, payloads("good", "good", "crash", "good"))
		var f *graphmill.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, "trap", f.Code)
		require.Equal(t, 2, f.Message)
		require.True(t, strings.HasSuffix(f.Text, "; it wrote: panic: message is bad"), f.Text)
	})

	t.Run("endless loop", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{Function: "endless", TimeLimit: time.Second})
		require.Equal(t, "deadline", fault(t, i, 1).Code)
	})

	t.Run("memory bomb", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{Function: "hoard", MemoryLimit: 32 << 20})
		f := fault(t, i, 1)
		require.Equal(t, "out_of_memory", f.Code)
		require.Contains(t, f.Text, "out of memory")
		require.LessOrEqual(t, i.Memory(), int64(32<<20))
	})

	t.Run("garbage is collected", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{Function: "garbage"})
		for range 32 {
			transform(t, i, payloads("8192", "8192")) // 16 MiB a batch, 512 MiB in all
		}
		require.Less(t, i.Memory(), int64(48<<20))
	})

	t.Run("many batches in flat memory", func(t *testing.T) {
		i := instantiate(t, m, wasmhost.InstanceConfig{})
		messages := batch(1000)
		for range 200 {
			require.Len(t, transform(t, i, messages), 1000)
		}
		require.Less(t, i.Memory(), int64(16<<20))
	})
}
