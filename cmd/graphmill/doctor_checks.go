package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/graphmill/graphmill/sources/kafka"
)

// Bounds beyond which the doctor warns.
const (
	lowSpace   = 1 << 30         // bytes on the disk of the data directory
	muchSkew   = 5 * time.Second // between the clocks
	manyShown  = 20              // streams with trouble
	groupOther = 0o077           // permissions of others
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
			err = mayWrite(parent)
		}
		if err != nil {
			return []finding{fail(chooseOther, "%s is not there, and cannot be made: %s", dir, rootCause(err))}
		}
		return append([]finding{ok("%s is not there yet; a server makes it", dir)}, space(parent)...)
	case err != nil:
		return []finding{fail(chooseOther, "%s: %s", dir, rootCause(err))}
	case !info.IsDir():
		return []finding{fail(chooseOther, "%s is no folder", dir)}
	}
	var findings []finding
	if err := mayWrite(dir); err != nil {
		findings = append(findings, fail("let the server's user own it, or run as the user who does", "%s cannot be written: %s", dir, rootCause(err)))
	}
	if owner, mine := ownedByUs(info); !mine {
		findings = append(findings, warn("chown it to the user that runs the server", "%s belongs to the user %s, not to the one who asks", dir, owner))
	}
	if info.Mode().Perm()&groupOther != 0 {
		findings = append(findings, warn("chmod 700 "+dir, "others on this machine may look into %s (mode %#o)", dir, info.Mode().Perm()))
	}
	inUse, err := isLocked(filepath.Join(dir, "catalog.db"))
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
		{"secret-key-file", s.secretKeyFile, func(path string) error { _, err := os.Stat(path); return err }},
		{"secrets-dir", s.secretsDir, func(path string) error { _, err := os.ReadDir(path); return err }},
	} {
		if f.path == "" {
			continue
		}
		if err := f.read(f.path); err != nil {
			findings = append(findings, failed(fmt.Errorf("--%s: %w", f.flag, err)))
			continue
		}
		if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o004 != 0 {
			findings = append(findings, warn("chmod o-rwx "+f.path, "everybody on this machine can read --%s %s", f.flag, f.path))
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

// brokers asks each address by itself, and the addresses that they give out for
// the cluster: a client that gets in by one has to reach all of them.
func (d *doctor) brokers(ctx context.Context) []finding {
	// What is no address has been told among the settings. It may hold a
	// password, and is not repeated.
	asked := slices.DeleteFunc(slices.Clone(d.settings.kafkaServers), func(address string) bool {
		return graphmill.ValidateBroker("kafka_bootstrap_servers", address) != nil
	})
	facts := diagnoseAll(ctx, asked)
	var others []string
	for _, f := range facts {
		for _, a := range f.Advertised {
			if !slices.Contains(asked, a) && !slices.Contains(others, a) {
				others = append(others, a)
			}
		}
	}
	var findings []finding
	for _, f := range facts {
		findings = append(findings, brokerFinding(f))
	}
	for _, f := range diagnoseAll(ctx, others) {
		if f.Fault != nil {
			findings = append(findings, fail("set the broker's advertised listener to an address that can be reached from here",
				"%s, which the brokers give out as an address of theirs: %s", f.Address, faultText(f.Fault)))
			continue
		}
		findings = append(findings, brokerFinding(f))
	}
	return findings
}

// diagnoseAll asks addresses at once, and returns in their order.
func diagnoseAll(ctx context.Context, addresses []string) []kafka.BrokerFacts {
	answers := make([]chan kafka.BrokerFacts, len(addresses))
	for i, address := range addresses {
		answers[i] = make(chan kafka.BrokerFacts, 1)
		go func() { answers[i] <- kafka.Diagnose(ctx, address) }()
	}
	facts := make([]kafka.BrokerFacts, len(addresses))
	for i := range answers {
		facts[i] = <-answers[i]
	}
	return facts
}

func brokerFinding(f kafka.BrokerFacts) finding {
	switch {
	case f.Fault != nil:
		return fail(f.Fault.Next, "%s: %s", f.Address, faultText(f.Fault))
	case f.TLS:
		return warn("streams need the config security.protocol ssl or sasl_ssl", "%s wants TLS; more cannot be asked without a stream's settings", f.Address)
	case f.Login:
		return warn("streams need the configs security.protocol, sasl.mechanism and sasl.username, and the credential sasl.password",
			"%s wants a login; more cannot be asked without a stream's settings", f.Address)
	case !f.TopicIDs:
		return warn("", "%s answers (protocol of Kafka %s); it has no topic ids, so a topic that is deleted and made anew is noticed only where its offsets are out of range", f.Address, f.Version)
	}
	return ok("%s answers (protocol of Kafka %s); brokers of the cluster: %s", f.Address, f.Version, strings.Join(f.Advertised, ", "))
}

// sink looks at where the statements go.
func (d *doctor) sink(ctx context.Context) []finding {
	g := &d.settings.graph
	if g.uri == "" {
		return []finding{fail("name a database (--graph-uri bolt://HOST:PORT) or a file (--graph-uri ledger:FILE)", "--graph-uri is needed: where do the statements go?")}
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
		return []finding{fail(see, "%s does not answer within %s", name, checkLimit)}
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
	if err := mayWrite(dir); err != nil {
		return fail("make the folder, or name another file", "the ledger %s is not there, and cannot be made: %s", file, rootCause(err))
	}
	return ok("the ledger %s is not there yet; a server makes it", file)
}

// runningServer asks the server that runs, if one does, for its streams.
func (d *doctor) runningServer(ctx context.Context) []finding {
	c := &client{
		server: d.server, tokenFile: d.settings.tokenFile, readTimeout: checkLimit,
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	named := c.server != ""
	if !named {
		c.server = d.settings.listen
	}
	var list api.Streams
	err := c.call(ctx, http.MethodGet, apiPath("streams"), nil, &list)
	switch {
	case err == nil:
		return streamFindings(c.server, list.Streams)
	case graphmill.KindOf(err) == graphmill.KindUnavailable && !named && asProblem(err) == nil:
		return []finding{ok("none runs at %s", c.server)}
	case ctx.Err() != nil:
		return []finding{fail("see whether it is overloaded", "the server at %s does not answer within %s", c.server, checkLimit)}
	}
	return []finding{failed(err)}
}

func streamFindings(server string, streams []api.Stream) []finding {
	counts := map[graphmill.State]int{}
	var trouble []finding
	for _, s := range streams {
		counts[s.State]++
		r := s.Reason
		if r == nil {
			continue
		}
		f := warn(r.NextStep, "stream %s is %s, %s: %s", s.Name, s.State, r.Code, r.Text)
		if s.State == graphmill.StateFailed {
			f.Result = isFail
		}
		trouble = append(trouble, f)
	}
	states := make([]string, 0, len(counts))
	for state, n := range counts {
		states = append(states, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(states)
	text := "no streams"
	if len(streams) > 0 {
		text = count(len(streams), "stream", "streams") + ": " + strings.Join(states, ", ")
	}
	findings := []finding{ok("the server at %s answers; %s", server, text)}
	if len(trouble) > manyShown {
		more := len(trouble) - manyShown
		trouble = append(trouble[:manyShown], warn("graphmill stream list shows all", "%s more with trouble", count(more, "stream", "streams")))
	}
	return append(findings, trouble...)
}
