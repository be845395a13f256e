package wasmhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// Report is what Check found out about a module that it accepts.
type Report struct {
	SHA256          string   // of the bytes, hexadecimal
	Size            int64    // bytes
	Transformations []string // exports that are transformations, sorted
	Imports         []string // module.name of what it imports, sorted
	Functions       int      // of its own, without imports
	Memory          int64    // bytes of linear memory once it has been initialized
	Checked         []string // what was checked, a short sentence each
}

// Check does everything that is done before a module is accepted: its size, its
// form, every count in it, its imports and exports, metering, compiling, and a
// trial: it is instantiated and _initialize is run under the time limit.
//
// A module that is refused is a *graphmill.Error of KindInvalid (KindTooLarge
// where it is over ModuleBytes) with the Field "module". The text says what was
// expected, and Code in which way it is wrong:
//
//	not_wasm, truncated, component, command_module, no_abi_marker, newer_abi,
//	unknown_import, wrong_signature, no_memory, no_transformation,
//	over_limit, module_rejected
//
// Errors of the host itself have other kinds: KindUnavailable with CodeNotCompiled
// says nothing about the module, and the same bytes may pass later.
func (h *Host) Check(ctx context.Context, wasm []byte) (*Report, error) {
	ctx, finish, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer finish()
	l, err := h.acquire(ctx, wasm)
	if err != nil {
		return nil, err
	}
	memory, err := l.try(ctx)
	if graphmill.KindOf(err) == graphmill.KindInvalid {
		h.cache.forget(l.hash)
	}
	if err := joined(err, l.release(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	c := l.contract
	hash := sha256.Sum256(wasm)
	report := &Report{
		SHA256:          hex.EncodeToString(hash[:]),
		Size:            int64(len(wasm)),
		Transformations: slices.Clone(c.transformations),
		Imports:         slices.Clone(c.imports),
		Functions:       c.functions,
		Memory:          memory,
		Checked: []string{
			fmt.Sprintf("WebAssembly core module of %d bytes, the limit is %d", len(wasm), h.limits.ModuleBytes),
			"speaks transformation ABI 1, exports " + strings.Join(c.transformations, ", "),
			importSentence(c.imports),
			fmt.Sprintf("all counts within limits, %d functions made stoppable and compiled", c.functions),
			trialSentence(c, memory, h.limits.Memory),
		},
	}
	return report, nil
}

func importSentence(imports []string) string {
	switch len(imports) {
	case 0:
		return "imports nothing"
	case 1:
		return "imports " + imports[0]
	default:
		return fmt.Sprintf("imports %d functions, all offered here", len(imports))
	}
}

func trialSentence(c *contract, memory, limit int64) string {
	s := "instantiates"
	if c.initialize {
		s += ", _initialize returns"
	}
	s += fmt.Sprintf(", memory is then %.1f MiB", float64(memory)/(1<<20))
	if memory > limit {
		s += fmt.Sprintf(": streams must raise MEMORY_LIMIT above the default of %s", sizeText(limit))
	}
	return s
}

// try makes an instance with the most memory that a stream may ask for, and
// returns how much of it the module has after its initialization.
func (l *loaded) try(ctx context.Context) (memory int64, err error) {
	l.host.mu.Lock()
	l.refs++ // for the instance; the caller holds one
	l.host.mu.Unlock()
	i, err := l.instantiate(ctx, InstanceConfig{
		Function:    l.contract.transformations[0],
		MemoryLimit: l.host.limits.MaxMemory,
		Log:         func(slog.Level, string) {},
	})
	if i == nil {
		return 0, joined(err, l.release(context.WithoutCancel(ctx)))
	}
	memory = i.Memory()
	if err := joined(refusedTrial(err), i.Close(context.WithoutCancel(ctx))); err != nil {
		return 0, err
	}
	return memory, nil
}

// refusedTrial makes a fault of the set-up an error about the module.
func refusedTrial(err error) error {
	var f *graphmill.Fault
	if errors.As(err, &f) {
		return rejected("module_rejected", "", "%s", f.Text)
	}
	return err
}
