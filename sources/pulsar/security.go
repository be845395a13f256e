package pulsar

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/clientcert"
	"github.com/graphmill/graphmill/sources/setting"
)

// method is how a client logs in, by the name that the protocol has for it; OAuth2
// is the exception, whose result is a token.
type method string

const (
	methodNone   method = "none"
	methodToken  method = "token"
	methodTLS    method = "tls"
	methodBasic  method = "basic"
	methodOAuth2 method = "oauth2"
)

// secretOf names what a login shows.
var secretOf = map[method]string{methodToken: "token", methodBasic: "password", methodOAuth2: "token"}

// plugins are the values of authPlugin, in lower case.
var plugins = map[string]method{
	"none": methodNone, "token": methodToken, "tls": methodTLS, "basic": methodBasic, "oauth2": methodOAuth2,
	"org.apache.pulsar.client.impl.auth.authenticationdisabled":      methodNone,
	"org.apache.pulsar.client.impl.auth.authenticationtoken":         methodToken,
	"org.apache.pulsar.client.impl.auth.authenticationtls":           methodTLS,
	"org.apache.pulsar.client.impl.auth.authenticationbasic":         methodBasic,
	"org.apache.pulsar.client.impl.auth.oauth2.authenticationoauth2": methodOAuth2,
}

// unavailable are parts of the names of plug-ins that there are elsewhere.
var unavailable = []string{"athenz", "sasl", "keystoretls"}

// rawSecurity is what the entries say, before they are looked at together.
type rawSecurity struct {
	plugin           string
	params, paramMap setting.Secret
	token            setting.Secret
	user             string
	userHidden       bool
	password         setting.Secret
	issuer           string
	privateKey       setting.Secret
	clientID         string
	clientSecret     setting.Secret
	audience, scope  string

	caFile, caPEM     string
	certFile, certPEM string
	keyFile           string
	keyPEM            setting.Secret
	unverified        bool
	anyName           bool
}

// security is how a client makes itself known to brokers, and them to itself.
type security struct {
	mentionsTLS bool
	roots       *x509.CertPool   // for brokers; nil: the system's
	certificate *tls.Certificate // the client's; nil: it has none
	unverified  bool             // whoever answers is trusted
	anyName     bool             // the broker's certificate may be for another name

	method     method // empty: none
	user       string
	userHidden bool           // it was given as a secret: no error names it
	secret     setting.Secret // token or password
	oauth      *oauthClient
}

// secure makes the security of the raw entries. Notes tell of what makes a
// connection unsafe.
func (s *ClientSettings) secure(given given, vault setting.Vault) (notes []string, err error) {
	raw := &s.raw
	named, err := raw.named(given)
	if err != nil {
		return nil, err
	}
	if err := raw.takeParams(named, given); err != nil {
		return nil, err
	}
	sec := &s.security
	sec.mentionsTLS = raw.caFile+raw.caPEM+raw.certFile+raw.certPEM+raw.keyFile+raw.keyPEM.Reveal() != "" || raw.unverified || raw.anyName
	sec.unverified, sec.anyName = raw.unverified, raw.anyName
	if sec.roots, err = raw.authorities(given, vault); err != nil {
		return nil, err
	}
	if sec.certificate, err = raw.clientCertificate(given, vault); err != nil {
		return nil, err
	}
	if err := sec.identify(cmp.Or(named, sec.seen(raw)), raw, given, vault); err != nil {
		return nil, err
	}
	if raw.unverified {
		notes = append(notes, given.Field("tlsAllowInsecureConnection")+": tlsAllowInsecureConnection is true: whoever answers at the broker's address is trusted with the login and the messages")
	}
	s.raw = rawSecurity{} // what is needed of it has been taken over
	return notes, nil
}

// named is the login that authPlugin names; empty: it names none.
func (r *rawSecurity) named(given given) (method, error) {
	field := given.Field("authPlugin")
	const known = "token, tls, basic, oauth2 and none are"
	name := strings.ToLower(strings.TrimSpace(r.plugin))
	m, ok := plugins[name]
	switch {
	case ok || name == "":
		return m, nil
	case slices.ContainsFunc(unavailable, func(u string) bool { return strings.Contains(name, u) }):
		return "", graphmill.Invalid(field, "the login that authPlugin names is not available; %s", known)
	}
	return "", graphmill.Invalid(field, "the value of authPlugin cannot be used: it is no login that is known here; %s", known)
}

// identify makes the login.
func (s *security) identify(m method, raw *rawSecurity, given given, vault setting.Vault) error {
	for _, other := range []struct {
		of    method
		name  string
		given bool
	}{
		{methodToken, "token", !raw.token.Empty()},
		{methodBasic, "userId", raw.user != ""},
		{methodBasic, "password", !raw.password.Empty()},
		{methodOAuth2, "issuerUrl", raw.issuer != ""},
		{methodOAuth2, "privateKey", !raw.privateKey.Empty()},
		{methodOAuth2, "clientId", raw.clientID != ""},
	} {
		if other.given && other.of != m {
			return graphmill.Invalid(given.Field(other.name), "%s is of the login %s, and the login is %s; leave one of them out", other.name, other.of, m)
		}
	}
	s.method = m
	switch m {
	case methodToken:
		return s.takeToken(raw, given, vault)
	case methodBasic:
		switch {
		case raw.user == "":
			return graphmill.Invalid(given.Field("userId"), "userId is needed with the login basic")
		case raw.password.Empty():
			return graphmill.Invalid(given.Field("password"), "password is needed with the login basic")
		}
		s.user, s.userHidden, s.secret = raw.user, raw.userHidden, raw.password
	case methodTLS:
		if s.certificate == nil {
			return graphmill.Invalid(given.Field("authPlugin"), "the login tls needs a certificate and its key: tlsCertificateFilePath and tlsKeyFilePath, or tlsCertificate and tlsPrivateKey")
		}
	case methodOAuth2:
		var err error
		s.oauth, err = raw.oauth(s.roots, given, vault)
		return err
	}
	return nil
}

// seen is the login that is meant where nobody names it.
func (s *security) seen(raw *rawSecurity) method {
	switch {
	case !raw.token.Empty():
		return methodToken
	case raw.user != "" || !raw.password.Empty():
		return methodBasic
	case raw.issuer+raw.privateKey.Reveal()+raw.clientID != "":
		return methodOAuth2
	case s.certificate != nil:
		return methodTLS
	}
	return methodNone
}

// tokenFile begins a token that is the content of a file.
const tokenFile = "file:"

// takeToken takes the token, or reads the file that it is in.
func (s *security) takeToken(raw *rawSecurity, given given, vault setting.Vault) error {
	token := raw.token.Reveal()
	if path, ok := strings.CutPrefix(token, tokenFile); ok {
		content, err := given.File("token", strings.TrimPrefix(path, "//"), vault)
		if err != nil {
			return err
		}
		token = string(content)
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "":
		return graphmill.Invalid(given.Field("token"), "token is needed with the login token")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return graphmill.Invalid(given.Field("token"), "the value of token cannot be used: there is a space or an unprintable character in it")
	}
	s.secret = setting.Hide(token)
	return nil
}

// principal names the client for people, as the broker sees it.
func (s *security) principal() string {
	switch {
	case s.method == methodToken:
		return "the bearer of the token"
	case s.method == methodBasic && s.userHidden:
		return "the user of userId"
	case s.method == methodBasic:
		return fmt.Sprintf("user %q", s.user)
	case s.method == methodOAuth2:
		return "the client of issuerUrl"
	case s.method == methodTLS:
		return fmt.Sprintf("the client's certificate (%s)", s.certificate.Leaf.Subject)
	}
	return "a client without a login"
}

// authorities are those that may have signed a broker's certificate; nil: those
// of the system.
func (r *rawSecurity) authorities(given given, vault setting.Vault) (*x509.CertPool, error) {
	if r.caFile == "" && r.caPEM == "" {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if r.caFile != "" {
		content, err := given.File("tlsTrustCertsFilePath", r.caFile, vault)
		if err != nil {
			return nil, err
		}
		if !roots.AppendCertsFromPEM(content) {
			return nil, graphmill.Invalid(given.Field("tlsTrustCertsFilePath"), "the file of tlsTrustCertsFilePath holds no certificate in PEM")
		}
	}
	if r.caPEM != "" && !roots.AppendCertsFromPEM([]byte(r.caPEM)) {
		return nil, graphmill.Invalid(given.Field("tlsTrustCerts"), "tlsTrustCerts holds no certificate in PEM")
	}
	return roots, nil
}

// clientCertificate is what the client shows to brokers that ask; nil: nothing.
func (r *rawSecurity) clientCertificate(given given, vault setting.Vault) (*tls.Certificate, error) {
	certPEM, certName, err := oneOf(given, vault, "tlsCertificateFilePath", r.certFile, "tlsCertificate", r.certPEM)
	if err != nil {
		return nil, err
	}
	keyPEM, keyName, err := oneOf(given, vault, "tlsKeyFilePath", r.keyFile, "tlsPrivateKey", r.keyPEM.Reveal())
	if err != nil {
		return nil, err
	}
	switch {
	case certName == "" && keyName == "":
		return nil, nil
	case keyName == "":
		return nil, graphmill.Invalid(given.Field("tlsKeyFilePath"), "a client's certificate needs its key: tlsKeyFilePath or tlsPrivateKey")
	case certName == "":
		return nil, graphmill.Invalid(given.Field("tlsCertificateFilePath"), "a client's key needs its certificate: tlsCertificateFilePath or tlsCertificate")
	}
	cert, err := clientcert.Chain(certPEM)
	switch {
	case errors.Is(err, clientcert.ErrNoCertificate):
		return nil, graphmill.Invalid(given.Field(certName), "%s holds no certificate in PEM", certName)
	case err != nil:
		return nil, graphmill.Invalid(given.Field(certName), "the certificate of %s cannot be read: %v", certName, err)
	}
	if cert.PrivateKey, err = clientcert.Key(keyPEM, clientcert.Password{}); err != nil {
		return nil, graphmill.Invalid(given.Field(keyName), "the key of %s cannot be used: %v", keyName, err)
	}
	if !clientcert.KeyMatches(cert) {
		return nil, graphmill.Invalid(given.Field(keyName), "the key of %s is not the one of the certificate of %s", keyName, certName)
	}
	return cert, nil
}

// oneOf returns what stands in a file or in a setting itself, and by which name it
// was given; "": by none.
func oneOf(given given, vault setting.Vault, fileName, path, name, text string) ([]byte, string, error) {
	switch {
	case path != "" && text != "":
		return nil, "", graphmill.Invalid(given.Field(name), "%s and %s are given; one is needed", name, fileName)
	case path != "":
		content, err := given.File(fileName, path, vault)
		return content, fileName, err
	case text != "":
		return []byte(text), name, nil
	}
	return nil, "", nil
}

// tlsConfig makes the configuration of TLS with the host whose name is checked;
// "": the one that is dialled. asked is told when the broker asks for the client's
// certificate.
func (s *security) tlsConfig(asked func()) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots}
	switch {
	case s.unverified:
		cfg.InsecureSkipVerify = true
	case s.anyName:
		// The library checks the chain and the name, or neither.
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(c tls.ConnectionState) error { return clientcert.VerifyChain(c.PeerCertificates, s.roots) }
	}
	// Not by Certificates: the library then keeps a certificate back that the
	// broker will not accept, and the broker says that there is none.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked()
		if s.certificate != nil {
			return s.certificate, nil
		}
		return &tls.Certificate{}, nil
	}
	return cfg
}

// httpsURL checks an address of HTTP. Without TLS only this machine is spoken to.
func httpsURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it is an address of the form https://host/path")
	case u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()):
	case u.Scheme != "https":
		return nil, errors.New("it is an address of the form https://host/path: over http:// the secret could be read on the way")
	}
	return u, nil
}
