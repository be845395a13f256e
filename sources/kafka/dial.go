package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
)

// dialer connects to brokers, and finds out why a connection that stands cannot
// be used: with TLS 1.3 a broker says only after the handshake that it does not
// accept the client's certificate, and one that expects TLS answers a client
// without it with a TLS alert.
type dialer struct {
	family   string // of addresses: "v4", "v6", else any
	timeout  time.Duration
	security *security
	links    *links
}

// dial implements what kgo.Dialer takes.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	switch d.family {
	case "v4":
		network = "tcp4"
	case "v6":
		network = "tcp6"
	}
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.links.reached.Store(true)
	c := &conn{Conn: raw, address: address, links: d.links, security: d.security}
	if d.security.tls == nil {
		return c, nil
	}
	if err := c.handshake(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, err
	}
	return c, nil
}

// conn is a connection that looks at the first answer. Reads are of one
// goroutine at a time, as the client does them.
type conn struct {
	net.Conn
	address  string
	links    *links
	security *security
	asked    atomic.Bool // the broker has asked for the client's certificate
	answered bool        // something has been read
}

// handshake makes it a connection with TLS.
func (c *conn) handshake(ctx context.Context) error {
	cfg := c.security.tls.Clone()
	host, _, err := net.SplitHostPort(c.address)
	if err != nil {
		return err
	}
	cfg.ServerName = host
	// Not by Certificates: the library then keeps a certificate back that the
	// broker will not accept, and the broker says that there is none.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.asked.Store(true)
		if c.security.certificate != nil {
			return c.security.certificate, nil
		}
		return &tls.Certificate{}, nil
	}
	secured := tls.Client(c.Conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the TLS handshake with %s: %w", c.address, ctx.Err())
		}
		return c.explain(err)
	}
	c.Conn = secured
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.answered {
		return n, err
	}
	if n > 0 {
		c.answered = true
		if c.security.tls == nil && speaksTLS(p[:n]) {
			n, err = 0, c.found(tlsMissing, true, errors.New("it answers with a TLS alert"))
			c.links.note(c.address, err)
		}
		return n, err
	}
	if err == nil || errors.Is(err, net.ErrClosed) || isTimeout(err) {
		return n, err
	}
	explained := err
	switch {
	case c.security.tls != nil:
		explained = c.explain(err)
	case errors.Is(err, io.EOF): // not a word, not even an alert
		explained = c.found(tlsMissing, false, err)
	}
	if u := (*unusable)(nil); errors.As(explained, &u) {
		// The client's own error may not lead back to it.
		c.links.note(c.address, explained)
	}
	return n, explained
}

// speaksTLS tells whether an answer is a TLS alert: type 21, version 3.x.
func speaksTLS(p []byte) bool { return len(p) >= 2 && p[0] == 21 && p[1] == 3 }

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// hasEnded tells whether the broker has closed the connection without a word.
func hasEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explain finds out why TLS does not come about. An error of which it knows
// nothing is returned as it is.
func (c *conn) explain(err error) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		header    tls.RecordHeaderError
		op        *net.OpError
	)
	shown := c.security.certificate != nil
	switch {
	case errors.As(err, &authority):
		return c.found(tlsAuthority, true, err)
	case errors.As(err, &name):
		return c.found(tlsHostName, true, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return c.found(tlsExpired, true, err)
	case errors.As(err, &invalid), errors.As(err, &verify):
		return c.found(tlsOther, true, err)
	case errors.As(err, &header):
		return c.found(tlsUnexpected, true, errors.New("what it answers is not TLS"))
	case errors.As(err, &op) && op.Op == "remote error": // an alert
		switch {
		case isAlert(op.Err, ofCertificates) && c.asked.Load() && shown:
			return c.found(tlsCertificateRefused, true, err)
		case isAlert(op.Err, ofCertificates) && c.asked.Load():
			return c.found(tlsCertificateMissing, true, err)
		case isAlert(op.Err, ofCertificates), isAlert(op.Err, ofSettings):
			return c.found(tlsOther, true, err)
		}
		// A broker, or a proxy, that starts or ends says so too: internal_error,
		// handshake_failure before its keys are loaded, unrecognized_name.
		return c.found(tlsOther, false, err)
	case hasEnded(err):
		switch {
		case c.asked.Load() && shown:
			return c.found(tlsCertificateRefused, false, err)
		case c.asked.Load():
			return c.found(tlsCertificateMissing, false, err)
		}
		return c.found(tlsUnexpected, false, err)
	}
	return err
}

// Alerts (RFC 8446, section 6) that do not pass by waiting.
var (
	// The client's certificate is refused, or lacking.
	ofCertificates = []tls.AlertError{
		42,  // bad_certificate
		43,  // unsupported_certificate
		44,  // certificate_revoked
		45,  // certificate_expired
		46,  // certificate_unknown
		48,  // unknown_ca
		49,  // access_denied
		116, // certificate_required
	}
	// Both sides cannot come together.
	ofSettings = []tls.AlertError{
		70,  // protocol_version
		71,  // insufficient_security
		120, // no_application_protocol
	}
)

// isAlert tells whether an alert is one of those. The library has a type of its
// own for those that it was sent, which only its text tells.
func isAlert(err error, of []tls.AlertError) bool {
	return slices.ContainsFunc(of, func(a tls.AlertError) bool { return err.Error() == a.Error() })
}

// found makes the reason.
func (c *conn) found(why tlsReason, sure bool, err error) error {
	return &unusable{why: why, sure: sure, address: c.address, err: err}
}

// unusable is why a connection that was made cannot be used.
type unusable struct {
	why     tlsReason
	sure    bool // else the broker has only closed it
	address string
	err     error
}

func (u *unusable) Error() string { return fmt.Sprintf("connect to %s: %v", u.address, u.err) }

func (u *unusable) Unwrap() error { return u.err }

// loginOnce is a mechanism that a broker which has refused the login is not
// asked again: brokers and the directories behind them lock accounts after a few
// wrong passwords.
type loginOnce struct {
	sasl.Mechanism
	links *links
}

// Authenticate implements sasl.Mechanism.
func (m loginOnce) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	if err := m.links.refusal(); err != nil {
		return nil, nil, err
	}
	return m.Mechanism.Authenticate(ctx, host)
}
