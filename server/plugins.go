package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// plugins are the ready modules that lie beside the program. They are read once,
// at start, and never written.
type plugins struct {
	byName map[string]*plugin
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// plugin is one of them.
type plugin struct {
	path    string
	checked chan struct{} // closed when it has been checked once

	mu  sync.Mutex // guards err; without it the rest may be read, and is not changed any more
	err error      // notCompiled's: it is checked again

	module graphmill.Module
	bytes  []byte
}

// openPlugins finds the .wasm files of dir and checks them in the background,
// one after another: a first compilation takes seconds, and nobody else need
// wait for it.
func openPlugins(dir string, host *wasmhost.Host, log *slog.Logger) (*plugins, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &plugins{byName: map[string]*plugin{}, stop: cancel}
	if dir == "" {
		return p, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the folder of ready modules: %w", err)
	}
	var found []*plugin
	for _, e := range entries {
		name, isWasm := strings.CutSuffix(e.Name(), ".wasm")
		if !isWasm {
			continue
		}
		if err := graphmill.ValidateName("name", name); err != nil {
			log.Warn("a file of the plugins folder is left out: its name cannot be a module's", "file", e.Name(), "error", err)
			continue
		}
		pl := &plugin{path: filepath.Join(dir, e.Name()), checked: make(chan struct{})}
		pl.module = graphmill.Module{Name: name, Version: 1, ContentType: ContentTypeWasm, Active: true, ReadOnly: true}
		p.byName[name] = pl
		found = append(found, pl)
	}
	p.done.Go(func() {
		pauses := compilePauses()
		for {
			found = slices.DeleteFunc(found, func(pl *plugin) bool { return pl.check(ctx, host, log) })
			if len(found) == 0 || sleep(ctx, pauses.next()) != nil {
				return
			}
		}
	})
	return p, nil
}

// check finds out whether the module can be used, and says whether that is settled.
func (pl *plugin) check(ctx context.Context, host *wasmhost.Host, log *slog.Logger) (settled bool) {
	err := pl.read(ctx, host)
	settled = notCompiled(err) == nil
	switch {
	case err == nil || ctx.Err() != nil:
	case settled:
		log.Error("a ready module cannot be used", "module", pl.module.Name, "file", pl.path, "error", err)
	default:
		log.Warn("a ready module cannot be used yet; it is checked again", "module", pl.module.Name, "file", pl.path, "error", err)
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.err = err
	if !isClosed(pl.checked) {
		close(pl.checked)
	}
	return settled
}

func (pl *plugin) read(ctx context.Context, host *wasmhost.Host) error {
	info, err := os.Stat(pl.path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case info.Size() > host.Limits().ModuleBytes:
		return fmt.Errorf("it has %d bytes, %d are the most", info.Size(), host.Limits().ModuleBytes)
	}
	if pl.bytes, err = os.ReadFile(pl.path); err != nil {
		return err
	}
	report, err := host.Check(ctx, pl.bytes)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(pl.bytes)
	pl.module.SHA256 = hex.EncodeToString(sum[:])
	pl.module.Size = int64(len(pl.bytes))
	pl.module.Transformations = report.Transformations
	pl.module.CreatedAt = info.ModTime().UTC().Truncate(time.Millisecond)
	return nil
}

// get returns a ready module, waiting for its check. It is nil where there is
// none of the name, or it cannot be used. The error is the context's, or
// notCompiled's.
func (p *plugins) get(ctx context.Context, name string) (*plugin, error) {
	pl := p.byName[name]
	if pl == nil {
		return nil, nil
	}
	select {
	case <-pl.checked:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	switch {
	case notCompiled(pl.err) != nil:
		return nil, fmt.Errorf("module %q, which lies beside the program: %w", name, pl.err)
	case pl.err != nil:
		return nil, nil
	}
	return pl, nil
}

// names returns the names of all ready modules, sorted.
func (p *plugins) names() []string {
	names := make([]string, 0, len(p.byName))
	for name := range p.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// sums returns the hashes of those that have been checked and can be used.
func (p *plugins) sums() map[string]bool {
	sums := map[string]bool{}
	for _, pl := range p.byName {
		if !isClosed(pl.checked) {
			continue
		}
		pl.mu.Lock()
		if pl.err == nil {
			sums[pl.module.SHA256] = true
		}
		pl.mu.Unlock()
	}
	return sums
}

func (p *plugins) close() {
	p.stop()
	p.done.Wait()
}
