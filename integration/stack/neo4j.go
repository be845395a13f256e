package stack

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"

	"github.com/graphmill/graphmill/integration/ports"
)

// Neo4jConfig says how to start a database. The zero value will do for a test.
type Neo4jConfig struct {
	// Dir is the database's own directory: new, empty, or one where an earlier
	// database was, whose data, port and password are taken over. Empty: a
	// temporary directory, which Close removes.
	Dir string
	// Log gets lines about what takes time; nil: none.
	Log io.Writer
	// ReadyTimeout is how long to wait for the database; 0: 3 minutes.
	ReadyTimeout time.Duration
	// Settings are settings of neo4j.conf; they win over ours. The database
	// refuses to start with one it does not know.
	Settings map[string]string
	// TLS makes Bolt speak TLS only, with a certificate that CAFile's authority
	// has signed for localhost. URI then has the scheme bolt+ssc.
	TLS bool
	// Detached lets the database outlive this program (see Down). It needs a Dir.
	Detached bool
}

// Neo4j is a Neo4j Community server with Bolt as its only door, on loopback,
// with a password of its own.
type Neo4j struct {
	*Server
	password string
	tls      bool
}

const (
	portBolt          = "bolt"
	neo4jConfFile     = "neo4j.conf"
	neo4jPasswordFile = "password"
)

// StartNeo4j starts a database and returns once it takes the password. ctx
// bounds the start only. The error is a *MissingError where Java or Maven is
// missing; where the database does not come up it holds the end of its log.
func StartNeo4j(ctx context.Context, cfg Neo4jConfig) (*Neo4j, error) {
	s, err := newServer(ctx, nameNeo4j, options{
		dir: cfg.Dir, log: cfg.Log, readyTimeout: cfg.ReadyTimeout, detached: cfg.Detached,
		jvmArgs: []string{"-Xms256m", "-Xmx1g", "-XX:+UseG1GC",
			"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"},
	}, portBolt)
	if err != nil {
		return nil, err
	}
	n := &Neo4j{Server: s, tls: cfg.TLS}
	if n.password, err = s.keepSecret(neo4jPasswordFile, rand.Text()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.configure = func(s *Server) error {
		settings := maps.Clone(cfg.Settings)
		if n.tls {
			var err error
			if settings, err = n.withTLS(settings); err != nil {
				return err
			}
		}
		return n.writeConf(settings)
	}
	s.prepare = func(context.Context, *Server) error { return os.RemoveAll(s.path(dataDir)) }
	s.ready = "READY"
	s.answers = n.ping
	s.address = n.URI
	if err := s.firstStart(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// URI returns the address of the database, with the scheme bolt or, where it
// speaks TLS, bolt+ssc.
func (n *Neo4j) URI() string {
	scheme := "bolt://"
	if n.tls {
		scheme = "bolt+ssc://"
	}
	return scheme + ports.Loopback(n.state.Ports[portBolt])
}

// CAFile returns the path of the authority's certificate, where the database
// speaks TLS.
func (n *Neo4j) CAFile() string { return n.path(caFile) }

// User returns the name of the one user.
func (n *Neo4j) User() string { return "neo4j" }

// Password returns the user's password: random, made at the first start.
func (n *Neo4j) Password() string { return n.password }

// PasswordFile returns the path of a file that holds the password.
func (n *Neo4j) PasswordFile() string { return n.path(neo4jPasswordFile) }

// Env returns what a shell or another program needs to use the database. It
// holds the settings of Graphmill's own program too.
func (n *Neo4j) Env() []EnvVar {
	return []EnvVar{
		{"NEO4J_URI", n.URI()},
		{"NEO4J_USER", n.User()},
		{"NEO4J_PASSWORD", n.Password()},
		{"NEO4J_LOG_FILE", n.LogFile()},
		{"GRAPHMILL_GRAPH_URI", n.URI()},
		{"GRAPHMILL_GRAPH_USER", n.User()},
		{"GRAPHMILL_GRAPH_PASSWORD_FILE", n.PasswordFile()},
	}
}

func (n *Neo4j) ping(ctx context.Context) error {
	driver, err := neo4j.NewDriverWithContext(n.URI(), neo4j.BasicAuth(n.User(), n.password, ""))
	if err != nil {
		return err
	}
	return errors.Join(driver.VerifyConnectivity(ctx), driver.Close(ctx))
}

// withTLS makes a certificate and adds the settings for it. Neo4j wants key and
// certificate in files of their own.
func (n *Neo4j) withTLS(settings map[string]string) (map[string]string, error) {
	const keyFile, certFile = "bolt.key", "bolt.crt"
	a, err := newAuthority("graphmill test authority", time.Now())
	if err != nil {
		return nil, err
	}
	both, err := a.issue(func(c *x509.Certificate) {
		c.Subject.CommonName = "localhost"
		c.DNSNames = []string{"localhost"}
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	if err != nil {
		return nil, err
	}
	key, certificates := pem.Decode(both)
	for name, content := range map[string][]byte{caFile: a.pem, keyFile: pem.EncodeToMemory(key), certFile: certificates} {
		if err := os.WriteFile(n.path(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	all := map[string]string{
		"server.bolt.tls_level":                   "REQUIRED",
		"dbms.ssl.policy.bolt.enabled":            "true",
		"dbms.ssl.policy.bolt.base_directory":     n.path("."),
		"dbms.ssl.policy.bolt.private_key":        keyFile,
		"dbms.ssl.policy.bolt.public_certificate": certFile,
		"dbms.ssl.policy.bolt.client_auth":        "NONE",
	}
	maps.Copy(all, settings)
	return all, nil
}

func (n *Neo4j) writeConf(settings map[string]string) error {
	address := ports.Loopback(n.state.Ports[portBolt])
	all := map[string]string{
		"server.bolt.enabled":            "true",
		"server.bolt.listen_address":     address,
		"server.bolt.advertised_address": address,
		"dbms.security.auth_enabled":     "true",
		"server.memory.pagecache.size":   "64m",
		// By default half a gigabyte is set aside for logs before the first write.
		"db.tx_log.preallocate": "false",
		// Bolt stops twice as long as its quiet period of 5 s, with nobody connected.
		"internal.dbms.bolt.netty_server_shutdown_quiet_period": "0",
		// Nothing is sent home from a test.
		"dbms.usage_report.enabled": "false",
	}
	maps.Copy(all, settings)
	lines, err := propertyLines(all)
	if err != nil {
		return err
	}
	return writeFileAtomic(n.path(neo4jConfFile), []byte(lines), 0o600)
}
