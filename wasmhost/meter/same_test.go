package meter_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/graphmill/graphmill/wasmhost/meter"
)

// call is a call of an export.
type call struct {
	name   string
	params []uint64
}

// lab runs modules as they are and metered.
type lab struct {
	runtime wazero.Runtime
	slice   uint64 // fuel that yield gives
	yields  int
}

const features = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst

func newLab(t testing.TB) *lab {
	t.Helper()
	ctx := context.Background()
	l := &lab{slice: 1000, runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))}
	t.Cleanup(func() { require.NoError(t, l.runtime.Close(ctx)) })
	yield := func(context.Context) uint64 { l.yields++; return l.slice }
	_, err := l.runtime.NewHostModuleBuilder(meter.YieldModule).NewFunctionBuilder().WithFunc(yield).Export(meter.YieldName).Instantiate(ctx)
	require.NoError(t, err)
	_, err = l.runtime.NewHostModuleBuilder("host").NewFunctionBuilder().WithFunc(func(context.Context, uint32) uint32 { return 7 }).Export("seven").Instantiate(ctx)
	require.NoError(t, err)
	return l
}

// observe instantiates a module, makes the calls one after the other, and writes
// down all that can be seen: results, traps, mutable globals, and the memory.
func (l *lab) observe(wasm []byte, calls []call) (seen []string, memory []byte, err error) {
	ctx := context.Background()
	compiled, err := l.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, nil, err
	}
	defer compiled.Close(ctx)
	m, err := l.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return []string{"instantiate: " + trap(err)}, nil, nil
	}
	defer m.Close(ctx)
	for _, c := range calls {
		f := m.ExportedFunction(c.name)
		results, err := f.Call(ctx, c.params...)
		if err != nil {
			seen = append(seen, c.name+": "+trap(err))
			continue
		}
		for i, r := range results {
			seen = append(seen, fmt.Sprintf("%s: %s", c.name, shown(f.Definition().ResultTypes()[i], r)))
		}
	}
	for i := 0; ; i++ {
		g := m.ExportedGlobal(fmt.Sprintf("g%d", i))
		if g == nil {
			break
		}
		seen = append(seen, fmt.Sprintf("g%d: %s", i, shown(g.Type(), g.Get())))
	}
	if len(compiled.ExportedMemories()) > 0 {
		b, _ := m.Memory().Read(0, m.Memory().Size())
		memory = append(memory, b...)
	}
	return seen, memory, nil
}

// trap is the first line of an error: the others tell functions and places.
func trap(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// shown writes a value. Which NaN an operation gives is not laid down.
func shown(t api.ValueType, v uint64) string {
	switch {
	case t == api.ValueTypeF32 && math.IsNaN(float64(api.DecodeF32(v))), t == api.ValueTypeF64 && math.IsNaN(api.DecodeF64(v)):
		return "NaN"
	case t == api.ValueTypeExternref || t == api.ValueType(0x70):
		return fmt.Sprint("reference, null: ", v == 0)
	case t == api.ValueTypeI32 || t == api.ValueTypeF32:
		return fmt.Sprintf("%#x", uint32(v))
	}
	return fmt.Sprintf("%#x", v)
}

// requireSame says that a module computes the same with and without fuel, and
// returns what was seen.
func (l *lab) requireSame(t testing.TB, wasm []byte, calls []call) []string {
	t.Helper()
	metered, err := rewrite(wasm, meter.DefaultLimits())
	require.NoError(t, err)
	plainSeen, plainMemory, err := l.observe(wasm, calls)
	require.NoError(t, err)
	seen, memory, err := l.observe(metered, calls)
	require.NoError(t, err)
	require.Equal(t, plainSeen, seen)
	require.Equal(t, len(plainMemory), len(memory), "the size of the memory")
	for i := range memory {
		if memory[i] != plainMemory[i] {
			t.Fatalf("the memory differs at %#x: %#x without fuel, %#x with", i, plainMemory[i], memory[i])
		}
	}
	return seen
}
