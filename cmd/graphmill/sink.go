package main

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/graphmill/graphmill/server/ledger"
)

const ledgerScheme = "ledger:"

// minTransactionTimeout keeps a duration without its unit, or with a wrong one,
// from failing every batch.
const minTransactionTimeout = time.Second

// graphSettings say where statements go.
type graphSettings struct {
	uri          string
	user         string
	passwordFile string
	database     string
	connections  int
	timeout      time.Duration // of a transaction
}

func (g *graphSettings) add(fs *pflag.FlagSet) {
	fs.StringVar(&g.uri, "graph-uri", "", "the database (bolt://HOST:PORT, neo4j://, with +s or +ssc for TLS), or ledger:FILE")
	fs.StringVar(&g.user, "graph-user", "", "user of the database")
	fs.StringVar(&g.passwordFile, "graph-password-file", "", "file that holds the password of the user")
	fs.IntVar(&g.connections, "graph-max-connections", graph.DefaultMaxConnections, "connections to the database at most; each lane needs one")
	fs.DurationVar(&g.timeout, "transaction-timeout", graph.DefaultTransactionTimeout, "how long the database may work on a batch; one that takes longer is cut in two")
	fs.StringVar(&g.database, "graph-database", "", "database of streams that name none (default the server's own)")
}

func (g *graphSettings) isLedger() bool { return strings.HasPrefix(g.uri, ledgerScheme) }

// open makes the sink, and a name of it for people.
func (g *graphSettings) open(log *slog.Logger) (graphmill.Sink, string, error) {
	if file, ok := strings.CutPrefix(g.uri, ledgerScheme); ok {
		if file == "" {
			return nil, "", wrongUsage("--graph-uri ledger: needs a file, as ledger:statements.jsonl")
		}
		sink, err := ledger.Open(file, log)
		if err != nil {
			return nil, "", err
		}
		return sink, "the ledger " + file, nil
	}
	if g.connections < 1 {
		return nil, "", wrongUsage("--graph-max-connections: %d is below 1", g.connections)
	}
	if g.timeout < minTransactionTimeout {
		return nil, "", wrongUsage("--transaction-timeout: %s is below %s", g.timeout, minTransactionTimeout)
	}
	password := ""
	var again func() (string, error)
	if g.passwordFile != "" {
		again = func() (string, error) { return passwordFrom(g.passwordFile) }
		var err error
		if password, err = again(); err != nil {
			return nil, "", err
		}
	}
	sink, err := graph.Open(graph.Config{
		URI: g.uri, User: g.user, Password: password, ReadPassword: again, Database: g.database, MaxConnections: g.connections, TransactionTimeout: g.timeout,
		Logger: log,
	})
	if err != nil {
		return nil, "", asFlagOf(err)
	}
	return sink, g.describe(), nil
}

// describe names the database without what may be secret in its address.
func (g *graphSettings) describe() string {
	u, err := url.Parse(g.uri)
	if err != nil {
		return "the database"
	}
	name := "the database at " + u.Scheme + "://" + u.Host
	if g.database != "" {
		name += ", " + g.database
	}
	return name
}

// address is the host:port of the database, or "".
func (g *graphSettings) address() string {
	u, err := url.Parse(g.uri)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "7687"))
}

// asFlagOf tells an error of a setting as wrong usage; any other stays.
func asFlagOf(err error) error {
	var e *graphmill.Error
	if errors.As(err, &e) && e.Kind == graphmill.KindInvalid {
		return asFlag(err)
	}
	return err
}

// passwordFrom reads a password of a file, without the newline at its end.
func passwordFrom(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", wrongUsage("--graph-password-file: %s", err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", wrongUsage("--graph-password-file: %s is empty", path)
	}
	return password, nil
}
