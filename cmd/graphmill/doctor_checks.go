package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server/graph"
)

// Bounds beyond which the doctor warns.
const (
	lowSpace   = 1 << 30         // bytes on the disk of the data directory
	muchSkew   = 5 * time.Second // between the clocks
	manyShown  = 20              // streams with trouble
	groupOther = 0o077           // permissions of others

	catalogFile = "catalog.db" // of a data directory
)

// readSettings loads the settings as serve does, and tells what serve would
// refuse. The other checks go on with what could be read.
func (d *doctor) readSettings(cmd *cobra.Command) []finding {
	var findings []finding
	note := func(f finding) {
		f.Check = "settings"
		findings = append(findings, f)
	}
	config := d.settings.config
	if config == "" {
		config = d.app.getenv(configVar)
	}
	warnings, err := loadSettings(cmd.Flags(), settingNames(), config, d.app.environ)
	for _, w := range warnings {
		note(warn("", "%s", w))
	}
	for _, err := range []error{err, d.settings.check(), d.settings.checkExposed()} {
		if err != nil {
			note(failed(err))
		}
	}
	if len(findings) == 0 {
		note(ok("they can be read, and a server would take them"))
	}
	return findings
}

// dataDir looks at the folder that the server owns.
func (d *doctor) dataDir() []finding {
	dir, err := filepath.Abs(d.settings.dataDir)
	if err != nil {
		return []finding{failed(err)}
	}
	const chooseOther = "choose another folder with --data-dir"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent, err := existingParent(dir)
		if err == nil {
			if err = tryFolder(parent); err != nil {
				err = fmt.Errorf("nothing can be made in %s (%w)", parent, rootCause(err))
			}
		}
		if err != nil {
			return []finding{fail(chooseOther, "%s is not there, and cannot be made: %s", dir, err)}
		}
		return append([]finding{ok("%s is not there yet; a server makes it", dir)}, space(parent)...)
	case err != nil:
		return []finding{fail(chooseOther, "%s: %s", dir, rootCause(err))}
	case !info.IsDir():
		return []finding{fail(chooseOther, "%s is no folder", dir)}
	}
	owner, mine := ownedByUs(info)
	var findings []finding
	if err := tryFolder(dir); err != nil {
		next := chooseOther
		if !mine {
			next = fmt.Sprintf("run the server as %s, or %s", owner, chooseOther)
		}
		findings = append(findings, fail(next, "%s cannot be written: %s", dir, rootCause(err)))
	} else if !mine {
		findings = append(findings, warn(fmt.Sprintf("run the server as %s, %s, or make it yours: chown -R %s %s", owner, chooseOther, ourName(), dir),
			"%s belongs to the user %s, not to the one who asks", dir, owner))
	}
	findings = append(findings, modeFindings(dir, info, mine)...)
	inUse, err := isLocked(filepath.Join(dir, catalogFile))
	switch {
	case err != nil:
		findings = append(findings, fail("", "the catalog in %s cannot be read: %s", dir, rootCause(err)))
	case inUse:
		findings = append(findings, ok("%s is in use by a server that runs; another one would need a folder of its own", dir))
	}
	if len(findings) == 0 {
		findings = append(findings, ok("%s can be used", dir))
	}
	return append(findings, space(dir)...)
}

// modeFindings tells of a folder into which others may look. Only one that is
// used for nothing else may be closed to them: /tmp may not.
func modeFindings(dir string, info fs.FileInfo, mine bool) []finding {
	if info.Mode().Perm()&groupOther == 0 {
		return nil
	}
	next := "choose a folder of its own with --data-dir"
	files, err := os.ReadDir(dir)
	own := err == nil && (len(files) == 0 || slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() == catalogFile }))
	if mine && own {
		next = "chmod 700 " + dir
	}
	return []finding{warn(next, "others on this machine may look into %s (mode %#o)", dir, info.Mode().Perm())}
}

// tryFolder tells why nothing can be made in a folder, by making a folder in it
// and removing it: what the permissions say is not all, with file systems that
// are read-only, full, remote, or the kernel's own.
func tryFolder(dir string) error {
	made, err := os.MkdirTemp(dir, ".graphmill-doctor-")
	if err != nil {
		return err
	}
	return os.Remove(made)
}

func existingParent(dir string) (string, error) {
	for {
		parent := filepath.Dir(dir)
		info, err := os.Stat(parent)
		switch {
		case err == nil && info.IsDir():
			return parent, nil
		case err == nil:
			return "", fmt.Errorf("%s is no folder", parent)
		case !errors.Is(err, fs.ErrNotExist) || parent == dir:
			return "", err
		}
		dir = parent
	}
}

// space warns where a disk is nearly full: the catalog, compiled modules and the
// ledger are written to it.
func space(dir string) []finding {
	free, err := freeSpace(dir)
	switch {
	case err != nil:
		return []finding{warn("", "how much room there is cannot be told: %s", rootCause(err))}
	case free < lowSpace:
		return []finding{warn("make room on the disk of "+dir, "only %s are free", sizeText(free))}
	}
	return []finding{ok("%s are free", sizeText(free))}
}

// secretFiles reads the files that hold secrets, and tells nothing of what is in
// them.
func (d *doctor) secretFiles() []finding {
	s := d.settings
	var findings []finding
	for _, f := range []struct {
		flag, path string
		read       func(string) error
	}{
		{"graph-password-file", s.graph.passwordFile, func(path string) error { _, err := passwordFrom(path); return err }},
		{"token-file", s.tokenFile, func(path string) error { _, err := api.FirstToken(path); return err }},
		{"secret-key-file", s.keyFile(), func(path string) error { _, err := os.Stat(path); return err }},
		{"secrets-dir", s.secretsDir, func(path string) error { _, err := os.ReadDir(path); return err }},
	} {
		if f.path == "" {
			continue
		}
		if err := f.read(f.path); err != nil {
			findings = append(findings, failed(fmt.Errorf("--%s: %w", f.flag, err)))
			continue
		}
		if who, next := s.readers(f.path); who != "" {
			findings = append(findings, warn(next, "%s can read --%s %s", who, f.flag, f.path))
			continue
		}
		findings = append(findings, ok("--%s can be read", f.flag))
	}
	if len(findings) == 0 {
		findings = append(findings, ok("none are named"))
	}
	return findings
}

// plugins looks for the ready modules.
func (d *doctor) plugins() []finding {
	dir := pluginsDir(d.settings.pluginsDir)
	files, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.settings.pluginsDir == "":
		return []finding{warn("put the folder plugins of the release beside the program, or name it with --plugins-dir", "there are no ready modules in %s", dir)}
	case err != nil:
		return []finding{fail("look at --plugins-dir", "%s: %s", dir, rootCause(err))}
	}
	var names []string
	for _, f := range files {
		if name, isModule := strings.CutSuffix(f.Name(), ".wasm"); isModule {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []finding{warn("look at --plugins-dir", "there are no ready modules in %s", dir)}
	}
	return []finding{ok("%s in %s", strings.Join(names, ", "), dir)}
}

// sink looks at where the statements go.
func (d *doctor) sink(ctx context.Context) []finding {
	g := &d.settings.graph
	if g.uri == "" {
		return []finding{fail("name a database (--graph-uri bolt://HOST:PORT) or a file (--graph-uri ledger:FILE); only graphmill dev needs neither", "--graph-uri is needed: where do the statements go?")}
	}
	if g.isLedger() {
		return []finding{ledgerFinding(strings.TrimPrefix(g.uri, ledgerScheme))}
	}
	sink, name, err := g.open(slog.New(slog.DiscardHandler))
	if err != nil {
		return []finding{failed(err)}
	}
	defer func() { _ = sink.Close(context.WithoutCancel(ctx)) }() // nothing is under way
	database, isDatabase := sink.(*graph.Sink)
	if !isDatabase {
		return []finding{ok("%s", name)}
	}
	const see = "see whether the database runs and can be reached from here"
	facts, err := database.Diagnose(ctx, "")
	var fault *graphmill.Fault
	switch {
	case ctx.Err() != nil:
		return []finding{silentFinding(name, connects(ctx, g.address()))}
	case errors.As(err, &fault) && fault.Outage:
		return []finding{fail(see, "%s", faultText(fault))}
	case err != nil:
		return []finding{failed(err)}
	}
	return databaseFindings(name, facts)
}

func databaseFindings(name string, f graph.Facts) []finding {
	about := []string{f.Server}
	for _, s := range []string{f.Edition, f.Database, f.Status, f.Access} {
		if s != "" {
			about = append(about, s)
		}
	}
	findings := []finding{ok("%s lets us in (%s; %s a question)", name, strings.Join(about, ", "), f.Latency.Round(100*time.Microsecond))}
	if f.Access == "read-only" {
		findings = append(findings, fail("ALTER DATABASE "+f.Database+" SET ACCESS READ WRITE", "the database %s is read-only", f.Database))
	}
	if f.Status != "" && f.Status != "online" {
		findings = append(findings, fail("", "the database %s is %s", f.Database, f.Status))
	}
	if f.Skew.Abs() > muchSkew+f.Latency {
		findings = append(findings, warn("set the clocks of both machines, with NTP", "the clock of the database is %s off ours", f.Skew.Round(time.Second)))
	}
	if slices.Contains(f.Roles, "admin") {
		findings = append(findings, warn("make a user that may read and write data only; docs/database.md tells how", "the user %s has the role admin: whatever a transformation returns could do more than it should", f.User))
	}
	return findings
}

// ledgerFinding looks at the file of the ledger. It is not opened for writing:
// that would make it.
func ledgerFinding(file string) finding {
	if file == "" {
		return fail("", "--graph-uri ledger: needs a file, as ledger:statements.jsonl")
	}
	info, err := os.Stat(file)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fail("name another file", "the ledger %s is no file", file)
	case err == nil:
		if err := mayWrite(file); err != nil {
			return fail("let the server's user own it", "the ledger %s cannot be written: %s", file, rootCause(err))
		}
		return ok("the ledger %s, %s", file, sizeText(info.Size()))
	case !errors.Is(err, fs.ErrNotExist):
		return fail("", "the ledger %s: %s", file, rootCause(err))
	}
	dir := filepath.Dir(file)
	if err := tryFolder(dir); err != nil {
		return fail("make the folder, or name another file", "the ledger %s is not there, and cannot be made: %s", file, rootCause(err))
	}
	return ok("the ledger %s is not there yet; a server makes it", file)
}
