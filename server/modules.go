package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// ContentTypeWasm is the content type of a WebAssembly module.
const ContentTypeWasm = "application/wasm"

// PushModule checks an upload and stores it as the next version of its name.
// Errors: KindInvalid and KindTooLarge with what is wrong about the bytes,
// KindConflict with code function_in_use, KindUnavailable with code not_compiled,
// which says nothing about them.
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
		CreatedAt:       time.Now().UTC().Truncate(time.Microsecond), // of another upload, another one: see sameVersion
	}
	m, created, err := s.catalog.PutModule(ctx, m, r.Bytes, !r.NoActivate)
	if err != nil {
		s.forgetCompiled(ctx, m)
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
	stored, broken, err := s.catalog.Modules(ctx)
	if err != nil {
		return nil, err
	}
	modules := slices.DeleteFunc(stored, func(m graphmill.Module) bool { return !m.Active })
	pushed := map[string]bool{}
	for _, m := range modules {
		pushed[m.Name] = true
	}
	for _, b := range broken {
		pushed[b.Name] = true // it hides the ready one, whose use would be another module's
	}
	for _, name := range s.plugins.names() {
		if pushed[name] {
			continue
		}
		pl, err := s.plugins.get(ctx, name)
		if err != nil && notCompiled(err) == nil {
			return nil, err
		}
		if pl != nil {
			modules = append(modules, pl.module)
		}
	}
	slices.SortFunc(modules, func(a, b graphmill.Module) int { return strings.Compare(a.Name, b.Name) })
	return modules, nil
}

// ModuleUses returns the streams whose transformation is of a module, by name.
func (s *Server) ModuleUses(_ context.Context, name string) ([]ModuleUse, error) {
	var uses []ModuleUse
	s.each(func(st *stream) {
		if use, ok := st.moduleUse(name); ok {
			uses = append(uses, use)
		}
	})
	slices.SortFunc(uses, func(a, b ModuleUse) int { return strings.Compare(a.Stream, b.Stream) })
	return uses, nil
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

// shippedModules are those of the folder plugins of the release.
var shippedModules = []string{"cypher", "jsonlines", "movies"}

// noSuchModule names what there is, and says where a module comes from.
func (s *Server) noSuchModule(ctx context.Context, name string) error {
	e := graphmill.NotFound("module_not_found", "there is no module %q", name)
	if slices.Contains(shippedModules, name) {
		e.Next = fmt.Sprintf("it is one of the ready modules, and %s is not there: make build plugins puts them beside the program, --plugins-dir names another folder; then start the server anew",
			filepath.Join(cmp.Or(s.cfg.PluginsDir, "plugins"), name+".wasm"))
		return e
	}
	e.Next = "push it: graphmill module push " + name + " FILE"
	if modules, err := s.Modules(ctx); err == nil && len(modules) > 0 {
		e.Next += "; there are: " + firstOf(modules, ", ", func(m graphmill.Module) string { return m.Name })
	}
	return e
}

// RollbackModule makes another version of a pushed module the active one; 0 is
// the one before it. Running streams take it behind the batch that they are
// executing. A version that is active already stays so.
//
// Errors: KindNotFound (module_not_found, version_not_found); KindConflict
// (no_earlier_version, function_in_use with the streams, module_read_only).
func (s *Server) RollbackModule(ctx context.Context, name string, version int) (graphmill.Module, error) {
	if version < 0 {
		return graphmill.Module{}, graphmill.Invalid("version", "%d is no version; the first is 1", version)
	}
	m, changed, err := s.catalog.ActivateModule(ctx, name, version)
	if isNotFound(err, "module_not_found") {
		return m, s.notPushed(ctx, name, "has no versions to choose from")
	}
	if err != nil {
		return m, err
	}
	if changed {
		s.log.Info("module version activated", "module", name, "version", m.Version, "sha256", m.SHA256)
		s.moduleChanged(name)
	}
	return m, nil
}

// DeleteModule removes all versions of a pushed module. Errors: KindConflict
// while a stream uses it, or where it lies beside the program.
func (s *Server) DeleteModule(ctx context.Context, name string) error {
	readOnly, err := s.readyModule(ctx, name)
	if err != nil {
		return err
	}
	removed, err := s.catalog.DeleteModule(ctx, name, readOnly)
	if isNotFound(err, "module_not_found") {
		return s.notPushed(ctx, name, "cannot be removed here")
	}
	if err == nil {
		s.log.Info("module removed", "module", name)
		s.moduleChanged(name)
		s.forgetCompiled(ctx, removed...)
	}
	return err
}

// forgetCompiled removes what was compiled of versions that are there no more, unless the
// same bytes are of others that are. Where that cannot be found out it stays, and is
// bounded with the rest of the cache.
func (s *Server) forgetCompiled(ctx context.Context, removed ...graphmill.Module) {
	ctx = context.WithoutCancel(ctx)
	stored, broken, err := s.catalog.Modules(ctx)
	if err != nil || len(broken) > 0 {
		return
	}
	kept := s.plugins.sums()
	for _, m := range stored {
		kept[m.SHA256] = true
	}
	for _, m := range removed {
		if sum, err := sumOf(m); err == nil && !kept[m.SHA256] {
			s.host.Forget(sum)
		}
	}
}

func sumOf(m graphmill.Module) ([sha256.Size]byte, error) {
	sum, err := hex.DecodeString(m.SHA256)
	if err != nil || len(sum) != sha256.Size {
		return [sha256.Size]byte{}, fmt.Errorf("%q is no SHA-256", m.SHA256)
	}
	return [sha256.Size]byte(sum), nil
}

// DeleteModuleVersion removes one version of a pushed module. Its number is not
// given again. The only version is removed as DeleteModule does. Errors:
// KindNotFound (module_not_found, version_not_found), KindConflict
// (version_active, module_in_use, module_read_only).
func (s *Server) DeleteModuleVersion(ctx context.Context, name string, version int) error {
	if version < 1 {
		return graphmill.Invalid("version", "%d is no version; the first is 1", version)
	}
	readOnly, err := s.readyModule(ctx, name)
	if err != nil {
		return err
	}
	removed, err := s.catalog.DeleteModuleVersion(ctx, name, version, readOnly)
	if isNotFound(err, "module_not_found") {
		return s.notPushed(ctx, name, "cannot be removed here")
	}
	if err == nil {
		s.log.Info("module version removed", "module", name, "version", version)
		s.moduleChanged(name) // it may have been the only one
		s.forgetCompiled(ctx, removed)
	}
	return err
}

// readyModule returns the module of the name that lies beside the program; nil
// where there is none that can be used.
func (s *Server) readyModule(ctx context.Context, name string) (*graphmill.Module, error) {
	pl, err := s.plugins.get(ctx, name)
	switch {
	case notCompiled(err) != nil:
		return nil, nil
	case err != nil || pl == nil:
		return nil, err
	}
	return &pl.module, nil
}

// notPushed tells why nothing can be done to a module that nobody has pushed.
func (s *Server) notPushed(ctx context.Context, name, what string) error {
	pl, err := s.plugins.get(ctx, name)
	switch {
	case err != nil:
		return err
	case pl == nil:
		return s.noSuchModule(ctx, name)
	}
	return graphmill.Conflict("module_read_only", "module %q lies beside the program (%s) and %s", name, pl.path, what)
}

func isNotFound(err error, code string) bool {
	var e *graphmill.Error
	return errors.As(err, &e) && e.Kind == graphmill.KindNotFound && e.Code == code
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
// from the cache, and makes sure that it exports the function. Streams that use
// the same bytes share them compiled. The caller closes it. Errors are of
// KindNotFound where module or function are absent, of KindConflict where the
// bytes are lost or damaged, of KindUnavailable where it could not be compiled this
// time (see notCompiled).
func (s *Server) loadTransformation(ctx context.Context, ref graphmill.TransformationRef) (*transformation, error) {
	for {
		m, err := s.activeModule(ctx, ref.Module)
		if err != nil {
			return nil, err
		}
		if err := checkFunction(m, ref); err != nil {
			return nil, err
		}
		wasm, err := s.loadModule(ctx, m)
		if err == nil {
			return &transformation{ref: ref, module: m, wasm: wasm}, nil
		}
		// It may have been replaced since we looked, and its file be gone.
		now, gone := s.activeModule(ctx, ref.Module)
		switch {
		case gone != nil:
			return nil, gone
		case sameVersion(now, m):
			return nil, err
		}
	}
}

func (s *Server) loadModule(ctx context.Context, m graphmill.Module) (*wasmhost.Module, error) {
	sum, err := sumOf(m)
	if err != nil {
		return nil, fmt.Errorf("load version %d of module %q: %w", m.Version, m.Name, err)
	}
	wasm, err := s.host.LoadStored(ctx, sum, func(ctx context.Context) ([]byte, error) { return s.moduleBytes(ctx, m) })
	var known *graphmill.Error
	if err == nil || errors.As(err, &known) && known.Kind == graphmill.KindConflict {
		return wasm, err
	}
	return nil, fmt.Errorf("load version %d of module %q: %w", m.Version, m.Name, err)
}

// notCompiled returns the fault of a module that could not be compiled for a reason
// that is not in it and may pass; nil for other errors, and none.
func notCompiled(err error) *graphmill.Fault {
	var e *graphmill.Error
	if !errors.As(err, &e) || e.Code != wasmhost.CodeNotCompiled {
		return nil
	}
	return &graphmill.Fault{Class: graphmill.FaultTransient, Code: e.Code, Text: err.Error(), Outage: true, Message: graphmill.WholeBatch}
}

// sameVersion says whether both are one upload: numbers and bytes come again
// where a module is removed and pushed anew. That takes two writes to the disk, so
// the times of two uploads differ by more than a microsecond.
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
			Next: pushAgain(m.Name)}
	}
	return bytes, err
}

func pushAgain(module string) string {
	return fmt.Sprintf("push the same file again: graphmill module push %s FILE", module)
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
