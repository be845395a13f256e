package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/clientcert"
	"github.com/graphmill/graphmill/sources/setting"
)

// Values of security.protocol.
const (
	protocolPlaintext = "plaintext"
	protocolTLS       = "ssl"
	protocolSASL      = "sasl_plaintext"
	protocolSASLTLS   = "sasl_ssl"
)

// Mechanisms of a login.
const (
	mechanismPlain    = "PLAIN"
	mechanismSCRAM256 = "SCRAM-SHA-256"
	mechanismSCRAM512 = "SCRAM-SHA-512"
)

// rawSecurity is what the entries say, before they are looked at together.
type rawSecurity struct {
	protocol         string
	mechanism        string
	user             string
	userHidden       bool
	password         setting.Secret
	caFile, caPEM    string
	certFile         string
	certPEM          string
	keyFile          string
	keyPEM           setting.Secret
	keyPassword      setting.Secret
	keystore         string
	keystorePassword setting.Secret
	unverified       bool
	anyName          bool
}

// security is how a client makes itself known to brokers, and them to itself.
type security struct {
	tls         *tls.Config      // nil: no TLS
	certificate *tls.Certificate // the client's; nil: it has none
	mechanism   string           // "": no login
	user        string
	userHidden  bool // it was given as a secret: no error names it
	password    setting.Secret
}

// secure makes the security of the raw entries. Notes tell of what has no
// effect, and of what makes a connection unsafe.
func (s *ClientSettings) secure(given given, vault setting.Vault) (notes []string, err error) {
	raw := &s.raw
	withTLS := raw.protocol == protocolTLS || raw.protocol == protocolSASLTLS
	withLogin := raw.protocol == protocolSASL || raw.protocol == protocolSASLTLS
	if withTLS {
		if err := s.security.encrypt(raw, given, vault); err != nil {
			return nil, err
		}
		if raw.unverified {
			notes = append(notes, given.Field("enable.ssl.certificate.verification")+": enable.ssl.certificate.verification is false: whoever answers at the broker's address is trusted with the login and the messages")
		}
	} else if raw.mentionsTLS() {
		notes = append(notes, fmt.Sprintf("configs: the settings of TLS (ssl.*) have no effect: security.protocol is %s", raw.protocolName()))
	}
	if withLogin {
		if err := s.security.identify(raw, given); err != nil {
			return nil, err
		}
		if s.security.mechanism == mechanismPlain && !withTLS {
			notes = append(notes, "configs: security.protocol is sasl_plaintext and the mechanism PLAIN: the password is sent as it is, for everybody on the way to read")
		}
	} else if raw.mechanism != "" || raw.user != "" || !raw.password.Empty() {
		notes = append(notes, fmt.Sprintf("configs: the settings of the login (sasl.*) have no effect: security.protocol is %s", raw.protocolName()))
	}
	s.raw = rawSecurity{} // what is needed of it has been taken over
	return notes, nil
}

func (r *rawSecurity) protocolName() string {
	if r.protocol == "" {
		return "not given, which means plaintext"
	}
	return r.protocol
}

func (r *rawSecurity) mentionsTLS() bool {
	return r.caFile+r.caPEM+r.certFile+r.certPEM+r.keyFile+r.keyPEM.Reveal()+r.keyPassword.Reveal()+r.keystore+r.keystorePassword.Reveal() != "" ||
		r.unverified || r.anyName
}

// identify makes the login.
func (s *security) identify(raw *rawSecurity, given given) error {
	field := given.Field("sasl.mechanisms")
	const known = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
	switch m := strings.ToUpper(strings.TrimSpace(raw.mechanism)); m {
	case mechanismPlain, mechanismSCRAM256, mechanismSCRAM512:
		s.mechanism = m
	case "":
		return graphmill.Invalid(field, "sasl.mechanism is needed with security.protocol %s: %s", raw.protocol, known)
	case "OAUTHBEARER", "AWS_MSK_IAM":
		return graphmill.Invalid(field, "the sasl.mechanism %s is not available yet; %s are", m, strings.Replace(known, " or ", " and ", 1))
	case "GSSAPI":
		return graphmill.Invalid(field, "the sasl.mechanism GSSAPI (Kerberos) is not available; %s are", strings.Replace(known, " or ", " and ", 1))
	default:
		return graphmill.Invalid(field, "the value of sasl.mechanism cannot be used: it is one mechanism, %s", known)
	}
	switch {
	case raw.user == "":
		return graphmill.Invalid(given.Field("sasl.username"), "sasl.username is needed with sasl.mechanism %s", s.mechanism)
	case raw.password.Empty():
		return graphmill.Invalid(given.Field("sasl.password"), "sasl.password is needed with sasl.mechanism %s", s.mechanism)
	case s.mechanism == mechanismPlain && strings.ContainsRune(raw.user+raw.password.Reveal(), 0):
		return graphmill.Invalid(given.Field("sasl.password"), "sasl.username and sasl.password cannot hold a NUL character")
	}
	s.user, s.userHidden, s.password = raw.user, raw.userHidden, raw.password
	return nil
}

// login is the SASL mechanism, or nil.
func (s *security) login(links *links) sasl.Mechanism {
	var m sasl.Mechanism
	switch s.mechanism {
	case mechanismPlain:
		m = plain.Auth{User: s.user, Pass: s.password.Reveal()}.AsMechanism()
	case mechanismSCRAM256:
		m = scram.Auth{User: s.user, Pass: s.password.Reveal()}.AsSha256Mechanism()
	case mechanismSCRAM512:
		m = scram.Auth{User: s.user, Pass: s.password.Reveal()}.AsSha512Mechanism()
	default:
		return nil
	}
	return loginOnce{m, links}
}

// principal names the client for people, as the broker sees it.
func (s *security) principal() string {
	switch {
	case s.mechanism != "" && s.userHidden:
		return fmt.Sprintf("the user of sasl.username (%s)", s.mechanism)
	case s.mechanism != "":
		return fmt.Sprintf("user %q (%s)", s.user, s.mechanism)
	case s.certificate != nil:
		return fmt.Sprintf("the client's certificate (%s)", s.certificate.Leaf.Subject)
	}
	return "a client without a login"
}

// encrypt makes the configuration of TLS.
func (s *security) encrypt(raw *rawSecurity, given given, vault setting.Vault) error {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if cfg.RootCAs, err = raw.authorities(given, vault); err != nil {
		return err
	}
	if s.certificate, err = raw.clientCertificate(given, vault); err != nil {
		return err
	}
	switch {
	case raw.unverified:
		cfg.InsecureSkipVerify = true
	case raw.anyName:
		// The library checks the chain and the name, or neither.
		roots := cfg.RootCAs
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(c tls.ConnectionState) error { return clientcert.VerifyChain(c.PeerCertificates, roots) }
	}
	s.tls = cfg
	return nil
}

// authorities are those that may have signed a broker's certificate; nil: those
// of the system.
func (r *rawSecurity) authorities(given given, vault setting.Vault) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	found := false
	if r.caFile != "" && !strings.EqualFold(r.caFile, "probe") {
		content, err := given.File("ssl.ca.location", r.caFile, vault)
		if err != nil {
			return nil, err
		}
		if !roots.AppendCertsFromPEM(content) {
			return nil, graphmill.Invalid(given.Field("ssl.ca.location"), "the file of ssl.ca.location holds no certificate in PEM")
		}
		found = true
	}
	if r.caPEM != "" {
		if !roots.AppendCertsFromPEM([]byte(r.caPEM)) {
			return nil, graphmill.Invalid(given.Field("ssl.ca.pem"), "ssl.ca.pem holds no certificate in PEM")
		}
		found = true
	}
	if !found {
		return nil, nil
	}
	return roots, nil
}

// clientCertificate is what the client shows to brokers that ask; nil: nothing.
func (r *rawSecurity) clientCertificate(given given, vault setting.Vault) (*tls.Certificate, error) {
	hasCert, hasKey := r.certFile+r.certPEM != "", r.keyFile+r.keyPEM.Reveal() != ""
	switch {
	case r.certFile != "" && r.certPEM != "":
		return nil, graphmill.Invalid(given.Field("ssl.certificate.pem"), "ssl.certificate.pem and ssl.certificate.location are given; one is needed")
	case r.keyFile != "" && !r.keyPEM.Empty():
		return nil, graphmill.Invalid(given.Field("ssl.key.pem"), "ssl.key.pem and ssl.key.location are given; one is needed")
	case r.keystore != "" && (hasCert || hasKey):
		return nil, graphmill.Invalid(given.Field("ssl.keystore.location"), "ssl.keystore.location holds certificate and key; leave out ssl.certificate.* and ssl.key.*")
	case r.keystore != "":
		return r.fromKeystore(given, vault)
	case !hasCert && !hasKey:
		return nil, nil
	case !hasKey:
		return nil, graphmill.Invalid(given.Field("ssl.key.location"), "a client's certificate needs its key: ssl.key.location or ssl.key.pem")
	case !hasCert:
		return nil, graphmill.Invalid(given.Field("ssl.certificate.location"), "a client's key needs its certificate: ssl.certificate.location or ssl.certificate.pem")
	}
	certPEM, certName := []byte(r.certPEM), "ssl.certificate.pem"
	keyPEM, keyName := []byte(r.keyPEM.Reveal()), "ssl.key.pem"
	var err error
	if r.certFile != "" {
		certName = "ssl.certificate.location"
		if certPEM, err = given.File(certName, r.certFile, vault); err != nil {
			return nil, err
		}
	}
	if r.keyFile != "" {
		keyName = "ssl.key.location"
		if keyPEM, err = given.File(keyName, r.keyFile, vault); err != nil {
			return nil, err
		}
	}
	cert, err := clientcert.Chain(certPEM)
	switch {
	case errors.Is(err, clientcert.ErrNoCertificate):
		return nil, graphmill.Invalid(given.Field(certName), "%s holds no certificate in PEM", certName)
	case err != nil:
		return nil, graphmill.Invalid(given.Field(certName), "the certificate of %s cannot be read: %v", certName, err)
	}
	if cert.PrivateKey, err = clientcert.Key(keyPEM, clientcert.Password{Name: "ssl.key.password", Text: r.keyPassword.Reveal()}); err != nil {
		return nil, graphmill.Invalid(given.Field(keyName), "the key of %s cannot be used: %v", keyName, err)
	}
	if !clientcert.KeyMatches(cert) {
		return nil, graphmill.Invalid(given.Field(keyName), "the key of %s is not the one of the certificate of %s", keyName, certName)
	}
	return cert, nil
}

// fromKeystore reads certificate and key of a PKCS#12 file.
func (r *rawSecurity) fromKeystore(given given, vault setting.Vault) (*tls.Certificate, error) {
	const name = "ssl.keystore.location"
	content, err := given.File(name, r.keystore, vault)
	if err != nil {
		return nil, err
	}
	cert, err := clientcert.Keystore(content, r.keystorePassword.Reveal())
	switch {
	case errors.Is(err, clientcert.ErrPassword):
		return nil, graphmill.Invalid(given.Field("ssl.keystore.password"), "ssl.keystore.password does not open the file of %s", name)
	case err != nil:
		return nil, graphmill.Invalid(given.Field(name), "the file of %s cannot be used: %v", name, err)
	}
	return cert, nil
}
