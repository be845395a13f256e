package pulsar

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/graphmill/graphmill/sources/tlsfault"
)

// links remembers how the connections to the brokers fare. The client's own errors
// do not say: it tries until its time is over, and then returns "connection error".
// What stood in the way is only in its log, so links is told by the logger. It is
// one stream's own.
type links struct {
	serviceURL string
	security   *security
	asked      atomic.Bool // a broker has asked for the client's certificate
	hasRun     atomic.Bool // the source has been opened

	// onDiscard is told of entries that the client cannot read, and has acknowledged
	// for that; nil: nobody is. Set before the client is made.
	onDiscard func(topic, entry, why string)

	mu      sync.Mutex
	failed  error  // the last failure to connect; nil once a connection stands
	addr    string // where, as host:port; may be empty
	noLogin error  // the broker's refusal of the login; it is final
}

func newLinks(cfg *Config) *links {
	return &links{serviceURL: cfg.ServiceURL, security: &cfg.Client.security}
}

// note remembers how the last attempt to connect went: nil, well.
func (l *links) note(addr string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed, l.addr = err, addr
}

// last returns the last failure to connect, and where.
func (l *links) last() (addr string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr, l.failed
}

// refuse remembers that the login was refused.
func (l *links) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noLogin = err
}

// refusal returns the broker's refusal of the login, or nil.
func (l *links) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noLogin
}

// discarded tells that the client has thrown an entry away.
func (l *links) discarded(topic, entry, why string) {
	if l.onDiscard != nil {
		l.onDiscard(topic, entry, why)
	}
}

// explain makes of what went wrong with a connection the reason why it cannot be
// used, where it is known.
func (l *links) explain(addr string, err error) error {
	err = unwrapped(err)
	if !withTLS(l.serviceURL) {
		if tlsfault.HasEnded(err) { // before it has said that it takes the connection
			return &tlsfault.Unusable{Why: tlsfault.Missing, Address: addr, Err: err}
		}
		return err
	}
	client := tlsfault.Client{Asked: l.asked.Load(), Shown: l.security.certificate != nil}
	why, sure, shown := tlsfault.Explain(err, client)
	switch {
	case why == "":
		return err
	case why == tlsfault.Other && !sure && client.Asked && client.Shown:
		// What Pulsar's brokers answer to a certificate that they do not trust is
		// the alert internal_error.
		why = tlsfault.CertificateRefused
	}
	return &tlsfault.Unusable{Why: why, Sure: sure, Address: addr, Err: shown}
}

// unwrapped gives an error back its kind, where the client has made a text of it
// ("unable to read frame size: EOF").
func unwrapped(err error) error {
	const alert = "remote error: "
	text := err.Error()
	switch i := strings.LastIndex(text, alert); {
	case errors.Unwrap(err) != nil:
		return err
	case i >= 0:
		return &net.OpError{Op: "remote error", Err: errors.New(text[i+len(alert):])}
	case strings.HasSuffix(text, ": EOF"):
		return io.EOF
	case strings.HasSuffix(text, "connection reset by peer"):
		return syscall.ECONNRESET
	}
	return err
}

// hosts are the host:port of the service URL, for people.
func hosts(serviceURL string) string {
	_, list, _ := strings.Cut(serviceURL, "://")
	return strings.ReplaceAll(strings.TrimSuffix(list, "/"), ",", ", ")
}

// hostOf is host:port of a broker's URL.
func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Host
}
