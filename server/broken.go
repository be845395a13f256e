package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

// What a stored stream lacks to be run: an entry of the catalog that cannot be
// read is kept aside, and one whose secrets no key opens is loaded and kept from
// running. Both are shown, so that nobody takes them for gone.

// codeLocked is the reason code of a stream whose secrets cannot be opened.
const codeLocked = "secret_key"

// brokenInfo is a stream of which the catalog's entry cannot be read.
func (s *Server) brokenInfo(b catalog.Broken, since time.Time) StreamInfo {
	e := s.entryBroken(b)
	return StreamInfo{
		Spec:      b.Known.Spec,
		CreatedAt: b.Known.CreatedAt,
		Desired:   b.Known.Desired,
		State:     graphmill.StateBroken,
		Reason:    &graphmill.Reason{Code: e.Code, Text: e.Error(), Since: since, NextStep: e.Next},
	}
}

// entryBroken is the answer to commands on such a stream, but for DROP.
func (s *Server) entryBroken(b catalog.Broken) *graphmill.Error {
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: "entry_broken", Err: b.Err,
		Text: fmt.Sprintf("the entry of stream %q in %s cannot be read, and is left as it is", b.Name, filepath.Join(s.cfg.DataDir, "catalog.db")),
		Next: "put the data directory back from a backup, or use the version of graphmill that wrote it; or give the stream up: graphmill stream drop " + b.Name}
}

// brokenStream returns what is known of a stream whose entry cannot be read.
func (s *Server) brokenStream(name string) (StreamInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.broken[name]
	return info, ok
}

func (s *Server) brokenStreams() []StreamInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.broken))
}

// deleteBroken removes an entry of the catalog that could not be read, of which
// there is no stream here.
func (s *Server) deleteBroken(ctx context.Context, name string) error {
	s.defining.Lock()
	defer s.defining.Unlock()
	if _, ok := s.brokenStream(name); !ok {
		_, err := s.stream(name)
		return cmp.Or(err, error(streamNotFound(name))) // made this very moment
	}
	if err := s.catalog.DeleteStream(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, name)
	return nil
}

// lockedReason is why a stream whose secrets cannot be opened does not run.
func lockedReason(name string, locked *catalog.Locked) *graphmill.Reason {
	e := lockedError(name, locked)
	return &graphmill.Reason{Code: e.Code, Text: e.Error(), Since: now(), NextStep: e.Next + "; then: graphmill stream start " + name}
}

// lockedError is the answer to commands that need the secrets.
func lockedError(name string, locked *catalog.Locked) *graphmill.Error {
	next := "to set again what cannot be opened: graphmill stream edit " + name + " " + firstOf(locked.Settings, " ", func(setting string) string {
		field, entry, _ := strings.Cut(setting, ".")
		return fmt.Sprintf("--%s %s=...", strings.TrimSuffix(field, "s"), entry)
	})
	if first := nextOf(locked.Err); first != "" {
		next = first + "; " + next
	}
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: codeLocked, Err: locked.Err, Next: next,
		Text: fmt.Sprintf("%s of stream %q cannot be opened", firstOf(locked.Settings, ", ", func(setting string) string { return setting }), name)}
}

// stillLocked returns those of a stream's locked secrets that another definition
// does not set anew.
func stillLocked(rec catalog.Stream, spec graphmill.StreamSpec) *catalog.Locked {
	if rec.Locked == nil {
		return nil
	}
	left := &catalog.Locked{Err: rec.Locked.Err}
	for _, setting := range rec.Locked.Settings {
		field, name, _ := strings.Cut(setting, ".")
		was, is := rec.Spec.Credentials, spec.Credentials
		if field == "configs" {
			was, is = rec.Spec.Configs, spec.Configs
		}
		if value, ok := is[name]; ok && value == was[name] {
			left.Settings = append(left.Settings, setting)
		}
	}
	if len(left.Settings) == 0 {
		return nil
	}
	return left
}

// shown is a definition without what stands in the place of locked secrets.
func shown(rec catalog.Stream) graphmill.StreamSpec {
	spec := rec.Spec
	if rec.Locked == nil {
		return spec
	}
	spec.Configs = maps.Clone(spec.Configs)
	for name := range spec.Configs {
		if slices.Contains(rec.Locked.Settings, "configs."+name) {
			spec.Configs[name] = graphmill.RedactedValue
		}
	}
	return spec
}

// definition returns the stream's definition with all its secrets. Where they were
// locked it looks whether they can be opened by now. Errors: KindConflict
// (secret_key).
func (st *stream) definition(ctx context.Context) (graphmill.StreamSpec, error) {
	rec := st.record()
	if rec.Locked == nil {
		return rec.Spec, nil
	}
	rec, err := st.loadAgain(ctx)
	if err != nil {
		return graphmill.StreamSpec{}, err
	}
	st.tell()
	if rec.Locked != nil {
		return graphmill.StreamSpec{}, lockedError(rec.Spec.Name, rec.Locked)
	}
	return rec.Spec, nil
}

func (st *stream) loadAgain(ctx context.Context) (catalog.Stream, error) {
	st.storing.Lock()
	defer st.storing.Unlock()
	rec, err := st.srv.catalog.Stream(ctx, st.name())
	if err == nil {
		st.setRecord(rec)
	}
	return rec, err
}
