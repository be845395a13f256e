package kafka

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/graphmill/graphmill"
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
	password         secret
	caFile, caPEM    string
	certFile         string
	certPEM          string
	keyFile          string
	keyPEM           secret
	keyPassword      secret
	keystore         string
	keystorePassword secret
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
	password    secret
}

// secure makes the security of the raw entries. Notes tell of what has no
// effect, and of what makes a connection unsafe.
func (s *ClientSettings) secure(fieldOf func(name string) string, vault Vault) (notes []string, err error) {
	raw := &s.raw
	withTLS := raw.protocol == protocolTLS || raw.protocol == protocolSASLTLS
	withLogin := raw.protocol == protocolSASL || raw.protocol == protocolSASLTLS
	if withTLS {
		if err := s.security.encrypt(raw, fieldOf, vault); err != nil {
			return nil, err
		}
		if raw.unverified {
			notes = append(notes, fieldOf("enable.ssl.certificate.verification")+": enable.ssl.certificate.verification is false: whoever answers at the broker's address is trusted with the login and the messages")
		}
	} else if raw.mentionsTLS() {
		notes = append(notes, fmt.Sprintf("configs: the settings of TLS (ssl.*) have no effect: security.protocol is %s", raw.protocolName()))
	}
	if withLogin {
		if err := s.security.identify(raw, fieldOf); err != nil {
			return nil, err
		}
		if s.security.mechanism == mechanismPlain && !withTLS {
			notes = append(notes, "configs: security.protocol is sasl_plaintext and the mechanism PLAIN: the password is sent as it is, for everybody on the way to read")
		}
	} else if raw.mechanism != "" || raw.user != "" || !raw.password.empty() {
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
	return r.caFile+r.caPEM+r.certFile+r.certPEM+r.keyFile+r.keyPEM.reveal()+r.keyPassword.reveal()+r.keystore+r.keystorePassword.reveal() != "" ||
		r.unverified || r.anyName
}

// identify makes the login.
func (s *security) identify(raw *rawSecurity, fieldOf func(name string) string) error {
	field := fieldOf("sasl.mechanisms")
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
		return graphmill.Invalid(fieldOf("sasl.username"), "sasl.username is needed with sasl.mechanism %s", s.mechanism)
	case raw.password.empty():
		return graphmill.Invalid(fieldOf("sasl.password"), "sasl.password is needed with sasl.mechanism %s", s.mechanism)
	case s.mechanism == mechanismPlain && strings.ContainsRune(raw.user+raw.password.reveal(), 0):
		return graphmill.Invalid(fieldOf("sasl.password"), "sasl.username and sasl.password cannot hold a NUL character")
	}
	s.user, s.userHidden, s.password = raw.user, raw.userHidden, raw.password
	return nil
}

// login is the SASL mechanism, or nil.
func (s *security) login(links *links) sasl.Mechanism {
	var m sasl.Mechanism
	switch s.mechanism {
	case mechanismPlain:
		m = plain.Auth{User: s.user, Pass: s.password.reveal()}.AsMechanism()
	case mechanismSCRAM256:
		m = scram.Auth{User: s.user, Pass: s.password.reveal()}.AsSha256Mechanism()
	case mechanismSCRAM512:
		m = scram.Auth{User: s.user, Pass: s.password.reveal()}.AsSha512Mechanism()
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
func (s *security) encrypt(raw *rawSecurity, fieldOf func(name string) string, vault Vault) error {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if cfg.RootCAs, err = raw.authorities(fieldOf, vault); err != nil {
		return err
	}
	if s.certificate, err = raw.clientCertificate(fieldOf, vault); err != nil {
		return err
	}
	switch {
	case raw.unverified:
		cfg.InsecureSkipVerify = true
	case raw.anyName:
		// The library checks the chain and the name, or neither.
		roots := cfg.RootCAs
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(c tls.ConnectionState) error { return verifyChain(c.PeerCertificates, roots) }
	}
	s.tls = cfg
	return nil
}

func verifyChain(certs []*x509.Certificate, roots *x509.CertPool) error {
	if len(certs) == 0 {
		return errors.New("the broker shows no certificate")
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := certs[0].Verify(opts)
	return err
}

// authorities are those that may have signed a broker's certificate; nil: those
// of the system.
func (r *rawSecurity) authorities(fieldOf func(name string) string, vault Vault) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	found := false
	if r.caFile != "" && !strings.EqualFold(r.caFile, "probe") {
		content, err := readLocation(fieldOf, "ssl.ca.location", r.caFile, vault)
		if err != nil {
			return nil, err
		}
		if !roots.AppendCertsFromPEM(content) {
			return nil, graphmill.Invalid(fieldOf("ssl.ca.location"), "the file of ssl.ca.location holds no certificate in PEM")
		}
		found = true
	}
	if r.caPEM != "" {
		if !roots.AppendCertsFromPEM([]byte(r.caPEM)) {
			return nil, graphmill.Invalid(fieldOf("ssl.ca.pem"), "ssl.ca.pem holds no certificate in PEM")
		}
		found = true
	}
	if !found {
		return nil, nil
	}
	return roots, nil
}

// clientCertificate is what the client shows to brokers that ask; nil: nothing.
func (r *rawSecurity) clientCertificate(fieldOf func(name string) string, vault Vault) (*tls.Certificate, error) {
	hasCert, hasKey := r.certFile+r.certPEM != "", r.keyFile+r.keyPEM.reveal() != ""
	switch {
	case r.certFile != "" && r.certPEM != "":
		return nil, graphmill.Invalid(fieldOf("ssl.certificate.pem"), "ssl.certificate.pem and ssl.certificate.location are given; one is needed")
	case r.keyFile != "" && !r.keyPEM.empty():
		return nil, graphmill.Invalid(fieldOf("ssl.key.pem"), "ssl.key.pem and ssl.key.location are given; one is needed")
	case r.keystore != "" && (hasCert || hasKey):
		return nil, graphmill.Invalid(fieldOf("ssl.keystore.location"), "ssl.keystore.location holds certificate and key; leave out ssl.certificate.* and ssl.key.*")
	case r.keystore != "":
		return r.fromKeystore(fieldOf, vault)
	case !hasCert && !hasKey:
		return nil, nil
	case !hasKey:
		return nil, graphmill.Invalid(fieldOf("ssl.key.location"), "a client's certificate needs its key: ssl.key.location or ssl.key.pem")
	case !hasCert:
		return nil, graphmill.Invalid(fieldOf("ssl.certificate.location"), "a client's key needs its certificate: ssl.certificate.location or ssl.certificate.pem")
	}
	certPEM, certName := []byte(r.certPEM), "ssl.certificate.pem"
	keyPEM, keyName := []byte(r.keyPEM.reveal()), "ssl.key.pem"
	var err error
	if r.certFile != "" {
		certName = "ssl.certificate.location"
		if certPEM, err = readLocation(fieldOf, certName, r.certFile, vault); err != nil {
			return nil, err
		}
	}
	if r.keyFile != "" {
		keyName = "ssl.key.location"
		if keyPEM, err = readLocation(fieldOf, keyName, r.keyFile, vault); err != nil {
			return nil, err
		}
	}
	cert := &tls.Certificate{}
	for block, rest := pem.Decode(certPEM); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			cert.Certificate = append(cert.Certificate, block.Bytes)
		}
	}
	if len(cert.Certificate) == 0 {
		return nil, graphmill.Invalid(fieldOf(certName), "%s holds no certificate in PEM", certName)
	}
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		return nil, graphmill.Invalid(fieldOf(certName), "the certificate of %s cannot be read: %v", certName, err)
	}
	if cert.PrivateKey, err = parseKey(keyPEM, r.keyPassword); err != nil {
		return nil, graphmill.Invalid(fieldOf(keyName), "the key of %s cannot be used: %v", keyName, err)
	}
	if !keyMatches(cert) {
		return nil, graphmill.Invalid(fieldOf(keyName), "the key of %s is not the one of the certificate of %s", keyName, certName)
	}
	return cert, nil
}

// fromKeystore reads certificate and key of a PKCS#12 file.
func (r *rawSecurity) fromKeystore(fieldOf func(name string) string, vault Vault) (*tls.Certificate, error) {
	const name = "ssl.keystore.location"
	content, err := readLocation(fieldOf, name, r.keystore, vault)
	if err != nil {
		return nil, err
	}
	if tooManyIterations(content) {
		return nil, graphmill.Invalid(fieldOf(name), "the file of %s asks for more than %d iterations to be opened; write it anew with fewer (openssl pkcs12 -export -iter 100000)", name, maxIterations)
	}
	key, leaf, chain, err := pkcs12.DecodeChain(content, r.keystorePassword.reveal())
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, graphmill.Invalid(fieldOf("ssl.keystore.password"), "ssl.keystore.password does not open the file of %s", name)
	case err != nil:
		return nil, graphmill.Invalid(fieldOf(name), "the file of %s cannot be read as PKCS#12: %v", name, err)
	}
	cert := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	if !keyMatches(cert) {
		return nil, graphmill.Invalid(fieldOf(name), "the key in the file of %s is not the one of the certificate in it", name)
	}
	return cert, nil
}

func keyMatches(c *tls.Certificate) bool {
	signer, ok := c.PrivateKey.(crypto.Signer)
	if !ok {
		return false
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.Leaf.PublicKey)
}

// parseKey reads the first private key of a PEM text. No error repeats any of
// it.
func parseKey(text []byte, password secret) (crypto.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block.Headers["DEK-Info"] != "" {
			return nil, errors.New("it is encrypted in the old form of OpenSSL, which protects little; convert it with openssl pkcs8 -topk8")
		}
		switch block.Type {
		case "PRIVATE KEY":
			return x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return decryptKey(block.Bytes, password)
		}
		return nil, fmt.Errorf("a %s is not known; convert it with openssl pkcs8 -topk8", strings.ToLower(block.Type))
	}
	return nil, errors.New("it holds no private key in PEM")
}

func readLocation(fieldOf func(name string) string, name, path string, vault Vault) ([]byte, error) {
	content, err := vault.File(path)
	if err != nil {
		return nil, aboutEntry(fieldOf(name), name, err)
	}
	return content, nil
}
