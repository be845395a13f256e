package pulsar

import (
	"crypto/tls"
	"net/http"

	"github.com/apache/pulsar-client-go/pulsar/auth"
)

// login makes a client known to brokers. It implements the client library's
// auth.Provider, whose own implementations read files by themselves, and ask the
// issuer of tokens without any limit of time.
type login struct {
	security *security
	links    *links
}

var _ auth.Provider = (*login)(nil)

// Init implements auth.Provider. Whatever can be wrong is told when it is needed.
func (*login) Init() error { return nil }

// Close implements auth.Provider.
func (*login) Close() error { return nil }

// Name implements auth.Provider: the protocol's name of the method.
func (l *login) Name() string {
	switch l.security.method {
	case methodOAuth2:
		return string(methodToken)
	case methodNone:
		return ""
	}
	return string(l.security.method)
}

// GetData implements auth.Provider: what is shown to the broker. A broker that has
// refused it is not shown it again: the directories behind brokers lock accounts.
func (l *login) GetData() ([]byte, error) {
	if err := l.links.refusal(); err != nil {
		return nil, err
	}
	switch s := l.security; s.method {
	case methodToken:
		return []byte(s.secret.Reveal()), nil
	case methodBasic:
		return []byte(s.user + ":" + s.secret.Reveal()), nil
	case methodOAuth2:
		token, err := s.oauth.token()
		if err != nil {
			l.links.note("", err)
			return nil, err
		}
		return []byte(token), nil
	}
	return nil, nil
}

// GetTLSCertificate implements auth.Provider. Certificates are shown by the
// configuration of TLS.
func (*login) GetTLSCertificate() (*tls.Certificate, error) { return nil, nil }

// RoundTrip, Transport and WithTransport implement auth.Provider for service URLs
// of HTTP, which are not taken: see graphmill.ValidateServiceURL.
func (*login) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrNotSupported }

// Transport implements auth.Provider.
func (*login) Transport() http.RoundTripper { return nil }

// WithTransport implements auth.Provider.
func (*login) WithTransport(http.RoundTripper) error { return http.ErrNotSupported }

// header sets in a request to the admin REST what makes the client known there.
func (s *security) header(req *http.Request) error {
	switch s.method {
	case methodToken:
		req.Header.Set("Authorization", "Bearer "+s.secret.Reveal())
	case methodBasic:
		req.SetBasicAuth(s.user, s.secret.Reveal())
	case methodOAuth2:
		token, err := s.oauth.token()
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}
