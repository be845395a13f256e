package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/graphmill/graphmill/sources/tlsfault"
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
		if c.security.tls == nil && tlsfault.IsAnswer(p[:n]) {
			n, err = 0, c.found(tlsfault.Missing, true, errors.New("it answers with a TLS alert"))
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
		explained = c.found(tlsfault.Missing, false, err)
	}
	if u := (*tlsfault.Unusable)(nil); errors.As(explained, &u) {
		// The client's own error may not lead back to it.
		c.links.note(c.address, explained)
	}
	return n, explained
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// explain finds out why TLS does not come about. An error of which it knows
// nothing is returned as it is.
func (c *conn) explain(err error) error {
	why, sure, shown := tlsfault.Explain(err, tlsfault.Client{Asked: c.asked.Load(), Shown: c.security.certificate != nil})
	if why == "" {
		return err
	}
	return c.found(why, sure, shown)
}

// found makes the reason.
func (c *conn) found(why tlsfault.Reason, sure bool, err error) error {
	return &tlsfault.Unusable{Why: why, Sure: sure, Address: c.address, Err: err}
}

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
