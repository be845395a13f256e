// Package graph executes statements in a Bolt database (Neo4j, Memgraph)
// through the Neo4j driver. A batch is one transaction; runs of statements with
// equal text are sent as one statement where that gives the same graph.
//
// The files in the order of a batch's way: execute.go is the main path,
// values.go looks at the parameters, plan.go makes the list of statements to
// send, verdicts.go decides which texts are coalesced, coalesce.go and lexer.go
// rewrite them, faults.go says what errors mean.
package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/config"
)

// Defaults of Config. Neo4j answers 400 connections at once unless it is told
// otherwise (server.bolt.thread_pool_max_size), others than ours among them.
const (
	DefaultMaxConnections     = 300
	DefaultConnectTimeout     = 10 * time.Second
	DefaultTransactionTimeout = 2 * time.Minute
	DefaultUserAgent          = "graphmill"
)

// schemes are those of --graph-uri. +s asks for TLS with a certificate that an
// authority vouches for, +ssc takes any certificate. neo4j:// finds the members
// of a cluster by itself, bolt:// talks to exactly one server.
var schemes = []string{"bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc"}

// Config of a Sink. Zero values mean the defaults.
type Config struct {
	URI string // bolt://host:7687; see schemes

	User     string // empty: no login
	Password string // never shown in errors or logs

	// ReadPassword reads the password anew, once after each login that was
	// refused. nil: Password does not change.
	ReadPassword func() (string, error)

	Database string // where a batch names none; empty: the server's own default

	// MaxConnections bounds the connections in use, at least 1. There are as many
	// as lanes run, and a few (see Lanes).
	MaxConnections int

	// ConnectTimeout bounds reaching the server: dialing, logging in, and
	// waiting for a free connection.
	ConnectTimeout time.Duration

	// TransactionTimeout is the server's limit for one transaction. There always
	// is one: a process that freezes within a transaction holds its locks until
	// then.
	TransactionTimeout time.Duration

	UserAgent string
	Logger    *slog.Logger // nil: nothing is logged
}

// Sink is a graphmill.Sink that executes statements in a database. It is safe
// for concurrent use.
type Sink struct {
	cfg    Config
	scheme string // one of schemes
	target string // host:port
	driver neo4j.DriverWithContext
	log    *slog.Logger

	// slots are as many as connections may be in use, so that the driver's own
	// pool never makes anybody wait: its errors cannot tell a pool that is
	// exhausted from a server that does not answer, and its size cannot change.
	slots *slots

	closing chan struct{} // closed when Close begins
	life    context.Context
	end     context.CancelFunc // of life: ends what Close could not wait for
	once    sync.Once

	reached  atomic.Bool // it has let us in once
	password *password
	logins   *logins
	looked   *looked
	verdicts *verdicts
	streams  *streams

	mu     sync.Mutex
	server string // name and version that the server told last
}

// Open makes a sink. The database need not be there yet. An error is a
// *graphmill.Error that names the setting.
func Open(cfg Config) (*Sink, error) {
	scheme, target, err := checkURI(cfg.URI)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.User == "" && cfg.Password != "":
		return nil, graphmill.Invalid("graph_user", "a password is given, but no user")
	case cfg.MaxConnections < 0:
		return nil, graphmill.Invalid("graph_max_connections", "%d is below 1", cfg.MaxConnections)
	case cfg.ConnectTimeout < 0:
		return nil, graphmill.Invalid("connect_timeout", "%s is below 0", cfg.ConnectTimeout)
	case cfg.TransactionTimeout < 0:
		return nil, graphmill.Invalid("transaction_timeout", "%s is below 0", cfg.TransactionTimeout)
	}
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, DefaultMaxConnections)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, DefaultConnectTimeout)
	cfg.TransactionTimeout = cmp.Or(cfg.TransactionTimeout, DefaultTransactionTimeout)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, DefaultUserAgent)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))

	logins := newLogins(cfg.ConnectTimeout)
	pw := newPassword(&cfg, logins)
	cfg.Password = "" // pw has it now; nothing else here can show it
	driver, err := neo4j.NewDriverWithContext(cfg.URI, pw, func(c *config.Config) {
		c.Log = driverLog{cfg.Logger}
		c.MaxConnectionPoolSize = -1 // connections are opened on demand; slots bound them
		c.ConnectionAcquisitionTimeout = cfg.ConnectTimeout
		c.SocketConnectTimeout = cfg.ConnectTimeout
		c.ConnectionLivenessCheckTimeout = time.Minute // firewalls forget silent connections
		c.FetchSize = fetchSize
		c.UserAgent = cfg.UserAgent
		c.TelemetryDisabled = true
	})
	if err != nil {
		return nil, graphmill.Invalid("graph_uri", "%v", err)
	}
	life, end := context.WithCancel(context.Background())
	return &Sink{
		cfg: cfg, scheme: scheme, target: target, driver: driver, password: pw, logins: logins, log: cfg.Logger,
		slots: newSlots(cfg.MaxConnections), closing: make(chan struct{}),
		life: life, end: end,
		looked: newLooked(), verdicts: newVerdicts(), streams: newStreams(),
	}, nil
}

// checkURI returns the scheme, and the host and port that a URI names. The URI
// itself stands in no error: it may hold a password.
func checkURI(uri string) (scheme, target string, err error) {
	const field = "graph_uri"
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", "", graphmill.Invalid(field, "it cannot be read; a URI such as bolt://localhost:7687 is needed")
	case !slices.Contains(schemes, u.Scheme):
		return "", "", graphmill.Invalid(field, "the scheme %q is not known; %s are", clip(u.Scheme, 40), strings.Join(schemes, ", "))
	case u.User != nil:
		return "", "", graphmill.Invalid(field, "user and password must not stand in it; use --graph-user and --graph-password-file")
	case u.Hostname() == "":
		return "", "", graphmill.Invalid(field, "a host is missing, as in %s://localhost:7687", u.Scheme)
	case u.Path != "" && u.Path != "/":
		return "", "", graphmill.Invalid(field, "a path has no meaning there; the database is named by --graph-database")
	case u.RawQuery != "" && strings.HasPrefix(u.Scheme, "bolt"):
		return "", "", graphmill.Invalid(field, "a query (?...) has a meaning with neo4j:// only")
	case u.Port() == "":
		return u.Scheme, net.JoinHostPort(u.Hostname(), "7687"), nil
	}
	return u.Scheme, u.Host, nil
}

// Verify reaches the database once: it is there, it lets us in, and the
// database of that name (empty: the default one) exists. A *graphmill.Fault
// tells what does not hold.
func (s *Sink) Verify(ctx context.Context, database string) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	reach, cancel := s.bound(ctx, 2*s.cfg.ConnectTimeout)
	defer cancel()
	session := s.session(reach, s.database(database), nil)
	defer s.closeSession(reach, session)
	result, err := autocommit(reach, session, "RETURN 1 AS reached", nil)
	if err == nil {
		_, err = s.consume(reach, result)
	}
	if err != nil {
		return s.fault(ctx, stageReach, err, graphmill.WholeBatch)
	}
	return nil
}

// Connections returns how many connections are in use, and how many may be.
func (s *Sink) Connections() (inUse, most int) { return s.slots.state() }

// Texts tells how the query texts of a stream were executed last, the ones used
// last first, as far as they are remembered.
func (s *Sink) Texts(stream string) []graphmill.TextStatus { return s.streams.texts(stream) }

// Lanes says how many lanes run now. Each may have a connection, as far as
// MaxConnections allows, and a few are there for questions.
func (s *Sink) Lanes(n int) {
	if most := s.slots.resize(n); n > most {
		s.log.Warn("more lanes run than there may be connections to the database; some wait for others",
			"lanes", n, "connections", most, "setting", "--graph-max-connections")
	}
}

// Close waits for the batches at work, as long as ctx allows, then cancels
// them. It may be called more than once.
func (s *Sink) Close(ctx context.Context) error {
	first := false
	s.once.Do(func() { first = true; close(s.closing) })
	if !first {
		return nil
	}
	defer s.end()
	if !s.slots.drain(ctx) {
		s.end()
		s.slots.drain(context.WithoutCancel(ctx)) // what has been cancelled leaves at once
	}
	if err := s.driver.Close(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("close the connections to %s: %w", s.target, err)
	}
	return nil
}

// enter waits until the database may be asked, and takes a slot. The caller calls
// leave in the end.
func (s *Sink) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, s.interrupted(ctx)
	}
	asked, err := s.logins.enter(ctx, s.closing)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, s.interrupted(ctx)
	case err != nil:
		return nil, err
	}
	if err := s.takeSlot(ctx); err != nil {
		asked()
		return nil, err
	}
	return func() { asked(); s.slots.release() }, nil
}

func (s *Sink) takeSlot(ctx context.Context) (err error) {
	select {
	case <-s.closing: // has to win where both are ready
		return s.closed()
	default:
	}
	began := time.Now()
	wait := time.NewTimer(s.cfg.ConnectTimeout)
	defer wait.Stop()
	turn := s.slots.take()
	select {
	case <-turn:
		return nil
	case <-s.closing:
		err = s.closed()
	case <-ctx.Done():
		err = s.interrupted(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			f := s.exhausted(time.Since(began)) // which is why there is no answer
			f.Err = ctx.Err()
			err = f
		}
	case <-wait.C:
		err = s.exhausted(s.cfg.ConnectTimeout)
	}
	s.slots.leave(turn)
	return err
}

func (s *Sink) exhausted(waited time.Duration) *graphmill.Fault {
	_, most := s.slots.state()
	return faultExhausted.whole(fmt.Sprintf("all %d connections to the database at %s have been in use for %s", most, s.target, waited.Round(time.Millisecond)))
}

// interrupted is the error of a caller that no longer wants an answer.
func (s *Sink) interrupted(ctx context.Context) error {
	return fmt.Errorf("waiting for the database at %s: %w", s.target, ctx.Err())
}

func (s *Sink) closed() *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultTransient, Code: codeUnreachable, Outage: true, Message: graphmill.WholeBatch,
		Text: "the connections to the database are being closed",
	}
}

// bound gives every call into the driver a deadline and a pass. Without a deadline
// the driver does not notice that ctx is cancelled while it reads (its racing
// reader waits for ctx only where there is one). The caller notes what has become
// of the calls before he calls cancel.
func (s *Sink) bound(ctx context.Context, limit time.Duration) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(s.life, end)
	ctx, leave := s.logins.accompany(ctx)
	return ctx, func() { leave(); stop(); end() }
}

// answered notes that the database has answered whoever calls by ctx.
func (s *Sink) answered(ctx context.Context) {
	s.reached.Store(true)
	if s.logins.worked(ctx) {
		s.password.wasRight()
	}
}

func (s *Sink) database(name string) string { return cmp.Or(name, s.cfg.Database) }

func (s *Sink) session(ctx context.Context, database string, bookmarks neo4j.Bookmarks) neo4j.SessionWithContext {
	return s.driver.NewSession(ctx, neo4j.SessionConfig{
		AccessMode: neo4j.AccessModeWrite, DatabaseName: database, Bookmarks: bookmarks,
	})
}

// closeSession gives the connection back. What it reports is not news: a
// transaction has ended before, or its connection is gone.
func (s *Sink) closeSession(ctx context.Context, session neo4j.SessionWithContext) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout) // what cannot be read may leave it waiting
	defer cancel()
	if err := closed(ctx, session); err != nil {
		s.log.Debug("close a session of the database", "error", err)
	}
}

// autocommit runs a statement outside of a transaction.
func autocommit(ctx context.Context, session neo4j.SessionWithContext, query string, params map[string]any, tx ...func(*neo4j.TransactionConfig)) (result neo4j.ResultWithContext, err error) {
	defer rescue(&err)
	result, err = session.Run(ctx, query, params, tx...)
	if isLeftover(err) {
		result, err = session.Run(ctx, query, params, tx...)
	}
	return result, err
}

// begin begins a transaction.
func begin(ctx context.Context, session neo4j.SessionWithContext, tx ...func(*neo4j.TransactionConfig)) (t neo4j.ExplicitTransaction, err error) {
	defer rescue(&err)
	t, err = session.BeginTransaction(ctx, tx...)
	if isLeftover(err) {
		t, err = session.BeginTransaction(ctx, tx...)
	}
	return t, err
}

// isLeftover reports whether the pool handed out a connection that an earlier
// failure had left unusable. Asked again, it has been mended. (In v5.28.4 of the
// driver a connection is not reset when PULL has failed beside its RUN, which is
// what Neo4j makes of parameters that it cannot read.)
func isLeftover(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "invalid state ")
}

// consume reads a result to its end, so that an error shows here and not at the
// next call. The answer to PULL is on its way already: it costs no round trip,
// unless there are more rows than fetchSize.
func (s *Sink) consume(ctx context.Context, result neo4j.ResultWithContext) (summary neo4j.ResultSummary, err error) {
	defer rescue(&err)
	summary, err = result.Consume(ctx)
	if err != nil {
		return nil, err
	}
	s.answered(ctx)
	s.observe(summary.Server())
	return summary, nil
}

// observe remembers which server answers. Another version may read texts
// differently.
func (s *Sink) observe(server neo4j.ServerInfo) {
	agent := server.Agent()
	s.mu.Lock()
	before := s.server
	s.server = agent
	s.mu.Unlock()
	if before == agent {
		return
	}
	s.log.Info("the database answers", "at", s.target, "server", agent)
	if before != "" {
		s.verdicts.forget()
	}
}

// fault turns an error of the driver into what a sink returns: the context's
// error where the caller's context has ended, a *graphmill.Fault else.
func (s *Sink) fault(ctx context.Context, at stage, err error, message int) error {
	if cause := ctx.Err(); cause != nil {
		if at != stageCommit {
			return s.interrupted(ctx)
		}
		return &graphmill.Fault{
			Class: graphmill.FaultTransient, Code: codeUnreachable, Unknown: true, Message: graphmill.WholeBatch,
			Text: "the outcome of a commit is not known: it was interrupted", Err: cause,
		}
	}
	if s.life.Err() != nil {
		f := s.closed()
		f.Unknown = at == stageCommit
		return f
	}
	causes := causesOf(err)
	if w := find[*withheld](causes); w != nil {
		return s.logins.withheld(w)
	}
	if find[*crowded](causes) != nil {
		f := faultExhausted.whole(fmt.Sprintf("no login to the database at %s could begin within %s: others are under way, and take long", s.target, s.cfg.ConnectTimeout/2))
		f.Next = "the stream goes on by itself; see why logins take long, or let fewer streams begin at once"
		return f
	}
	f := classify(s.target, s.reached.Load(), at, err, message)
	if at == stageReach && f.Code == codeUnreachable {
		if wrong := s.explainClosed(ctx, causes); wrong != nil {
			f = wrong
		}
	}
	if f.Code == codeAuth {
		s.password.wasRefused() // before others are let go on
		f.Text = fmt.Sprintf("the database at %s refuses the login of user %q: %s", s.target, s.cfg.User, f.Text)
	}
	s.logins.failed(f)
	if f.Code == codeUnreachable {
		s.verdicts.forget() // what comes back may be another server
	}
	return f
}
