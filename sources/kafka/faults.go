package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// Reason codes of this package's faults.
const (
	codeUnreachable   = "broker_unreachable"
	codeBrokerError   = "broker_error" // it answers, but cannot do what it is asked for now
	codeTopicAbsent   = "topic_absent"
	codeGroupRefused  = "group_refused"    // the group does not take this member, for now
	codeRebalancing   = "rebalancing"      // a commit has to wait for the group
	codeFetchFailed   = "fetch_failed"     // a partition cannot be read, for now
	codePositionLost  = "position_lost"    // set-up: what the position points to is gone
	codeTopicRecreate = "topic_recreated"  // set-up: the topic is another one of the same name
	codeBadBatch      = "batch_unreadable" // set-up: a record batch that can never be read
	codeAuth          = "auth"             // set-up: the broker refuses user or password
	codeForbidden     = "forbidden"        // set-up: the user may not do it
	codeNoteTooLarge  = "commit_refused"   // set-up: the broker takes no metadata as long as ours
	codeClosed        = "closed"           // set-up: the source has been closed
)

// waits makes a fault that heals by itself and is waited out.
func waits(code, text string, err error) *graphmill.Fault {
	return &graphmill.Fault{Class: graphmill.FaultTransient, Outage: true, Code: code, Text: text, Message: graphmill.WholeBatch, Err: err}
}

// ends makes a fault that somebody has to mend.
func ends(code, text, next string, err error) *graphmill.Fault {
	return &graphmill.Fault{Class: graphmill.FaultSetup, Code: code, Text: text, Next: next, Message: graphmill.WholeBatch, Err: err}
}

// fault classes what went wrong while doing something with the brokers. What
// is neither a matter of the login, of rights and of TLS nor a fault already
// heals by itself: the client retries all else.
func (l *links) fault(doing string, err error) *graphmill.Fault {
	var f *graphmill.Fault
	switch {
	case errors.As(err, &f):
		return f
	case isRefusal(err):
		return l.refused(doing, err)
	}
	if errors.Is(err, kerr.OffsetMetadataTooLarge) {
		return ends(codeNoteTooLarge, fmt.Sprintf("%s: the broker refuses the note that stands beside each offset", doing),
			fmt.Sprintf("set offset.metadata.max.bytes of the broker to %d or more (4096 is its default)", maxNote), err)
	}
	if answer := (*kerr.Error)(nil); errors.As(err, &answer) {
		return waits(codeBrokerError, fmt.Sprintf("%s: the broker answers %s", doing, answer.Message), err)
	}
	return l.unreachable(err)
}

// links remembers how the connections to the brokers fare. It is a hook of the
// client, because a client's request that ends with its context does not say
// what stood in its way.
type links struct {
	seeds    []string // host:port
	security *security
	wake     chan struct{} // a token when something has happened to a connection
	reached  atomic.Bool   // an address has taken a connection, whatever became of it
	hasRun   atomic.Bool   // the source has been opened

	mu      sync.Mutex
	failed  error  // the last failure to connect; nil once a connection stands
	addr    string // where
	noLogin error  // the broker's refusal of the login; it is final
}

func newLinks(cfg *Config) *links {
	l := &links{security: &cfg.Client.security, wake: make(chan struct{}, 1)}
	for _, seed := range cfg.Brokers {
		if !strings.Contains(seed, ":") {
			seed = net.JoinHostPort(seed, "9092") // as the client does
		}
		l.seeds = append(l.seeds, seed)
	}
	return l
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (l *links) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	// The context's error says that somebody stopped waiting, not why the
	// broker did not answer.
	if errors.Is(err, context.Canceled) {
		return
	}
	l.note(net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port))), err)
}

// note remembers how the last attempt to connect went: nil, well.
func (l *links) note(addr string, err error) {
	l.mu.Lock()
	l.failed, l.addr = err, addr
	l.mu.Unlock()
	if err != nil {
		l.signal()
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect. Connections that are
// idle are closed too; the look that follows finds nothing wrong then.
func (l *links) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { l.signal() }

func (l *links) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// standing tells whether the last attempt to connect worked.
func (l *links) standing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed == nil
}

// unreachable makes the fault of brokers that do not answer. It names the
// address that was tried: with an advertised address that cannot be reached
// from here, the first obstacle of many, it is not the one in the settings.
func (l *links) unreachable(err error) *graphmill.Fault {
	l.mu.Lock()
	failed, addr := l.failed, l.addr
	l.mu.Unlock()
	asked := strings.Join(l.seeds, ", ")
	var u *tlsfault.Unusable
	if errors.As(err, &u) || errors.As(failed, &u) {
		return u.Fault(tlsNext, l.hasRun.Load())
	}
	f := waits(codeUnreachable, "no broker of "+asked+" answers", err)
	f.Next = "check that the broker runs and that its address can be reached from here"
	if eof := (*kgo.ErrFirstReadEOF)(nil); errors.As(err, &eof) || errors.As(failed, &eof) {
		return l.closedAtOnce(cmp.Or(addr, asked), err)
	}
	if failed == nil {
		return f
	}
	f.Err = failed
	if !slices.Contains(l.seeds, addr) {
		f.Text = fmt.Sprintf("the broker at %s, the address that %s gives out, does not answer", addr, asked)
		f.Next = "set the broker's advertised listener to an address that can be reached from here"
	}
	return f
}
