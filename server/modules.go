package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// ContentTypeWasm is the content type of a WebAssembly module.
const ContentTypeWasm = "application/wasm"

// PushModule checks an upload and stores it as the next version of its name.
// Errors: KindInvalid and KindTooLarge with what is wrong about the bytes,
// KindConflict with code function_in_use.
func (s *Server) PushModule(ctx context.Context, r PushRequest) (PushResult, error) {
	if err := graphmill.ValidateName("name", r.Name); err != nil {
		return PushResult{}, err
	}
	if r.ContentType != ContentTypeWasm {
		return PushResult{}, graphmill.Invalid("content_type", "modules of the type %q are not known; %s is", r.ContentType, ContentTypeWasm)
	}
	report, err := s.host.Check(ctx, r.Bytes)
	if err != nil {
		return PushResult{}, err
	}
	m := graphmill.Module{
		Name:            r.Name,
		ContentType:     r.ContentType,
		Transformations: report.Transformations,
		CreatedAt:       now(),
	}
	m, created, err := s.catalog.PutModule(ctx, m, r.Bytes, !r.NoActivate)
	if err != nil {
		return PushResult{}, err
	}
	s.log.Info("module pushed", "module", m.Name, "version", m.Version, "sha256", m.SHA256, "active", m.Active, "new", created)
	if m.Active {
		s.moduleChanged(m.Name)
	}
	return PushResult{Module: m, Created: created, Checked: report.Checked}, nil
}

// moduleChanged tells running streams that the active version of a module is
// another now. They take it behind the batch that they are executing.
func (s *Server) moduleChanged(name string) {
	s.each(func(st *stream) {
		if st.usesModule(name) {
			st.moduleChanged()
		}
	})
}

// Modules returns the active version of every module by name; ready modules
// that no pushed one hides are among them.
func (s *Server) Modules(ctx context.Context) ([]graphmill.Module, error) {
	stored, _, err := s.catalog.Modules(ctx)
	if err != nil {
		return nil, err
	}
	modules := slices.DeleteFunc(stored, func(m graphmill.Module) bool { return !m.Active })
	pushed := map[string]bool{}
	for _, m := range modules {
		pushed[m.Name] = true
	}
	for _, name := range s.plugins.names() {
		if pushed[name] {
			continue
		}
		pl, err := s.plugins.get(ctx, name)
		if err != nil {
			return nil, err
		}
		if pl != nil {
			modules = append(modules, pl.module)
		}
	}
	slices.SortFunc(modules, func(a, b graphmill.Module) int { return strings.Compare(a.Name, b.Name) })
	return modules, nil
}

// ModuleVersions returns all versions of a module, newest first.
func (s *Server) ModuleVersions(ctx context.Context, name string) ([]graphmill.Module, error) {
	versions, err := s.catalog.ModuleVersions(ctx, name)
	if graphmill.KindOf(err) != graphmill.KindNotFound {
		return versions, err
	}
	pl, perr := s.plugins.get(ctx, name)
	switch {
	case perr != nil:
		return nil, perr
	case pl == nil:
		return nil, s.noSuchModule(ctx, name)
	}
	return []graphmill.Module{pl.module}, nil
}

// noSuchModule names what there is.
func (s *Server) noSuchModule(ctx context.Context, name string) error {
	e := graphmill.NotFound("module_not_found", "there is no module %q", name)
	if modules, err := s.Modules(ctx); err == nil && len(modules) > 0 {
		e.Next = "there are: " + firstOf(modules, ", ", func(m graphmill.Module) string { return m.Name })
	} else {
		e.Next = "push one: graphmill module push NAME FILE"
	}
	return e
}

// DeleteModule removes all versions of a pushed module. Errors: KindConflict
// while a stream uses it, or where it lies beside the binary.
func (s *Server) DeleteModule(ctx context.Context, name string) error {
	pl, err := s.plugins.get(ctx, name)
	if err != nil {
		return err
	}
	var readOnly *graphmill.Module
	if pl != nil {
		readOnly = &pl.module
	}
	err = s.catalog.DeleteModule(ctx, name, readOnly)
	if graphmill.KindOf(err) == graphmill.KindNotFound {
		if pl != nil {
			return graphmill.Conflict("module_read_only", "module %q lies beside the binary (%s) and cannot be removed here", name, pl.path)
		}
		return s.noSuchModule(ctx, name)
	}
	if err == nil {
		s.log.Info("module removed", "module", name)
		s.moduleChanged(name)
	}
	return err
}

// activeModule returns the version of a module that streams use now.
func (s *Server) activeModule(ctx context.Context, name string) (graphmill.Module, error) {
	versions, err := s.ModuleVersions(ctx, name)
	if err != nil {
		return graphmill.Module{}, err
	}
	for _, m := range versions {
		if m.Active {
			return m, nil
		}
	}
	return graphmill.Module{}, s.noSuchModule(ctx, name)
}

// transformation is a compiled module in use, with what it was made of.
type transformation struct {
	ref    graphmill.TransformationRef
	module graphmill.Module
	wasm   *wasmhost.Module
}

// loadTransformation compiles the active version of the module, or takes it
// from the cache, and makes sure that it exports the function. The caller
// closes it. Errors are of KindNotFound where module or function are absent, of
// KindConflict where the bytes are lost or damaged.
func (s *Server) loadTransformation(ctx context.Context, ref graphmill.TransformationRef) (*transformation, error) {
	for {
		m, err := s.activeModule(ctx, ref.Module)
		if err != nil {
			return nil, err
		}
		if err := checkFunction(m, ref); err != nil {
			return nil, err
		}
		bytes, err := s.moduleBytes(ctx, m)
		if err != nil {
			// It may have been replaced since we looked, and its file be gone.
			if now, nerr := s.activeModule(ctx, ref.Module); nerr == nil && !sameVersion(now, m) {
				continue
			}
			return nil, err
		}
		wasm, err := s.host.Load(ctx, bytes)
		if err != nil {
			return nil, fmt.Errorf("load version %d of module %q: %w", m.Version, m.Name, err)
		}
		return &transformation{ref: ref, module: m, wasm: wasm}, nil
	}
}

// sameVersion says whether both are one upload: numbers and bytes come again
// where a module is removed and pushed anew.
func sameVersion(a, b graphmill.Module) bool {
	return a.Version == b.Version && a.SHA256 == b.SHA256 && a.CreatedAt.Equal(b.CreatedAt)
}

// moduleBytes returns the bytes of a module's version.
func (s *Server) moduleBytes(ctx context.Context, m graphmill.Module) ([]byte, error) {
	if m.ReadOnly {
		pl, err := s.plugins.get(ctx, m.Name)
		if err == nil && pl == nil {
			err = s.noSuchModule(ctx, m.Name)
		}
		if err != nil {
			return nil, err
		}
		return pl.bytes, nil
	}
	bytes, err := s.catalog.ModuleBytes(ctx, m.SHA256)
	var e *graphmill.Error
	if errors.As(err, &e) && e.Kind == graphmill.KindConflict {
		return nil, &graphmill.Error{Kind: e.Kind, Code: e.Code,
			Text: fmt.Sprintf("version %d of module %q cannot be loaded: %s", m.Version, m.Name, e.Text), Err: e.Err,
			Next: fmt.Sprintf("push the same file again: graphmill module push %s FILE", m.Name)}
	}
	return bytes, err
}

// checkFunction tells what the module exports where it lacks the function.
func checkFunction(m graphmill.Module, ref graphmill.TransformationRef) error {
	if slices.Contains(m.Transformations, ref.Function) {
		return nil
	}
	e := graphmill.NotFound("function_not_found", "module %q has no function %q", ref.Module, ref.Function)
	e.Next = "it has: " + strings.Join(m.Transformations, ", ")
	return e
}

// version names the exact bytes.
func (t *transformation) version() graphmill.ModuleVersion {
	return graphmill.ModuleVersion{Name: t.module.Name, Version: t.module.Version, SHA256: t.module.SHA256}
}

func (t *transformation) close(ctx context.Context) {
	_ = t.wasm.Close(context.WithoutCancel(ctx)) // it only lets go of memory
}
