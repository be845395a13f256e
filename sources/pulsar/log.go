package pulsar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"

	"github.com/graphmill/graphmill"
)

// What the client says in its log and nowhere else.
const (
	saysNoConnection = "Failed to connect to broker."
	saysNoHandshake  = "Failed to perform initial handshake"
	saysNoLogin      = "Failed to establish connection with broker: '%s'"
	saysNoData       = "Failed to load auth credentials"
	saysReady        = "Connection is ready"
	saysDiscarded    = "Discarding corrupted message"
)

// linesPerSecond bounds what is handed on of the client's messages: while a broker
// is away it says the same for each of a stream's partitions.
const linesPerSecond = 10

// clientLogger hands the client's own messages on, all of them for debugging: what
// a user should know is told to the Observer once, while the client repeats errors
// that it is healing by itself for as long as an outage lasts. It tells links what
// the client tells nobody else, whether anybody reads the log or not. Messages that
// the client itself makes for debugging are left out: it has one for each message
// that it receives.
//
// It is safe for concurrent use: what is added makes another one.
type clientLogger struct {
	to     *slog.Logger
	links  *links
	pace   *pace
	fields []any
	addr   string // of the connection that it is about
	err    error
}

func newClientLogger(to *slog.Logger, links *links) pulsarlog.Logger {
	return clientLogger{to: to, links: links, pace: &pace{now: time.Now}}
}

// SubLogger implements the client's Logger.
func (l clientLogger) SubLogger(fields pulsarlog.Fields) pulsarlog.Logger { return l.with(fields) }

// WithFields implements the client's Logger and Entry.
func (l clientLogger) WithFields(fields pulsarlog.Fields) pulsarlog.Entry { return l.with(fields) }

// WithField implements the client's Logger and Entry.
func (l clientLogger) WithField(name string, value any) pulsarlog.Entry {
	return l.with(pulsarlog.Fields{name: value})
}

// WithError implements the client's Logger.
func (l clientLogger) WithError(err error) pulsarlog.Entry {
	l.err = err
	return l
}

func (l clientLogger) with(fields pulsarlog.Fields) clientLogger {
	l.fields = l.fields[:len(l.fields):len(l.fields)] // others add to the same
	for name, value := range fields {
		if u, ok := value.(*url.URL); ok && name == "remote_addr" {
			l.addr = hostOf(u)
		}
		l.fields = append(l.fields, name, value)
	}
	return l
}

// Debug implements the client's Logger and Entry, as the methods below do.
func (clientLogger) Debug(...any) {}

// Debugf leaves the client's own messages for debugging out, but for one: it comes
// before the client looks into a command (see guard).
func (clientLogger) Debugf(format string, args ...any) {
	if format == saysReceived && len(args) == 2 {
		guard(args[1])
	}
}

// Info looks at a message and hands it on.
func (l clientLogger) Info(args ...any) { l.say("info", args) }

// Warn looks at a message and hands it on.
func (l clientLogger) Warn(args ...any) { l.say("warn", args) }

// Error looks at a message and hands it on.
func (l clientLogger) Error(args ...any) { l.say("error", args) }

// Infof hands a message on.
func (l clientLogger) Infof(format string, args ...any) { l.sayf("info", format, args) }

// Warnf looks at a message and hands it on.
func (l clientLogger) Warnf(format string, args ...any) {
	if format == saysNoLogin && len(args) == 1 {
		l.links.note(l.addr, l.links.answered(fmt.Sprint(args[0])))
	}
	l.sayf("warn", format, args)
}

// Errorf hands a message on.
func (l clientLogger) Errorf(format string, args ...any) { l.sayf("error", format, args) }

func (l clientLogger) say(level string, args []any) {
	if len(args) == 1 {
		switch args[0] {
		case saysReady:
			l.links.note(l.addr, nil)
		case saysNoConnection, saysNoHandshake:
			if l.err != nil {
				l.links.note(l.addr, l.links.explain(l.addr, l.err))
			}
		case saysNoData:
			if l.err != nil {
				l.links.note(l.addr, l.err)
			}
		case saysDiscarded:
			l.links.discarded(l.field("topic"), l.field("msgID"), l.field("validationError"))
		}
	}
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.hand(level, fmt.Sprint(args...))
	}
}

// field is a field as text; empty where there is none of that name.
func (l clientLogger) field(name string) string {
	for i := 0; i+1 < len(l.fields); i += 2 {
		if l.fields[i] == name {
			return fmt.Sprint(l.fields[i+1])
		}
	}
	return ""
}

func (l clientLogger) sayf(level, format string, args []any) {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.hand(level, fmt.Sprintf(format, args...))
	}
}

// hand hands a message on, without what the client shows to brokers.
func (l clientLogger) hand(level, msg string) {
	left, ok := l.pace.pass()
	if !ok {
		return
	}
	about := make([]any, 0, len(l.fields)+6)
	for _, f := range l.fields {
		switch f := f.(type) {
		case string:
			about = append(about, l.links.security.conceal(f))
		default:
			about = append(about, l.links.security.conceal(fmt.Sprint(f)))
		}
	}
	if l.err != nil {
		about = append(about, "error", l.links.security.conceal(l.err.Error()))
	}
	if left > 0 {
		about = append(about, "left_out", left)
	}
	about = append(about, "client_level", level)
	l.to.Log(context.Background(), slog.LevelDebug, "pulsar client: "+l.links.security.conceal(msg), about...)
}

// conceal takes what is shown to brokers out of a text.
func (s *security) conceal(text string) string {
	for _, shown := range []string{s.secret.Reveal(), s.oauth.current()} {
		if shown != "" {
			text = strings.ReplaceAll(text, shown, graphmill.RedactedValue)
		}
	}
	return text
}

// pace lets so many pass a second, and counts the others.
type pace struct {
	now func() time.Time

	mu     sync.Mutex
	second time.Time
	passed int
	left   int // out, since something has passed
}

// pass tells whether one may pass, and how many before it have not.
func (p *pace) pass() (left int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); now.Sub(p.second) >= time.Second {
		p.second, p.passed = now, 0
	}
	if p.passed >= linesPerSecond {
		p.left++
		return 0, false
	}
	p.passed++
	left, p.left = p.left, 0
	return left, true
}

// noLogin is the refusal of a login.
type noLogin struct{ words error } // the broker's

func (e *noLogin) Error() string { return "the broker refuses the login: " + e.words.Error() }
func (e *noLogin) Unwrap() error { return e.words }

// answered makes an error of what a broker has answered to a client that wanted to
// connect. The library has dropped the broker's code, so its words must do.
func (l *links) answered(message string) error {
	lower := strings.ToLower(message)
	if strings.Contains(lower, "authenticat") || strings.Contains(lower, "unauthorized") {
		err := &noLogin{errors.New(l.security.conceal(message))}
		l.refuse(err)
		return err
	}
	return &answer{Code: "ServiceNotReady", Message: message}
}
