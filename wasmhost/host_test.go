package wasmhost_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	"github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// compiler makes a host compile in a process of its own: this test program again.
var compiler = []string{os.Args[0], "compile-module"}

func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], compiler[1:]) {
		if err := wasmhost.RunCompiler(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// newHost makes a host that is closed with the test.
func newHost(t testing.TB, cfg wasmhost.Config) *wasmhost.Host {
	t.Helper()
	h, err := wasmhost.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	return h
}

func load(t testing.TB, h *wasmhost.Host, wasm []byte) *wasmhost.Module {
	t.Helper()
	m, err := h.Load(t.Context(), wasm)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m
}

// instantiate makes an instance of the transformation "transform".
func instantiate(t testing.TB, m *wasmhost.Module, cfg wasmhost.InstanceConfig) *wasmhost.Instance {
	t.Helper()
	if cfg.Function == "" {
		cfg.Function = "transform"
	}
	i, err := m.Instantiate(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.Close(context.Background())) })
	return i
}

// start is all of it for a module that is used once.
func start(t testing.TB, m wasmtest.Module, cfg wasmhost.InstanceConfig) *wasmhost.Instance {
	t.Helper()
	return instantiate(t, load(t, newHost(t, wasmhost.Config{}), m.Bytes()), cfg)
}

// batch makes n small messages.
func batch(n int) []graphmill.Message {
	messages := make([]graphmill.Message, n)
	for i := range messages {
		messages[i] = graphmill.Message{Topic: "t", Offset: int64(i), Payload: []byte("payload"), BrokerTime: -1}
	}
	return messages
}

// fault runs a batch that must fail with a fault.
func fault(t testing.TB, i *wasmhost.Instance, messages int) *graphmill.Fault {
	t.Helper()
	_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(messages))
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	return f
}

// logLines collects the log of an instance.
type logLines struct {
	mu    sync.Mutex
	lines []string // LEVEL text
}

func (l *logLines) add(level slog.Level, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, level.String()+" "+text)
}

func (l *logLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// soon is what hostile modules get.
const soon = 50 * time.Millisecond

func TestLimitsThatCannotBe(t *testing.T) {
	for name, limits := range map[string]wasmhost.Limits{
		"limits.memory":     {Memory: 1 << 40},
		"limits.max_memory": {MaxMemory: 4 << 30},
		"limits.time":       {Time: time.Hour, MaxTime: time.Minute},
		"limits.statements": {Statements: -1},
	} {
		_, err := wasmhost.New(t.Context(), wasmhost.Config{Limits: limits})
		var e *graphmill.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, graphmill.KindInvalid, e.Kind)
		require.Equal(t, name, e.Field)
	}
}

func TestCacheFolderThatCannotBeMade(t *testing.T) {
	_, err := wasmhost.New(t.Context(), wasmhost.Config{CacheDir: "/dev/null/cache"})
	require.ErrorContains(t, err, "open the cache of compiled modules")
}
