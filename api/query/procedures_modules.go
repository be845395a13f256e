package query

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// Modules are shown as files of one folder: NAME.wasm. There are no folders in
// it, and nothing of the machine's own is reached by a path.
const wasmExtension = ".wasm"

var wasmMagic = []byte("\x00asm")

func fileOf(m graphmill.Module) string { return m.Name + wasmExtension }

// moduleOf returns the module that a path means.
func moduleOf(path string) (string, error) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(path, "/"), wasmExtension)
	if !ok {
		err := graphmill.Invalid("", "The specified file isn't in the supported format.")
		err.Next = "a module is a file NAME.wasm"
		if strings.HasSuffix(path, ".py") {
			err.Next += "; modules in Python are not available yet"
		}
		return "", err
	}
	return name, graphmill.ValidateName("path", name)
}

func (e *executor) transformations(ctx context.Context, _ arguments) ([][]graphmill.Value, error) {
	modules, err := e.engine.Modules(ctx)
	var rows [][]graphmill.Value
	for _, m := range modules {
		for _, f := range m.Transformations {
			rows = append(rows, []graphmill.Value{!m.ReadOnly, m.Name + "." + f, fileOf(m)})
		}
	}
	return rows, err
}

func (e *executor) moduleFiles(ctx context.Context, _ arguments) ([][]graphmill.Value, error) {
	modules, err := e.engine.Modules(ctx)
	var rows [][]graphmill.Value
	for _, m := range modules {
		rows = append(rows, []graphmill.Value{!m.ReadOnly, fileOf(m), m.SHA256, int64(m.Version)})
	}
	return rows, err
}

// moduleFile gives the bytes in base64: a module is no text.
func (e *executor) moduleFile(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	name, err := moduleOf(a.text(0))
	if err != nil {
		return nil, err
	}
	_, content, err := e.engine.ModuleContent(ctx, name, 0)
	if err != nil {
		return nil, noSuchFile(err)
	}
	return [][]graphmill.Value{{base64.StdEncoding.EncodeToString(content)}}, nil
}

func (e *executor) createModuleFile(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	name, err := moduleOf(a.text(0))
	if err != nil {
		return nil, err
	}
	if exists, err := e.pushed(ctx, name); err != nil || exists {
		if err == nil {
			err = &graphmill.Error{Kind: graphmill.KindConflict, Code: "module_exists", Text: "File with the same name already exists!", Next: "CALL mg.update_module_file makes another version of it"}
		}
		return nil, err
	}
	if err := e.push(ctx, name, a.text(1)); err != nil {
		return nil, err
	}
	return [][]graphmill.Value{{name + wasmExtension}}, nil
}

func (e *executor) updateModuleFile(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	name, err := moduleOf(a.text(0))
	if err != nil {
		return nil, err
	}
	exists, err := e.pushed(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, noSuchFile(graphmill.NotFound("module_not_found", "there is no module %q", name))
	}
	return nil, e.push(ctx, name, a.text(1))
}

func (e *executor) deleteModuleFile(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	name, err := moduleOf(a.text(0))
	if err != nil {
		return nil, err
	}
	return nil, noSuchFile(e.engine.DeleteModule(ctx, name))
}

// pushed says whether there is a module of the name that has been pushed.
func (e *executor) pushed(ctx context.Context, name string) (bool, error) {
	modules, err := e.engine.Modules(ctx)
	for _, m := range modules {
		if m.Name == name && !m.ReadOnly {
			return true, err
		}
	}
	return false, err
}

func (e *executor) push(ctx context.Context, name, content string) error {
	module, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), ""))
	if err != nil || !bytes.HasPrefix(module, wasmMagic) {
		err := graphmill.Invalid("content", "the content is not a WebAssembly module in base64")
		err.Next = "write base64 -w0 FILE; or push the file itself: graphmill module push " + name + " FILE"
		return err
	}
	_, err = e.engine.PushModule(ctx, server.PushRequest{Name: name, ContentType: server.ContentTypeWasm, Bytes: module})
	return err
}

func noSuchFile(err error) error {
	told := asError(err)
	if told == nil || told.Kind != graphmill.KindNotFound {
		return err
	}
	told.Text, told.Err = "The specified file doesn't exist: "+told.Text, nil
	return told
}

// load checks one module again, as a start would.
func (e *executor) load(ctx context.Context, a arguments) ([][]graphmill.Value, error) {
	if err := graphmill.ValidateName("module_name", a.text(0)); err != nil {
		return nil, err
	}
	return nil, notLoaded(e.engine.RecheckModules(ctx, a.text(0)))
}

func (e *executor) loadAll(ctx context.Context, _ arguments) ([][]graphmill.Value, error) {
	return nil, notLoaded(e.engine.RecheckModules(ctx, ""))
}

func notLoaded(err error) error {
	told := asError(err)
	if told == nil {
		return err
	}
	told.Text, told.Err = "Failed to (re)load the module. "+told.Error(), nil
	return told
}
