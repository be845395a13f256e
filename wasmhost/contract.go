package wasmhost

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/meter"
)

// The names of the transformation ABI.
const (
	exportMemory     = "memory"
	exportMarker     = "graphmill_abi_v1"
	exportAlloc      = "graphmill_alloc"
	exportConfigure  = "graphmill_configure"
	exportInitialize = "_initialize"
	exportStart      = "_start"
	reservedPrefix   = "graphmill_"

	moduleGraphmill = "graphmill"
	moduleWASI      = "wasi_snapshot_preview1"
)

var otherMarker = regexp.MustCompile(`^graphmill_abi_v([0-9]{1,9})$`)

// signatures of the exports whose names the ABI fixes.
var signatures = map[string]string{
	exportMarker:              "() -> ()",
	exportAlloc:               "(i32) -> (i32)",
	exportConfigure:           "(i32, i32) -> (i64)",
	exportInitialize:          "() -> ()",
	graphmill.DefaultFunction: transformationSignature,
}

const transformationSignature = "(i32, i32) -> (i64)"

// signature writes a type as sdk/ABI.md does.
func signature(t meter.FuncType) string {
	return "(" + joinTypes(t.Params) + ") -> (" + joinTypes(t.Results) + ")"
}

func joinTypes(types []meter.ValueType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

// contract is what a module offers and asks for, once it is known to keep the
// ABI.
type contract struct {
	transformations []string // sorted
	imports         []string // distinct, module.name, sorted
	memory          int64    // bytes of linear memory at the start
	functions       int
	initialize      bool
	configure       bool
}

// inspect checks a module as far as that is possible without compiling it, and
// returns it metered. sum is its SHA-256.
func (h *Host) inspect(sum [sha256.Size]byte, wasm []byte) (*candidate, error) {
	if err := h.checkSize(wasm); err != nil {
		return nil, err
	}
	m, err := meter.Parse(wasm, h.limits.Counts)
	if err != nil {
		return nil, refusal(err)
	}
	c, err := checkContract(m)
	if err != nil {
		return nil, err
	}
	rewritten, err := m.Rewrite()
	if err != nil {
		return nil, refusal(err)
	}
	c.functions = rewritten.Functions
	return &candidate{sum: sum, contract: c, metered: rewritten.Wasm}, nil
}

func (h *Host) checkSize(wasm []byte) error {
	if int64(len(wasm)) > h.limits.ModuleBytes {
		return &graphmill.Error{
			Kind: graphmill.KindTooLarge, Code: "module_too_large", Field: "module",
			Text: fmt.Sprintf("the module has %d bytes, the limit is %d", len(wasm), h.limits.ModuleBytes),
			Next: "build it with optimisation and without debug information",
		}
	}
	return nil
}

// rejected is an error about a module that cannot be used.
func rejected(code, next, format string, args ...any) *graphmill.Error {
	return &graphmill.Error{Kind: graphmill.KindInvalid, Code: code, Field: "module", Text: fmt.Sprintf(format, args...), Next: next}
}

// refusal tells why package meter refused a module.
func refusal(err error) error {
	var e *meter.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Reason {
	case meter.NotWasm:
		return rejected("not_wasm", "upload the .wasm file that the compiler made", "%s", e.Text)
	case meter.Component:
		return rejected("component", "build a core module: wasm32-wasip1, not wasip2, and no wit-bindgen or componentize step", "%s, a core module is expected", e.Text)
	case meter.Truncated:
		return rejected("truncated", "upload the whole file", "%s", e.Text)
	case meter.OverLimit:
		return rejected("over_limit", "build the module with optimisation for size and smaller functions, or raise the limit of the server (--limit-...)", "%s", e.Text)
	default:
		return rejected("module_rejected", "", "%s", e.Text)
	}
}

// checkContract holds a module against the ABI.
func checkContract(m *meter.Module) (*contract, error) {
	c := &contract{}
	var err error
	if c.imports, err = checkImports(m.Imports); err != nil {
		return nil, err
	}
	exports := make(map[string]meter.Export, len(m.Exports))
	for _, e := range m.Exports {
		exports[e.Name] = e
	}
	if c.transformations, err = transformations(m.Exports); err != nil {
		return nil, err
	}
	if err := checkVersion(exports); err != nil {
		return nil, err
	}
	if err := checkExports(m.Exports, exports); err != nil {
		return nil, err
	}
	if m.Memory == nil || exports[exportMemory].Kind != meter.KindMemory {
		return nil, rejected("no_memory", "export the linear memory as \"memory\"", "the module exports no memory named %q", exportMemory)
	}
	if len(c.transformations) == 0 {
		return nil, rejected("no_transformation", "export a function of the type "+transformationSignature+", best named transform",
			"no export is a transformation: none has the type %s", transformationSignature)
	}
	c.memory = int64(m.Memory.Min) * pageSize
	_, c.initialize = exports[exportInitialize]
	_, c.configure = exports[exportConfigure]
	return c, nil
}

// transformations returns the names of the exports that are transformations.
func transformations(exports []meter.Export) ([]string, error) {
	var names []string
	for _, e := range exports {
		named := !strings.HasPrefix(e.Name, "_") && !strings.HasPrefix(e.Name, reservedPrefix) && e.Name != exportMemory
		if !named || e.Kind != meter.KindFunction || signature(e.Type) != transformationSignature {
			continue
		}
		if len(e.Name) == 0 || len(e.Name) > graphmill.MaxNameLength {
			return nil, rejected("module_rejected", "", "the name of a transformation has %d bytes, 1 to %d are right", len(e.Name), graphmill.MaxNameLength)
		}
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names, nil
}

// checkVersion finds out which ABI a module speaks, and what else it is if none.
//
// A module with _start and without _initialize is a program, whatever else it
// exports: its runtime is not up before _start has run, and then it is over. Go
// makes one of a plugin that is built without -buildmode=c-shared.
func checkVersion(exports map[string]meter.Export) error {
	_, start := exports[exportStart]
	_, initialize := exports[exportInitialize]
	if start && !initialize {
		return rejected("command_module", "build a reactor: -buildmode=c-shared with Go, -mexec-model=reactor with clang, crate-type cdylib with Rust",
			"the module is a program that runs once (it exports _start); a transformation is called again and again")
	}
	if _, ok := exports[exportMarker]; ok {
		return nil
	}
	for name := range exports {
		if v := otherMarker.FindStringSubmatch(name); v != nil {
			return rejected("newer_abi", "build it with an SDK for ABI 1, or take a newer Graphmill",
				"the module speaks version %s of the transformation ABI, this server speaks 1", v[1])
		}
	}
	return rejected("no_abi_marker", "build it with an SDK, or export "+exportMarker+" of the type () -> ()",
		"the module does not export %s, so it does not say which ABI it speaks", exportMarker)
}

// checkExports checks the types of the exports whose names the ABI fixes.
func checkExports(list []meter.Export, exports map[string]meter.Export) error {
	for _, e := range list {
		want, known := signatures[e.Name]
		switch {
		case !known && strings.HasPrefix(e.Name, reservedPrefix):
			if speaksNewer(list) {
				continue
			}
			return rejected("module_rejected", "", "the export %s is not known; names that begin with %s belong to the ABI", quoted(e.Name), reservedPrefix)
		case !known:
			continue
		case e.Kind != meter.KindFunction:
			return rejected("wrong_signature", "", "the export %s is a %s, a function of the type %s is expected", e.Name, e.Kind, want)
		case signature(e.Type) != want:
			return rejected("wrong_signature", "", "the export %s has the type %s, %s is expected", e.Name, clip(signature(e.Type), 200), want)
		}
	}
	if _, ok := exports[exportAlloc]; !ok {
		return rejected("wrong_signature", "", "the module does not export %s of the type %s", exportAlloc, signatures[exportAlloc])
	}
	return nil
}

// speaksNewer says whether a module speaks another version of the ABI too, of
// which this host does not know all names.
func speaksNewer(list []meter.Export) bool {
	return slices.ContainsFunc(list, func(e meter.Export) bool {
		return e.Name != exportMarker && otherMarker.MatchString(e.Name)
	})
}

// checkImports checks imports by name and type, and returns their names.
func checkImports(imports []meter.Import) ([]string, error) {
	var names []string
	for _, im := range imports {
		name := im.Module + "." + im.Name
		want, ok := hostFunctions[im.Module][im.Name]
		if !ok {
			return nil, rejected("unknown_import", importHint(im.Module),
				"the module imports %s, which the host does not offer", quoted(name))
		}
		if got := signature(im.Type); got != want.signature() {
			return nil, rejected("wrong_signature", "", "the import %s has the type %s, the host's has %s", name, clip(got, 200), want.signature())
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// importHint says what the usual reason for an unknown import is.
func importHint(module string) string {
	switch {
	case module == "env":
		return "a function was declared but not linked (module env): link its library, or let the linker report undefined symbols"
	case module == "gojs" || module == "go":
		return "build with GOOS=wasip1, not GOOS=js"
	case strings.HasPrefix(module, "wasi:"):
		return "build for WASI preview 1"
	case strings.HasPrefix(module, "__wbindgen"):
		return "build without wasm-bindgen"
	default:
		return "only " + moduleGraphmill + ".log and functions of " + moduleWASI + " can be imported"
	}
}

// quoted quotes a name from a module, cut short.
func quoted(s string) string { return fmt.Sprintf("%q", clip(s, 200)) }
