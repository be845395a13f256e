package wasmhost_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	"github.com/graphmill/graphmill/wasmhost/meter"
	"github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// goModule loads the Go guest into a host of its own.
func goModule(b *testing.B) *wasmhost.Module {
	b.Helper()
	wasm, err := goGuest()
	require.NoError(b, err)
	return load(b, newHost(b, wasmhost.Config{}), wasm)
}

// BenchmarkTransform is one call with 1,000 messages: into a module that answers
// at once, which is the cost of the host, and into the Go guest.
func BenchmarkTransform(b *testing.B) {
	messages := batch(1000)
	run := func(m *wasmhost.Module) func(b *testing.B) {
		return func(b *testing.B) {
			i := instantiate(b, m, wasmhost.InstanceConfig{TimeLimit: time.Minute})
			b.ReportAllocs()
			for b.Loop() {
				_, err := i.Transform(b.Context(), graphmill.SourceKafka, messages)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/message")
		}
	}
	b.Run("fixed answer", run(load(b, newHost(b, wasmhost.Config{}), wasmtest.Answer(emptyAnswer).Bytes())))
	b.Run("go", run(goModule(b)))
}

func BenchmarkInstantiate(b *testing.B) {
	for name, m := range map[string]*wasmhost.Module{
		"fixed answer": load(b, newHost(b, wasmhost.Config{}), wasmtest.Answer(emptyAnswer).Bytes()),
		"go":           goModule(b),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				i, err := m.Instantiate(b.Context(), wasmhost.InstanceConfig{Function: "transform"})
				require.NoError(b, err)
				require.NoError(b, i.Close(b.Context()))
			}
		})
	}
}

// BenchmarkLoad is loading the Go guest from the cache, and the part of it that
// reads and rewrites the module.
func BenchmarkLoad(b *testing.B) {
	wasm, err := goGuest()
	require.NoError(b, err)
	b.Run("cached", func(b *testing.B) {
		h := newHost(b, wasmhost.Config{CacheDir: b.TempDir()})
		_, err := h.Check(b.Context(), wasm)
		require.NoError(b, err)
		for b.Loop() {
			m, err := h.Load(b.Context(), wasm)
			require.NoError(b, err)
			require.NoError(b, m.Close(b.Context()))
		}
	})
	b.Run("rewrite", func(b *testing.B) {
		for b.Loop() {
			m, err := meter.Parse(wasm, meter.DefaultLimits())
			require.NoError(b, err)
			_, err = m.Rewrite()
			require.NoError(b, err)
		}
	})
}
