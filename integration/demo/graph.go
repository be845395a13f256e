package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/graphmill/graphmill/integration/stack"
)

const ledgerScheme = "ledger:"

// graph is where the statements go: a database, or a file.
type graph struct {
	uri          string
	user         string
	passwordFile string
	database     string
	own          bool // started by this run, so empty at first
}

func (g graph) isLedger() bool { return strings.HasPrefix(g.uri, ledgerScheme) }

func (g graph) ledgerFile() string { return strings.TrimPrefix(g.uri, ledgerScheme) }

func (g graph) name() string {
	if g.isLedger() {
		return "the ledger"
	}
	return "the database"
}

// flags are those of "graphmill serve".
func (g graph) flags() []string {
	flags := []string{"--graph-uri", g.uri}
	for _, f := range []struct{ name, value string }{
		{"--graph-user", g.user}, {"--graph-password-file", g.passwordFile}, {"--graph-database", g.database},
	} {
		if f.value != "" {
			flags = append(flags, f.name, f.value)
		}
	}
	return flags
}

// startGraph takes the database of GRAPHMILL_GRAPH_URI; else the first that can be
// started of: Neo4j in Docker, Neo4j by Java and Maven; else the ledger. The
// reasons against those before are said.
func (d *demo) startGraph(ctx context.Context) error {
	if uri := os.Getenv("GRAPHMILL_GRAPH_URI"); uri != "" {
		return d.useGraph(uri)
	}
	for _, way := range []struct {
		name  string
		start func(context.Context) error
	}{
		{"Neo4j in Docker", d.startNeo4jInDocker},
		{"Neo4j by Java and Maven", d.startNeo4jByJava},
	} {
		err := way.start(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.say("  not %s: %v", way.name, err)
	}
	d.graph = graph{uri: ledgerScheme + filepath.Join(d.dir, "ledger.jsonl"), own: true}
	d.say("  so there is no database: statements are recorded in %s, and executed nowhere", d.graph.ledgerFile())
	d.say("  (to use one that you have: GRAPHMILL_GRAPH_URI, GRAPHMILL_GRAPH_USER, GRAPHMILL_GRAPH_PASSWORD_FILE)")
	return nil
}

// useGraph takes the user's own database. Whether it answers is found out now,
// and not by a stream that waits for it.
func (d *demo) useGraph(uri string) error {
	d.graph = graph{
		uri: uri, user: os.Getenv("GRAPHMILL_GRAPH_USER"),
		passwordFile: os.Getenv("GRAPHMILL_GRAPH_PASSWORD_FILE"), database: os.Getenv("GRAPHMILL_GRAPH_DATABASE"),
	}
	if d.graph.isLedger() {
		file, err := filepath.Abs(d.graph.ledgerFile())
		if err != nil {
			return err
		}
		d.graph.uri = ledgerScheme + file
		d.say("  the file %s, as GRAPHMILL_GRAPH_URI says: statements are recorded there and executed nowhere", file)
		return nil
	}
	if d.graph.passwordFile != "" {
		// The server runs in another directory.
		file, err := filepath.Abs(d.graph.passwordFile)
		if err != nil {
			return err
		}
		d.graph.passwordFile = file
	}
	d.say("  yours, since GRAPHMILL_GRAPH_URI is set; the demo adds users, movies and ratings to it and removes nothing")
	d.say("  (with constraints on User.id and Movie.id it goes much faster; the demo does not touch your schema)")
	return nil
}

func (d *demo) startNeo4jByJava(ctx context.Context) error {
	if err := stack.Check(ctx); err != nil {
		return err
	}
	n, err := stack.StartNeo4j(ctx, stack.Neo4jConfig{Dir: filepath.Join(d.dir, "neo4j"), Log: d.out})
	if err != nil {
		return err
	}
	d.onEnd(n.Close)
	d.graph = graph{uri: n.URI(), user: n.User(), passwordFile: n.PasswordFile(), own: true}
	d.say("  a real Neo4j, from Maven artifacts, at %s", n.URI())
	return nil
}

// writePassword keeps a password where the server reads it.
func (d *demo) writePassword(password string) (file string, err error) {
	file = filepath.Join(d.dir, "graph-password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the password of the database: %w", err)
	}
	return file, nil
}
