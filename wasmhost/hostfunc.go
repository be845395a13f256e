package wasmhost

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/graphmill/graphmill/wasmhost/meter"
)

// hostFunction is a function that a guest may import.
type hostFunction struct {
	params, results []api.ValueType
	call            func(i *Instance, mem api.Memory, stack []uint64)
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// hostFunctions are all that a guest may import: by module, by name.
var hostFunctions = map[string]map[string]hostFunction{
	moduleGraphmill: {
		"log": {params: []api.ValueType{i32, i32, i32}, call: guestLog},
	},
	moduleWASI: wasiFunctions(),
}

func (f *hostFunction) signature() string {
	convert := func(types []api.ValueType) []meter.ValueType {
		list := make([]meter.ValueType, len(types))
		for i, t := range types {
			list[i] = meter.ValueType(t)
		}
		return list
	}
	return signature(meter.FuncType{Params: convert(f.params), Results: convert(f.results)})
}

// instanceKey is the context key under which a call carries its instance.
type instanceKey struct{}

// adapt makes a function of wazero's form, which finds its instance in the
// context of the call.
func (f hostFunction) adapt() api.GoModuleFunc {
	return func(ctx context.Context, guest api.Module, stack []uint64) {
		f.call(ctx.Value(instanceKey{}).(*Instance), guest.Memory(), stack)
	}
}

// provide adds the host's functions to a runtime.
func provide(ctx context.Context, r wazero.Runtime) error {
	for module, functions := range hostFunctions {
		b := r.NewHostModuleBuilder(module)
		for name, f := range functions {
			b.NewFunctionBuilder().WithGoModuleFunction(f.adapt(), f.params, f.results).WithName(name).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	yield := hostFunction{results: []api.ValueType{i64}, call: func(i *Instance, _ api.Memory, stack []uint64) {
		i.checkTime()
		i.giveWay()
		stack[0] = fuelSlice
	}}
	_, err := r.NewHostModuleBuilder(meter.YieldModule).
		NewFunctionBuilder().WithGoModuleFunction(yield.adapt(), nil, yield.results).WithName(meter.YieldName).Export(meter.YieldName).
		Instantiate(ctx)
	return err
}

// guestLog is graphmill.log(level, address, length).
func guestLog(i *Instance, mem api.Memory, stack []uint64) {
	i.checkTime()
	text, ok := mem.Read(uint32(stack[1]), uint32(stack[2]))
	if !ok {
		panic(&guestFault{code: codeTrap, text: "graphmill.log was given a text outside of the memory"})
	}
	i.log.line(guestLevel(uint32(stack[0])), text)
}

// clip cuts s to at most n bytes, at the beginning of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// clean makes text from a guest fit for an error: valid UTF-8, not too long.
func clean(s string) string {
	return strings.TrimSpace(strings.ToValidUTF8(clip(s, maxGuestText), "\ufffd"))
}

// maxGuestText is where a text from a guest is cut in an error, in bytes.
const maxGuestText = 4096
