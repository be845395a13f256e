package server

import (
	"context"

	"github.com/graphmill/graphmill"
)

// ModuleContent returns a version of a module and its bytes; version 0 is the
// active one. Errors: KindNotFound; KindConflict where the bytes are lost or
// damaged.
func (s *Server) ModuleContent(ctx context.Context, name string, version int) (graphmill.Module, []byte, error) {
	m, err := s.moduleVersion(ctx, name, version)
	if err != nil {
		return m, nil, err
	}
	content, err := s.moduleBytes(ctx, m)
	return m, content, err
}

func (s *Server) moduleVersion(ctx context.Context, name string, version int) (graphmill.Module, error) {
	if version == 0 {
		return s.activeModule(ctx, name)
	}
	versions, err := s.ModuleVersions(ctx, name)
	if err != nil {
		return graphmill.Module{}, err
	}
	for _, m := range versions {
		if m.Version == version {
			return m, nil
		}
	}
	return graphmill.Module{}, graphmill.NotFound("version_not_found", "module %q has no version %d", name, version)
}

// RecheckModules reads the bytes of the active version of a module again and loads
// it as a start of a stream would; of all modules where name is empty. It changes
// nothing: streams take a new version when it is pushed.
//
// Errors are those of the first module that cannot be used: KindNotFound;
// KindConflict where the bytes are lost or damaged, or cannot be loaded.
func (s *Server) RecheckModules(ctx context.Context, name string) error {
	if name != "" {
		m, err := s.activeModule(ctx, name)
		if err != nil {
			return err
		}
		return s.recheck(ctx, m)
	}
	modules, err := s.Modules(ctx)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := s.recheck(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) recheck(ctx context.Context, m graphmill.Module) error {
	if _, err := s.moduleBytes(ctx, m); err != nil { // also where it is compiled already
		return err
	}
	wasm, err := s.loadModule(ctx, m)
	if err != nil {
		return err
	}
	return wasm.Close(ctx)
}
