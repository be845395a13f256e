package stack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill/integration/ports"
)

// KafkaConfig says how to start a broker. The zero value will do for a test.
type KafkaConfig struct {
	// Dir is the broker's own directory: new, empty, or one where an earlier
	// broker was, whose data, ports and credentials are taken over. Empty: a
	// temporary directory, which Close removes.
	Dir string
	// Log gets lines about what takes time; nil: none.
	Log io.Writer
	// ReadyTimeout is how long to wait for the broker; 0: 3 minutes.
	ReadyTimeout time.Duration
	// Settings are further lines of server.properties; they win over ours.
	Settings map[string]string
	// Detached lets the broker outlive this program (see Down). It needs a Dir.
	Detached bool
}

// Credential is a user of a listener with SASL.
type Credential struct{ User, Password string }

// The users of the SASL listener. Their passwords guard nothing: the broker
// listens on loopback only, and one of its listeners asks for no password.
var (
	KafkaPlainUser = Credential{"plain", "plain-secret"} // PLAIN
	KafkaScramUser = Credential{"scram", "scram-secret"} // SCRAM-SHA-256 and SCRAM-SHA-512
)

// KafkaClientName is whom the client certificates name: to the broker their
// owner is the user CN=KafkaClientName.
const KafkaClientName = clientName

// Kafka is a broker, which is its own controller (KRaft). It has listeners
// without and with SASL, with TLS, with both, and with certificates that no
// client should accept. Topics are not created by themselves. A topic or group
// that has no access control list is everybody's; those that have one are also
// open to who comes by Brokers.
type Kafka struct{ *Server }

// Ports of a broker, by the names that server.properties uses.
const (
	portPlaintext  = "plaintext"
	portSASL       = "sasl"
	portTLS        = "tls"
	portSASLTLS    = "sasltls"
	portMTLS       = "mtls"
	portExpired    = "expired"
	portMisnamed   = "misnamed"
	portController = "controller"
)

// kafkaPorts are those that a broker listens on.
var kafkaPorts = []string{portPlaintext, portSASL, portTLS, portSASLTLS, portMTLS, portExpired, portMisnamed, portController}

const (
	kafkaConfFile = "server.properties"
	formatLimit   = 2 * time.Minute
)

// StartKafka starts a broker and returns once it answers. ctx bounds the start
// only. The error is a *MissingError where Java or Maven is missing; where the
// broker does not come up it holds the end of its log.
func StartKafka(ctx context.Context, cfg KafkaConfig) (*Kafka, error) {
	s, err := newServer(ctx, nameKafka, options{
		dir: cfg.Dir, log: cfg.Log, readyTimeout: cfg.ReadyTimeout, detached: cfg.Detached,
		jvmArgs: []string{"-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.showDateTime=true"},
	}, kafkaPorts...)
	if err != nil {
		return nil, err
	}
	k := &Kafka{Server: s}
	s.configure = func(s *Server) error { return writeKafkaConf(s, cfg.Settings) }
	s.prepare = formatKafka
	s.ready = "Kafka Server started"
	s.answers = k.ping
	s.address = func() string { return k.Brokers()[0] }
	if err := s.firstStart(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Brokers returns the bootstrap address of the listener without authentication.
func (k *Kafka) Brokers() []string { return k.listener(portPlaintext) }

// SASLBrokers returns the bootstrap address of the listener with SASL
// (KafkaPlainUser, KafkaScramUser) and without TLS.
func (k *Kafka) SASLBrokers() []string { return k.listener(portSASL) }

// TLSBrokers returns the bootstrap address of the listener with TLS. Its
// certificate is for localhost and 127.0.0.1 and signed by the one in CAFile.
func (k *Kafka) TLSBrokers() []string { return k.listener(portTLS) }

// SASLTLSBrokers returns the bootstrap address of the listener with SASL, as
// SASLBrokers, over TLS, as TLSBrokers.
func (k *Kafka) SASLTLSBrokers() []string { return k.listener(portSASLTLS) }

// MTLSBrokers returns the bootstrap address of the listener with TLS that wants
// a certificate of the client: the one in ClientFile.
func (k *Kafka) MTLSBrokers() []string { return k.listener(portMTLS) }

// ExpiredBrokers returns the bootstrap address of the listener with TLS whose
// certificate has expired.
func (k *Kafka) ExpiredBrokers() []string { return k.listener(portExpired) }

// MisnamedBrokers returns the bootstrap address of the listener with TLS whose
// certificate is another host's.
func (k *Kafka) MisnamedBrokers() []string { return k.listener(portMisnamed) }

func (k *Kafka) listener(port string) []string { return []string{ports.Loopback(k.state.Ports[port])} }

// CAFile returns the path of the certificate, in PEM, that a client of the
// listeners with TLS has to trust.
func (k *Kafka) CAFile() string { return k.path(caFile) }

// ClientFile returns the path of a client's key and certificate, in PEM, that
// MTLSBrokers accepts.
func (k *Kafka) ClientFile() string { return k.path(clientFile) }

// ForeignCAFile returns the path of an authority that has signed nothing of the
// broker's.
func (k *Kafka) ForeignCAFile() string { return k.path(foreignCAFile) }

// ForeignClientFile returns the path of a client's key and certificate that the
// broker refuses: they are of the foreign authority.
func (k *Kafka) ForeignClientFile() string { return k.path(foreignClientFile) }

// Env returns what a shell or another program needs to use the broker. It holds
// the setting of Graphmill's own program too.
func (k *Kafka) Env() []EnvVar {
	return []EnvVar{
		{"KAFKA_BROKERS", strings.Join(k.Brokers(), ",")},
		{"KAFKA_SASL_BROKERS", strings.Join(k.SASLBrokers(), ",")},
		{"KAFKA_SASL_PLAIN_USER", KafkaPlainUser.User},
		{"KAFKA_SASL_PLAIN_PASSWORD", KafkaPlainUser.Password},
		{"KAFKA_SASL_SCRAM_USER", KafkaScramUser.User},
		{"KAFKA_SASL_SCRAM_PASSWORD", KafkaScramUser.Password},
		{"KAFKA_TLS_BROKERS", strings.Join(k.TLSBrokers(), ",")},
		{"KAFKA_SASL_TLS_BROKERS", strings.Join(k.SASLTLSBrokers(), ",")},
		{"KAFKA_MTLS_BROKERS", strings.Join(k.MTLSBrokers(), ",")},
		{"KAFKA_CA_FILE", k.CAFile()},
		{"KAFKA_CLIENT_FILE", k.ClientFile()},
		{"KAFKA_LOG_FILE", k.LogFile()},
		{"GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS", strings.Join(k.Brokers(), ",")},
	}
}

// ping asks for the offsets of a group: the broker makes the topic that holds
// them at the first such question, and answers it only once the topic is there.
func (k *Kafka) ping(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).FetchOffsets(ctx, "graphmill.stack")
	return err
}

var kafkaConf = template.Must(template.ParseFS(embedded, "kafka/server.properties.tmpl"))

func writeKafkaConf(s *Server, settings map[string]string) error {
	if strings.ContainsAny(s.dir, ",\\\n") {
		return fmt.Errorf("%q: Kafka takes no comma, backslash or newline in the path of its data", s.dir)
	}
	var b bytes.Buffer
	if err := kafkaConf.Execute(&b, struct {
		Dir       string
		Ports     map[string]int
		Plain     Credential
		SASL      []string          // listeners with SASL
		Keystores map[string]string // by listener with TLS
		CA        string
	}{
		Dir: s.dir, Ports: s.state.Ports, Plain: KafkaPlainUser, CA: caFile,
		SASL: []string{portSASL, portSASLTLS},
		Keystores: map[string]string{
			portTLS: serverFile, portSASLTLS: serverFile, portMTLS: serverFile, portExpired: expiredFile, portMisnamed: misnamedFile,
		},
	}); err != nil {
		return err
	}
	lines, err := propertyLines(settings)
	if err != nil {
		return err
	}
	b.WriteString(lines)
	return writeFileAtomic(s.path(kafkaConfFile), b.Bytes(), 0o600)
}

// formatKafka makes what a broker's first start needs: certificates, the
// cluster's id and the users of SCRAM, which the log of the cluster holds.
func formatKafka(ctx context.Context, s *Server) error {
	if err := os.RemoveAll(s.path(dataDir)); err != nil { // a first start that was broken off
		return err
	}
	if err := writeCertificates(s.path); err != nil {
		return err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	id[0] &= 0x7f // the tool takes an id that begins with "-" for an option
	scram := fmt.Sprintf("[name=%s,password=%s]", KafkaScramUser.User, KafkaScramUser.Password)
	out, err := runLimited(ctx, formatLimit, s.program.java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", s.program.classpath,
		"kafka.tools.StorageTool", "format", "--standalone", "-t", base64.RawURLEncoding.EncodeToString(id), "-c", s.path(kafkaConfFile),
		"--add-scram", "SCRAM-SHA-256="+scram, "--add-scram", "SCRAM-SHA-512="+scram)
	if err != nil {
		return fmt.Errorf("format %s: %w\n%s", filepath.Join(s.dir, dataDir), err, out)
	}
	return nil
}

// propertyLines writes settings in the form of a Java properties file, sorted
// by name.
func propertyLines(settings map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		if name == "" || strings.ContainsAny(name, " \t\r\n=:#!\\") {
			return "", fmt.Errorf("%q cannot be the name of a setting", name)
		}
		if strings.ContainsAny(value, "\r\n") {
			return "", errors.New("the value of " + name + " has more than one line")
		}
		fmt.Fprintf(&b, "%s=%s\n", name, strings.ReplaceAll(value, `\`, `\\`))
	}
	return b.String(), nil
}
