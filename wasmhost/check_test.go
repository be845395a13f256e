package wasmhost_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

func TestCheckAccepts(t *testing.T) {
	m := Answer(emptyAnswer)
	m.Imports = []Import{{Module: "graphmill", Name: "log", Params: []byte{I32, I32, I32}}}
	m.Funcs = append(m.Funcs,
		Func{Export: "rows", Params: []byte{I32, I32}, Results: []byte{I64}, Body: I64Const(0)},
		Func{Export: "_hidden", Params: []byte{I32, I32}, Results: []byte{I64}, Body: I64Const(0)},
		Func{Export: "helper", Params: []byte{I64}},
		Func{Export: "_initialize"},
	)
	m.Exports = [][]byte{Cat(Name("answer"), []byte{3, 0})}
	m.Globals = [][]byte{Cat([]byte{I32, 0}, I32Const(42), End)}
	wasm := m.Bytes()

	report, err := newHost(t, wasmhost.Config{}).Check(t.Context(), wasm)
	require.NoError(t, err)
	hash := sha256.Sum256(wasm)
	require.Equal(t, hex.EncodeToString(hash[:]), report.SHA256)
	require.EqualValues(t, len(wasm), report.Size)
	require.Equal(t, []string{"rows", "transform"}, report.Transformations)
	require.Equal(t, []string{"graphmill.log"}, report.Imports)
	require.Equal(t, 7, report.Functions)
	require.EqualValues(t, 1<<20, report.Memory)
	require.Contains(t, report.Checked, "speaks transformation ABI 1, exports rows, transform")
	require.Contains(t, report.Checked, "imports graphmill.log")
	require.Contains(t, report.Checked, "instantiates, _initialize returns, memory is then 1.0 MiB")
}

func TestCase27CheckRefuses(t *testing.T) {
	sound := Guest(I64Const(0))
	without := func(export string) Module {
		m := Guest(I64Const(0))
		for i := range m.Funcs {
			if m.Funcs[i].Export == export {
				m.Funcs[i].Export = ""
			}
		}
		return m
	}
	with := func(change func(*Module)) []byte {
		m := Guest(I64Const(0))
		change(&m)
		return m.Bytes()
	}
	importing := func(module, name string, params, results []byte) []byte {
		return with(func(m *Module) { m.Imports = []Import{{Module: module, Name: name, Params: params, Results: results}} })
	}
	raw := func(sections ...[]byte) []byte { return Cat([]byte(Preamble), Cat(sections...)) }

	for name, c := range map[string]struct {
		wasm []byte
		code string
		text string
	}{
		"nothing":             {nil, "not_wasm", "begins with \"\""},
		"text file":           {[]byte("def transform(messages):\n"), "not_wasm", `begins with "def transform(me"`},
		"the first two bytes": {[]byte(Preamble[:2]), "truncated", "2 bytes"},
		"the first six bytes": {[]byte(Preamble[:6]), "truncated", "6 bytes"},
		"half of a module":    {sound.Bytes()[:len(sound.Bytes())/2], "truncated", "announced"},
		"component":           {[]byte("\x00asm\x0d\x00\x01\x00"), "component", "a core module is expected"},
		"unknown version":     {[]byte("\x00asm\x02\x00\x00\x00"), "module_rejected", "version"},
		"preamble alone":      {[]byte(Preamble), "no_abi_marker", "graphmill_abi_v1"},

		"no marker":                     {without("graphmill_abi_v1").Bytes(), "no_abi_marker", "does not export graphmill_abi_v1"},
		"newer marker":                  {with(func(m *Module) { m.Funcs[0].Export = "graphmill_abi_v7" }), "newer_abi", "speaks version 7"},
		"no alloc":                      {without("graphmill_alloc").Bytes(), "wrong_signature", "does not export graphmill_alloc"},
		"no memory":                     {with(func(m *Module) { m.Memory = []byte{} }), "no_memory", `"memory"`},
		"program":                       {with(func(m *Module) { m.Funcs = []Func{{Export: "_start"}} }), "command_module", "_start"},
		"program with a transformation": {with(func(m *Module) { m.Funcs = append(m.Funcs, Func{Export: "_start"}) }), "command_module", "_start"},
		"nothing to run":                {without("transform").Bytes(), "no_transformation", "(i32, i32) -> (i64)"},

		"transform of another type": {with(func(m *Module) { m.Funcs[2].Results = []byte{I32}; m.Funcs[2].Body = I32Const(0) }),
			"wrong_signature", "the export transform has the type (i32, i32) -> (i32), (i32, i32) -> (i64) is expected"},
		"alloc of another type": {with(func(m *Module) { m.Funcs[1].Params = []byte{I64} }), "wrong_signature", "graphmill_alloc has the type (i64) -> (i32)"},
		"configure that is a global": {with(func(m *Module) {
			m.Globals = [][]byte{Cat([]byte{I32, 0}, I32Const(0), End)}
			m.Exports = [][]byte{Cat(Name("graphmill_configure"), []byte{3, 0})}
		}), "wrong_signature", "is a global"},
		"unknown name of the ABI": {with(func(m *Module) { m.Funcs = append(m.Funcs, Func{Export: "graphmill_config"}) }), "module_rejected", `"graphmill_config" is not known`},
		"memory by another name":  {with(func(m *Module) { m.Memory = []byte{}; m.Funcs[2].Export = "memory" }), "no_memory", `"memory"`},

		"unknown module":          {importing("env", "printf", []byte{I32}, []byte{I32}), "unknown_import", `"env.printf"`},
		"unknown function":        {importing("graphmill", "exec", []byte{I32}, []byte{I32}), "unknown_import", `"graphmill.exec"`},
		"meter":                   {importing("graphmill_meter", "yield", nil, []byte{I64}), "unknown_import", `"graphmill_meter.yield"`},
		"function of preview 2":   {importing("wasi:cli/run@0.2.0", "run", nil, nil), "unknown_import", `"wasi:cli/run@0.2.0.run"`},
		"import of another type":  {importing("graphmill", "log", []byte{I32, I32}, nil), "wrong_signature", "(i32, i32, i32) -> ()"},
		"wasi of another type":    {importing("wasi_snapshot_preview1", "fd_write", []byte{I32}, []byte{I32}), "wrong_signature", "(i32, i32, i32, i32) -> (i32)"},
		"memory is imported":      {raw(Section(SectionImport, Vector(Cat(Name("env"), Name("memory"), []byte{2, 0, 1})))), "module_rejected", "env.memory is imported"},
		"type error in the code":  {with(func(m *Module) { m.Funcs[2].Body = I32Const(0) }), "module_rejected", "not valid"},
		"local that is not there": {with(func(m *Module) { m.Funcs[2].Body = Cat(LocalGet(2), Drop, I64Const(0)) }), "module_rejected", "local variable 2"},
		"fuel is touched":         {with(func(m *Module) { m.Funcs[2].Body = Cat(I64Const(1<<40), GlobalSet(0), I64Const(0)) }), "module_rejected", "no global 0"},
		"yield is called":         {with(func(m *Module) { m.Funcs[2].Body = Call(3) }), "module_rejected", "no function 3"},
		"data outside of memory":  {with(func(m *Module) { m.Memory = []byte{0, 0}; m.Data = "x" }), "module_rejected", ""},
		"_initialize traps":       {with(func(m *Module) { m.Funcs = append(m.Funcs, Func{Export: "_initialize", Body: Unreachable}) }), "module_rejected", "unreachable"},
		"_initialize loops":       {with(func(m *Module) { m.Funcs = append(m.Funcs, Func{Export: "_initialize", Body: Forever()}) }), "module_rejected", "time limit of 50ms"},
		"memory of 4 GiB":         {with(func(m *Module) { m.Memory = Cat([]byte{0}, U32(65536)) }), "over_limit", "4096 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, wasmhost.Config{Limits: wasmhost.Limits{Time: soon}})
			_, err := h.Check(t.Context(), c.wasm)
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.code, e.Code, e.Text)
			require.Equal(t, "module", e.Field)
			require.Contains(t, e.Text, c.text)
		})
	}
}

func TestCheckRefusesLargeFiles(t *testing.T) {
	h := newHost(t, wasmhost.Config{Limits: wasmhost.Limits{ModuleBytes: 1000}})
	for _, refuse := range []func() error{
		func() error { _, err := h.Check(t.Context(), make([]byte, 1001)); return err },
		func() error { _, err := h.Load(t.Context(), make([]byte, 1001)); return err },
	} {
		var e *graphmill.Error
		require.ErrorAs(t, refuse(), &e)
		require.Equal(t, graphmill.KindTooLarge, e.Kind)
		require.Equal(t, "the module has 1001 bytes, the limit is 1000", e.Text)
	}
}

// TestModuleOfTwoVersions may export what this host does not know, beside a
// newer marker.
func TestModuleOfTwoVersions(t *testing.T) {
	m := Guest(I64Const(0), Func{Export: "graphmill_abi_v2"}, Func{Export: "graphmill_rows"})
	_, err := newHost(t, wasmhost.Config{}).Check(t.Context(), m.Bytes())
	require.NoError(t, err)
}

func TestMemoryOverTheDefaultIsTold(t *testing.T) {
	m := Guest(I64Const(0))
	m.Memory = Cat([]byte{0}, U32(1600)) // 100 MiB
	report, err := newHost(t, wasmhost.Config{}).Check(t.Context(), m.Bytes())
	require.NoError(t, err)
	require.Contains(t, report.Checked, "instantiates, memory is then 100.0 MiB: streams must raise MEMORY_LIMIT above the default of 64 MiB")

	module := load(t, newHost(t, wasmhost.Config{}), m.Bytes())
	_, err = module.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform"})
	require.ErrorContains(t, err, "memory_limit: the module starts with 104857600 bytes of memory, the limit is 67108864")
}
