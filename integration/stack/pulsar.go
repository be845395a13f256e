package stack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"text/template"
	"time"

	"github.com/graphmill/graphmill/integration/ports"
)

// PulsarConfig says how to start a broker. The zero value will do for a test.
type PulsarConfig struct {
	// Dir is the broker's own directory: new, empty, or one where an earlier
	// broker was, whose data, ports and key of tokens are taken over. Empty: a
	// temporary directory, which Close removes.
	Dir string
	// Log gets lines about what takes time; nil: none.
	Log io.Writer
	// ReadyTimeout is how long to wait for the broker; 0: 3 minutes.
	ReadyTimeout time.Duration
	// Settings are further lines of standalone.conf; they win over ours.
	Settings map[string]string
	// Token makes the broker ask who a client is and what that role may do: see
	// Pulsar.Token and Pulsar.Grant. The role PulsarSuperuser may do everything.
	// Together with TLS, a client may show the certificate in ClientFile instead:
	// its role is PulsarClientRole.
	Token bool
	// TLS adds TLSServiceURL and TLSAdminURL to the addresses without TLS.
	TLS bool
	// BatchIndexAck makes the broker remember which messages of an entry are
	// acknowledged (acknowledgmentAtBatchIndexLevelEnabled). Without it, as Pulsar
	// comes, an entry is acknowledged when all its messages are. A client has to
	// ask for it too.
	BatchIndexAck bool
	// FailoverDelay is how long a new active consumer of a Failover subscription
	// waits for its first message (activeConsumerFailoverDelayTimeMillis, whole
	// milliseconds). Pulsar's own default is 1 s; here it is 0.
	FailoverDelay time.Duration
	// Detached lets the broker outlive this program (see Down). It needs a Dir.
	Detached bool
}

// Roles of a broker that asks for tokens.
const (
	PulsarSuperuser  = "admin"
	PulsarClientRole = clientName // of who shows the certificate in ClientFile
)

// Pulsar is a standalone Pulsar: broker, bookie and metadata in one JVM, on
// loopback, of the cluster "standalone", with the namespace public/default.
// Topics that are asked for are made, without partitions, and never deleted by
// themselves. Its data outlives Kill, but for acknowledgements of the last second
// or so: the broker writes positions down now and then, as Pulsar does, and
// delivers what lies behind the last of them again.
type Pulsar struct {
	*Server
	token, tls bool
	tokenKey   string
}

// Ports of a broker, by the names that standalone.conf.tmpl uses. All are chosen
// at the first start, since a later one may have other settings.
const (
	portBroker    = "broker"
	portWeb       = "web"
	portBrokerTLS = "brokertls"
	portWebTLS    = "webtls"
	portBookie    = "bookie" // a part of its name only, see there
)

// Files in the directory of a broker.
const (
	pulsarConfFile     = "standalone.conf"
	pulsarLogConfFile  = "log4j2.properties"
	pulsarKeyFile      = "server-key.pem"
	pulsarCertFile     = "server-cert.pem"
	pulsarTokenKeyFile = "token-key"
	pulsarTokenFile    = "admin-token"
)

// pulsarJVMArgs keep the broker below 1 GB of heap and buffers. The opened
// packages are those that Netty and the metrics of Pulsar look into; without
// them it works too, and complains.
var pulsarJVMArgs = []string{
	"-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
	"-Dlog4j2.configurationFile=" + pulsarLogConfFile, // in the working directory
	"-Dio.netty.leakDetection.level=disabled", "-Dio.netty.tryReflectionSetAccessible=true", "-Dio.netty.allocator.numDirectArenas=2",
	"--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
	"--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.platform=ALL-UNNAMED",
	"--add-opens=java.base/sun.net=ALL-UNNAMED", "--add-opens=java.management/sun.management=ALL-UNNAMED",
}

// StartPulsar starts a broker and returns once it answers. ctx bounds the start
// only. The error is a *MissingError where Java or Maven is missing; where the
// broker does not come up it holds the end of its log.
func StartPulsar(ctx context.Context, cfg PulsarConfig) (*Pulsar, error) {
	s, err := newServer(ctx, namePulsar, options{
		dir: cfg.Dir, log: cfg.Log, readyTimeout: cfg.ReadyTimeout, detached: cfg.Detached, jvmArgs: pulsarJVMArgs,
	}, portBroker, portWeb, portBrokerTLS, portWebTLS, portBookie)
	if err != nil {
		return nil, err
	}
	p := &Pulsar{Server: s, token: cfg.Token, tls: cfg.TLS}
	// HS256 wants 32 bytes and more.
	if p.tokenKey, err = s.keepSecret(pulsarTokenKeyFile, rand.Text()+rand.Text()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.configure = func(*Server) error { return p.writeConf(cfg) }
	s.prepare = preparePulsar
	s.ready = "PULSAR IS UP"
	s.answers = p.ping
	s.address = p.ServiceURL
	if err := s.firstStart(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// ServiceURL returns the address for clients: pulsar://127.0.0.1:PORT.
func (p *Pulsar) ServiceURL() string { return "pulsar://" + p.listener(portBroker) }

// AdminURL returns the address of the admin REST interface:
// http://127.0.0.1:PORT.
func (p *Pulsar) AdminURL() string { return "http://" + p.listener(portWeb) }

// TLSServiceURL returns the address for clients over TLS:
// pulsar+ssl://127.0.0.1:PORT. Nobody listens there unless PulsarConfig.TLS.
func (p *Pulsar) TLSServiceURL() string { return "pulsar+ssl://" + p.listener(portBrokerTLS) }

// TLSAdminURL returns the address of the admin REST interface over TLS:
// https://127.0.0.1:PORT. Nobody listens there unless PulsarConfig.TLS.
func (p *Pulsar) TLSAdminURL() string { return "https://" + p.listener(portWebTLS) }

func (p *Pulsar) listener(port string) string { return ports.Loopback(p.state.Ports[port]) }

// CAFile returns the path of the certificate, in PEM, that a client of the
// addresses with TLS has to trust.
func (p *Pulsar) CAFile() string { return p.path(caFile) }

// ClientFile returns the path of a client's key and certificate, in PEM. Where
// the broker asks who a client is, they are of the role PulsarClientRole.
func (p *Pulsar) ClientFile() string { return p.path(clientFile) }

// ForeignCAFile returns the path of an authority that has signed nothing of the
// broker's.
func (p *Pulsar) ForeignCAFile() string { return p.path(foreignCAFile) }

// ForeignClientFile returns the path of a client's key and certificate that the
// broker refuses: they are of the foreign authority.
func (p *Pulsar) ForeignClientFile() string { return p.path(foreignClientFile) }

// Token returns a token (JWT, HS256, without an end) that makes its bearer the
// role given. A role has no rights until it has been granted some, except
// PulsarSuperuser.
func (p *Pulsar) Token(role string) string { return signToken(p.tokenKey, role) }

// Env returns what a shell or another program needs to use the broker. It holds
// the setting of Graphmill's own program too.
func (p *Pulsar) Env() []EnvVar {
	vars := []EnvVar{
		{"PULSAR_SERVICE_URL", p.ServiceURL()},
		{"PULSAR_ADMIN_URL", p.AdminURL()},
		{"PULSAR_LOG_FILE", p.LogFile()},
		{"GRAPHMILL_PULSAR_SERVICE_URL", p.ServiceURL()},
	}
	if p.tls {
		vars = append(vars,
			EnvVar{"PULSAR_TLS_SERVICE_URL", p.TLSServiceURL()},
			EnvVar{"PULSAR_TLS_ADMIN_URL", p.TLSAdminURL()},
			EnvVar{"PULSAR_CA_FILE", p.CAFile()},
			EnvVar{"PULSAR_CLIENT_FILE", p.ClientFile()})
	}
	if p.token {
		vars = append(vars,
			EnvVar{"PULSAR_TOKEN", p.Token(PulsarSuperuser)},
			EnvVar{"PULSAR_TOKEN_FILE", p.path(pulsarTokenFile)})
	}
	return vars
}

// ping asks for the broker's own check, which sends a message to itself, and for
// the namespace that tests use.
func (p *Pulsar) ping(ctx context.Context) error {
	if err := p.Admin(ctx, "GET", "/admin/v2/brokers/health", nil, nil); err != nil {
		return err
	}
	return p.Admin(ctx, "GET", "/admin/v2/namespaces/public/default", nil, nil)
}

var pulsarConf = template.Must(template.ParseFS(embedded, "pulsar/standalone.conf.tmpl"))

func (p *Pulsar) writeConf(cfg PulsarConfig) error {
	lo, err := loopbackInterface()
	if err != nil {
		return err
	}
	superuserToken := ""
	if cfg.Token {
		superuserToken = p.Token(PulsarSuperuser)
	}
	var b bytes.Buffer
	if err := pulsarConf.Execute(&b, struct {
		Ports                               map[string]int
		Loopback                            string
		FailoverDelay                       int64 // ms
		BatchIndexAck                       bool
		TLS                                 bool
		Key, Certificate, CA                string
		TokenKey, Superuser, SuperuserToken string
	}{
		Ports: p.state.Ports, Loopback: lo, FailoverDelay: cfg.FailoverDelay.Milliseconds(), BatchIndexAck: cfg.BatchIndexAck,
		TLS: cfg.TLS, Key: pulsarKeyFile, Certificate: pulsarCertFile, CA: caFile,
		TokenKey: base64.StdEncoding.EncodeToString([]byte(p.tokenKey)), Superuser: PulsarSuperuser, SuperuserToken: superuserToken,
	}); err != nil {
		return err
	}
	lines, err := propertyLines(cfg.Settings)
	if err != nil {
		return err
	}
	b.WriteString("\n" + lines)
	logConf, err := embedded.ReadFile("pulsar/" + pulsarLogConfFile)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		pulsarConfFile: b.Bytes(), pulsarLogConfFile: logConf, pulsarTokenFile: []byte(p.Token(PulsarSuperuser) + "\n"),
	} {
		if err := writeFileAtomic(p.path(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// preparePulsar makes the certificates, whether or not the first start needs
// them. Pulsar wants the server's key and certificate in files of their own.
func preparePulsar(_ context.Context, s *Server) error {
	if err := os.RemoveAll(s.path(dataDir)); err != nil { // a first start that was broken off
		return err
	}
	if err := writeCertificates(s.path); err != nil {
		return err
	}
	both, err := os.ReadFile(s.path(serverFile))
	if err != nil {
		return err
	}
	key, certificates := pem.Decode(both)
	return errors.Join(
		os.WriteFile(s.path(pulsarKeyFile), pem.EncodeToMemory(key), 0o600),
		os.WriteFile(s.path(pulsarCertFile), certificates, 0o600))
}

// signToken makes a JSON Web Token (RFC 7519) of a subject, signed with HS256.
func signToken(key, subject string) string {
	claims, _ := json.Marshal(struct { // of a string: it cannot fail
		Subject string `json:"sub"`
	}{subject})
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256"}`)) + "." + encode(claims)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil))
}

// loopbackInterface returns the name of the network interface that has
// 127.0.0.1: lo on Linux, lo0 on macOS.
func loopbackInterface() (string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("look for the loopback interface: %w", err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			return i.Name, nil
		}
	}
	return "", errors.New("this machine has no loopback interface that is up")
}
