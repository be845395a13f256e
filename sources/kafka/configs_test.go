package kafka_test

import (
	"crypto"
	"encoding/asn1"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/clientcert/certtest"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/setting/settingtest"
)

func TestConfigsThatCannotBeTakenSayWhy(t *testing.T) {
	a := certtest.NewAuthority(t)
	own, other := a.Issue(nil), a.Issue(nil)
	tlsWith := func(more ...string) map[string]string {
		return with(map[string]string{"security.protocol": "ssl"}, more...)
	}
	weak := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-EDE3-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
	type m = map[string]string
	for _, c := range []struct {
		name                 string
		configs, credentials m
		field                string
		says                 []string
	}{
		{"a name that is mistyped", m{"sasl.usrname": planted}, nil, "configs", []string{`"sasl.usrname"`, "did you mean sasl.username?"}},
		{"a name that is nothing", nil, m{"zzzzzzzzzzzzz": planted}, "credentials", []string{`"zzzzzzzzzzzzz" is not a setting of librdkafka`}},
		{"a name in upper case", m{"SASL.USERNAME": planted}, nil, "configs", []string{"did you mean sasl.username?"}},
		{"a name without end", m{strings.Repeat("x", 10_000): planted}, nil, "configs", []string{`xxx..."`}},
		{"a name of Java's clients", nil, m{"sasl.jaas.config": planted}, "credentials", []string{"Java", "sasl.username and sasl.password"}},
		{"an alias beside its name", m{"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}, nil, "configs", []string{"given twice"}},
		{"a setting in both maps", m{"sasl.username": planted}, m{"sasl.username": planted}, "credentials", []string{"given twice", "configs"}},
		{"no number", m{"session.timeout.ms": planted}, nil, "configs", []string{"session.timeout.ms", "from 1000 to 3600000"}},
		{"a number that is too small", m{"session.timeout.ms": "999"}, nil, "configs", []string{"from 1000 to 3600000"}},
		{"a number that is too large", m{"fetch.min.bytes": "99999999999999999999"}, nil, "configs", []string{"fetch.min.bytes"}},
		{"no truth", m{"enable.ssl.certificate.verification": planted}, nil, "configs", []string{"true or false"}},
		{"no word of the list", m{"security.protocol": planted}, nil, "configs", []string{"plaintext, ssl, sasl_plaintext, sasl_ssl"}},
		{"an ignored setting out of its range", m{"socket.max.fails": "-1"}, nil, "configs", []string{"socket.max.fails"}},
		{"an empty value", m{"client.id": ""}, nil, "configs", []string{"empty"}},
		{"the brokers", m{"bootstrap.servers": "b:9092"}, nil, "configs", []string{"BOOTSTRAP_SERVERS"}},
		{"the brokers by another name", m{"metadata.broker.list": "b:9092"}, nil, "configs", []string{"metadata.broker.list", "BOOTSTRAP_SERVERS"}},
		{"the group", m{"group.id": "g"}, nil, "configs", []string{"CONSUMER_GROUP"}},
		{"commits at an interval", m{"enable.auto.commit": "true"}, nil, "configs", []string{"false", "in the graph"}},
		{"messages of aborted transactions", m{"isolation.level": "read_uncommitted"}, nil, "configs", []string{"read_committed"}},
		{"another assignor", m{"partition.assignment.strategy": "range"}, nil, "configs", []string{"cooperative-sticky"}},
		{"static membership", m{"group.instance.id": "i"}, nil, "configs", []string{"dynamic"}},
		{"topics made by the way", m{"allow.auto.create.topics": "true"}, nil, "configs", []string{"false"}},
		{"an error where nothing is known", m{"auto.offset.reset": "error"}, nil, "configs", []string{"begin somewhere"}},
		{"a function", m{"log_cb": "x"}, nil, "configs", []string{"not as text"}},
		{"a plug-in", m{"plugin.library.paths": "/tmp/x.so"}, nil, "configs", []string{"never loaded"}},
		{"heartbeats as rare as the session", m{"session.timeout.ms": "6000", "heartbeat.interval.ms": "6000"}, nil, "configs", []string{"session.timeout.ms (6000)"}},
		{"a longest pause below the first", m{"reconnect.backoff.max.ms": "100"}, nil, "configs", []string{"reconnect.backoff.ms (250)"}},

		{"a login without a mechanism", m{"security.protocol": "sasl_ssl", "sasl.username": "u"}, m{"sasl.password": planted}, "configs", []string{"sasl.mechanism is needed"}},
		{"a mechanism that is not there yet", with(login("OAUTHBEARER", "u", planted)), nil, "configs", []string{"OAUTHBEARER", "not available yet"}},
		{"Amazon's mechanism", with(login("AWS_MSK_IAM", "u", planted)), nil, "configs", []string{"AWS_MSK_IAM", "not available yet"}},
		{"Kerberos", with(login("GSSAPI", "u", planted)), nil, "configs", []string{"Kerberos"}},
		{"several mechanisms", with(login("PLAIN,SCRAM-SHA-256", "u", planted)), nil, "configs", []string{"one mechanism"}},
		{"a login without a user", m{"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, m{"sasl.password": planted}, "configs", []string{"sasl.username is needed"}},
		{"a login without a password", m{"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, m{"sasl.username": planted}, "configs", []string{"sasl.password is needed"}},
		{"a password that PLAIN cannot carry", m{"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, m{"sasl.username": "u", "sasl.password": planted + "\x00"}, "credentials", []string{"NUL"}},
		{"a setting of a mechanism that is not there", nil, m{"sasl.oauthbearer.client.secret": planted}, "credentials", []string{"not available yet"}},

		{"authorities that are none", tlsWith("ssl.ca.pem", planted), nil, "configs", []string{"ssl.ca.pem holds no certificate"}},
		{"a file that is no certificate", tlsWith("ssl.ca.location", "junk"), nil, "configs", []string{"ssl.ca.location holds no certificate"}},
		{"a certificate without its key", tlsWith("ssl.certificate.pem", own.CertPEM()), nil, "configs", []string{"needs its key"}},
		{"a key without its certificate", tlsWith(), m{"ssl.key.pem": own.KeyPEM(t)}, "configs", []string{"needs its certificate"}},
		{"another certificate's key", tlsWith("ssl.certificate.pem", own.CertPEM()), m{"ssl.key.pem": other.KeyPEM(t)}, "credentials", []string{"not the one of the certificate"}},
		{"a key that is none", tlsWith("ssl.certificate.pem", own.CertPEM()), m{"ssl.key.pem": planted}, "credentials", []string{"no private key"}},
		{"a key that is encrypted, without a password", tlsWith("ssl.certificate.pem", own.CertPEM()), m{"ssl.key.location": "encrypted"}, "credentials", []string{"ssl.key.password is needed"}},
		{"a key that is encrypted, by a wrong password", tlsWith("ssl.certificate.pem", own.CertPEM()), m{"ssl.key.location": "encrypted", "ssl.key.password": "wrong" + planted}, "credentials", []string{"does not open"}},
		{"a key that asks for endless work", tlsWith("ssl.certificate.pem", own.CertPEM()), m{"ssl.key.location": "endless", "ssl.key.password": planted}, "credentials", []string{"iterations"}},
		{"a key that is encrypted as of old", tlsWith("ssl.certificate.pem", own.CertPEM()), m{"ssl.key.pem": weak, "ssl.key.password": planted}, "credentials", []string{"old form", "openssl pkcs8"}},
		{"a certificate twice", tlsWith("ssl.certificate.pem", own.CertPEM(), "ssl.certificate.location", "junk"), nil, "configs", []string{"one is needed"}},
		{"a keystore beside a certificate", tlsWith("ssl.certificate.pem", own.CertPEM(), "ssl.keystore.location", "p12"), nil, "configs", []string{"leave out"}},
		{"a keystore that is none", tlsWith("ssl.keystore.location", "junk"), nil, "configs", []string{"PKCS#12"}},
		{"a keystore that asks for endless work", tlsWith("ssl.keystore.location", "endless.p12"), m{"ssl.keystore.password": planted}, "configs", []string{"iterations"}},
		{"a keystore by a wrong password", tlsWith("ssl.keystore.location", "p12"), m{"ssl.keystore.password": "wrong" + planted}, "credentials", []string{"does not open"}},
		{"revoked certificates", tlsWith("ssl.crl.location", "junk"), nil, "configs", []string{"revoked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := kafka.ParseConfigs(c.configs, c.credentials, keyFiles(t, own))
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.field, e.Field, "%v", err)
			for _, s := range c.says {
				require.Contains(t, err.Error(), s)
			}
			require.NotContains(t, err.Error()+e.Next, planted, "no value stands in an error")
		})
	}
}

func TestConfigsThatHaveNoEffectAreToldOnceEach(t *testing.T) {
	_, notes, err := kafka.ParseConfigs(map[string]string{
		"debug": "all", "statistics.interval.ms": "1000", "linger.ms": "5.5", "check.crcs": "TRUE", "queued.min.messages": "1",
		"enable.auto.commit": "FALSE", "isolation.level": "Read_Committed", "partition.assignment.strategy": "cooperative-sticky",
		"ssl.ca.pem": "not looked at", "sasl.username": "u", "client.id": "c",
	}, map[string]string{"ssl.cipher.suites": "X"}, nil)
	require.NoError(t, err)
	for _, name := range []string{"debug", "statistics.interval.ms", "linger.ms", "check.crcs", "queued.min.messages", "ssl.cipher.suites", "(ssl.*)", "(sasl.*)"} {
		about := 0
		for _, n := range notes {
			if strings.Contains(n, " "+name+" ") {
				about++
			}
		}
		require.Equal(t, 1, about, "%s in %q", name, notes)
	}
	require.Len(t, notes, 8, "what is as it has to be needs no word")
}

func TestConfigsWithoutProtectionAreTold(t *testing.T) {
	_, notes, err := kafka.ParseConfigs(with(login("PLAIN", "u", planted)), nil, nil)
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "for everybody on the way to read")
	_, notes, err = kafka.ParseConfigs(map[string]string{"security.protocol": "ssl", "enable.ssl.certificate.verification": "f"}, nil, nil)
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.NotContains(t, fmt.Sprint(notes), planted)
}

func TestConfigsNameSecretsAndFilesThatAreAbsent(t *testing.T) {
	for name, configs := range map[string]map[string]string{
		"a secret": login("PLAIN", "u", "secret:absent"),
		"a file":   {"security.protocol": "ssl", "ssl.ca.location": "absent"},
	} {
		_, _, err := kafka.ParseConfigs(configs, nil, settingtest.Vault{})
		var e *graphmill.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, graphmill.KindConflict, e.Kind, name)
		require.Equal(t, "secret_not_found", e.Code, name)
		_, _, err = kafka.ParseConfigs(configs, nil, nil)
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err), "without a place for secrets: %s", name)
	}
}

func TestStartFromIsWhatAutoOffsetResetSays(t *testing.T) {
	for value, want := range map[string]string{
		"smallest": "earliest", "Earliest": "earliest", "beginning": "earliest",
		"largest": "latest", "LATEST": "latest", "end": "latest", "": "", "error": "", "other": "",
	} {
		require.Equal(t, want, kafka.StartFrom(map[string]string{"auto.offset.reset": value}, nil), value)
		require.Equal(t, want, kafka.StartFrom(nil, map[string]string{"auto.offset.reset": value}), value)
	}
}

// keyFiles are files as definitions name them, all with the password planted.
func keyFiles(t *testing.T, p certtest.Pair) settingtest.Vault {
	t.Helper()
	seal := func(iterations int) string {
		der, err := pkcs8.MarshalPrivateKey(p.Key, []byte(planted), &pkcs8.Opts{
			Cipher: pkcs8.AES256CBC, KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: iterations, HMACHash: crypto.SHA256},
		})
		require.NoError(t, err)
		return certtest.PEM("ENCRYPTED PRIVATE KEY", der)
	}
	keystore, err := pkcs12.Modern2023.Encode(p.Key, p.Cert, nil, planted)
	require.NoError(t, err)
	var pfx struct {
		Version  int
		AuthSafe asn1.RawValue
		Mac      struct {
			Digest     asn1.RawValue
			Salt       []byte
			Iterations int
		}
	}
	_, err = asn1.Unmarshal(keystore, &pfx)
	require.NoError(t, err)
	pfx.Mac.Iterations = 1 << 31
	endlessStore, err := asn1.Marshal(pfx)
	require.NoError(t, err)
	type pbkdf2 struct {
		Salt       []byte
		Iterations int
	}
	type kdf struct {
		ID     asn1.ObjectIdentifier
		Params pbkdf2
	}
	type cipher struct {
		ID asn1.ObjectIdentifier
		IV []byte
	}
	type pbes2 struct {
		KDF    kdf
		Cipher cipher
	}
	type algorithm struct {
		ID     asn1.ObjectIdentifier
		Params pbes2
	}
	endless, err := asn1.Marshal(struct {
		Algorithm algorithm
		Data      []byte
	}{algorithm{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, pbes2{
		kdf{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}, pbkdf2{make([]byte, 8), 1 << 31}},
		cipher{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, make([]byte, 16)},
	}}, make([]byte, 64)})
	require.NoError(t, err)
	return settingtest.Vault{"junk": "junk", "encrypted": seal(2048), "endless": certtest.PEM("ENCRYPTED PRIVATE KEY", endless), "p12": string(keystore), "endless.p12": string(endlessStore)}
}
