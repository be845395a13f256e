package boltserver_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/config"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect makes a driver that is closed when the test ends.
func connect(t *testing.T, uri string, auth neo4j.AuthToken) neo4j.DriverWithContext {
	t.Helper()
	driver, err := neo4j.NewDriverWithContext(uri, auth, func(c *config.Config) {
		c.TelemetryDisabled = true
		c.UserAgent = "boltserver-test/1"
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, driver.Close(context.Background())) })
	return driver
}

func open(t *testing.T, driver neo4j.DriverWithContext, database string) neo4j.SessionWithContext {
	t.Helper()
	session := driver.NewSession(t.Context(), neo4j.SessionConfig{DatabaseName: database})
	t.Cleanup(func() { session.Close(context.Background()) })
	return session
}

// code returns the database's code of an error.
func code(t *testing.T, err error) string {
	t.Helper()
	var e *neo4j.Neo4jError
	require.ErrorAs(t, err, &e)
	return e.Code
}

func TestRecordsTransactions(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "movies")

	tx, err := session.BeginTransaction(t.Context(), neo4j.WithTxTimeout(3*time.Second),
		neo4j.WithTxMetadata(map[string]any{"app": "test"}))
	require.NoError(t, err)
	for _, q := range []string{"CREATE (n {x: $x})", "CREATE (m {x: $x})"} {
		_, err := tx.Run(t.Context(), q, map[string]any{"x": int64(1)})
		require.NoError(t, err)
	}
	require.Empty(t, s.Committed())
	require.NoError(t, tx.Commit(t.Context()))

	tx, err = session.BeginTransaction(t.Context())
	require.NoError(t, err)
	_, err = tx.Run(t.Context(), "CREATE (o)", nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))

	result, err := session.Run(t.Context(), "SHOW INDEXES", nil)
	require.NoError(t, err)
	_, err = result.Consume(t.Context())
	require.NoError(t, err)

	committed := s.Committed()
	require.Len(t, committed, 1)
	require.Equal(t, "movies", committed[0].Database)
	require.Equal(t, map[string]any{"app": "test"}, committed[0].Metadata)
	require.Equal(t, 3*time.Second, committed[0].Timeout)
	require.False(t, committed[0].ReadOnly)
	require.Equal(t, []boltserver.Statement{
		{Query: "CREATE (n {x: $x})", Params: map[string]any{"x": int64(1)}, Database: "movies"},
		{Query: "CREATE (m {x: $x})", Params: map[string]any{"x": int64(1)}, Database: "movies"},
	}, committed[0].Statements)
	require.Len(t, s.RolledBack(), 1)
	require.Len(t, s.Autocommitted(), 1)
	require.Equal(t, []string{"boltserver-test/1"}, s.UserAgents())

	s.Forget()
	require.Empty(t, s.Committed())
}

func TestValuesComeAsTheyWereSent(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "")
	day := time.Date(2026, 1, 31, 12, 30, 0, 5, time.UTC)
	offset := day.In(time.FixedZone("Offset", 3600))
	paris, err := time.LoadLocation("Europe/Paris")
	require.NoError(t, err)
	params := map[string]any{
		"null": nil, "bool": true, "float": 1.5, "text": strings.Repeat("ä", 300), "bytes": []byte{1, 2},
		"ints":       []any{int64(0), int64(-16), int64(-17), int64(127), int64(128), int64(-40_000), int64(1 << 31), int64(-1 << 63)},
		"map":        map[string]any{"a": []any{map[string]any{"b": int64(1)}}},
		"long":       make([]any, 70_000),
		"date":       dbtype.Date(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)),
		"local_time": dbtype.LocalTime(time.Date(1970, 1, 1, 23, 59, 59, 7, time.UTC)),
		"time":       dbtype.Time(time.Date(1970, 1, 1, 23, 59, 59, 7, time.FixedZone("Offset", -3600))),
		"local":      dbtype.LocalDateTime(day),
		"offset":     offset, "zone": day.In(paris),
		"duration": dbtype.Duration{Months: 1, Days: -2, Seconds: 3, Nanos: 4},
		"point":    dbtype.Point2D{SpatialRefId: 4326, X: 12, Y: 56},
		"point3":   dbtype.Point3D{SpatialRefId: 4979, X: 12, Y: 56, Z: 7},
	}
	result, err := session.Run(t.Context(), "RETURN $text", params)
	require.NoError(t, err)
	_, err = result.Consume(t.Context())
	require.NoError(t, err)

	got := s.Autocommitted()[0].Statements[0].Params
	require.Equal(t, offset.String(), got["offset"].(time.Time).String())
	require.Equal(t, "Europe/Paris", got["zone"].(time.Time).Location().String())
	require.True(t, day.Equal(got["zone"].(time.Time)))
	require.Equal(t, time.Time(params["time"].(dbtype.Time)).String(), time.Time(got["time"].(dbtype.Time)).String())
	for _, name := range []string{"offset", "zone", "time"} { // equal, but for the location's address
		delete(params, name)
		delete(got, name)
	}
	require.Equal(t, params, got)
}

func TestRowsOfAStatement(t *testing.T) {
	one := map[string]any{"a": int64(1)}
	for _, tc := range []struct {
		name   string
		params map[string]any
		want   []map[string]any
	}{
		{"of a coalesced one", map[string]any{"rows": []any{one, map[string]any{}}}, []map[string]any{one, {}}},
		{"of a plain one", one, []map[string]any{one}},
		{"of a plain one with a list of that name", map[string]any{"rows": []any{int64(1)}}, []map[string]any{{"rows": []any{int64(1)}}}},
		{"of a plain one with more beside it", map[string]any{"rows": []any{}, "a": nil}, []map[string]any{{"rows": []any{}, "a": nil}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, boltserver.Statement{Params: tc.params}.Rows())
		})
	}
}

func TestCountsFlights(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "")
	large := map[string]any{"x": strings.Repeat("x", 1<<20)} // arrives in pieces

	tx, err := session.BeginTransaction(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Flights(), "logging in does not count")
	for range 3 {
		result, err := tx.Run(t.Context(), "CREATE (n {x: $x})", large)
		require.NoError(t, err)
		_, err = result.Consume(t.Context())
		require.NoError(t, err)
	}
	require.EqualValues(t, 4, s.Flights())
	require.NoError(t, tx.Commit(t.Context()))
	require.EqualValues(t, 5, s.Flights())
}

func TestResultsOfAHook(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{Hooks: boltserver.Hooks{
		OnRun: func(boltserver.Statement) boltserver.Reply {
			return boltserver.Reply{Fields: []string{"n", "s"}, Rows: [][]any{{1, "a"}, {2, "b"}, {3, nil}}}
		},
	}})
	driver := connect(t, s.URI(), neo4j.NoAuth())
	session := driver.NewSession(t.Context(), neo4j.SessionConfig{FetchSize: 2})
	defer session.Close(t.Context())
	result, err := session.Run(t.Context(), "MATCH (n) RETURN n, s", nil)
	require.NoError(t, err)
	records, err := result.Collect(t.Context())
	require.NoError(t, err)
	require.Len(t, records, 3)
	require.Equal(t, []any{int64(3), nil}, records[2].Values)
	require.EqualValues(t, 2, s.Flights())
}

func TestLogin(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{User: "neo4j", Password: "right", Databases: []string{"neo4j", "system"}})
	require.NoError(t, connect(t, s.URI(), neo4j.BasicAuth("neo4j", "right", "")).VerifyConnectivity(t.Context()))

	err := connect(t, s.URI(), neo4j.BasicAuth("neo4j", "wrong", "")).VerifyConnectivity(t.Context())
	require.Equal(t, "Neo.ClientError.Security.Unauthorized", code(t, err))

	s.SetHooks(boltserver.Hooks{OnLogon: func(user string) *boltserver.Failure {
		return &boltserver.Failure{Code: "Neo.ClientError.Security.AuthenticationRateLimit", Message: user}
	}})
	err = connect(t, s.URI(), neo4j.BasicAuth("neo4j", "right", "")).VerifyConnectivity(t.Context())
	require.Equal(t, "Neo.ClientError.Security.AuthenticationRateLimit", code(t, err))
	require.EqualValues(t, 3, s.Logons())
}

func TestUnknownDatabase(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{Databases: []string{"neo4j"}})
	session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "nope")
	_, err := session.BeginTransaction(t.Context())
	require.Equal(t, "Neo.ClientError.Database.DatabaseNotFound", code(t, err))
	_, err = session.Run(t.Context(), "RETURN 1", nil)
	require.Equal(t, "Neo.ClientError.Database.DatabaseNotFound", code(t, err))
}

func TestRoutingDriver(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	driver := connect(t, strings.Replace(s.URI(), "bolt://", "neo4j://", 1), neo4j.NoAuth())
	require.NoError(t, driver.VerifyConnectivity(t.Context()))
}

func TestFailures(t *testing.T) {
	fail := func() boltserver.Reply {
		return boltserver.Fail("Neo.ClientError.Schema.ConstraintValidationFailed", "no")
	}
	for _, tc := range []struct {
		name       string
		hooks      boltserver.Hooks
		begin, run bool // where the client hears of it; else at COMMIT
	}{
		{"at BEGIN", boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply { return fail() }}, true, false},
		{"at RUN", boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply { return fail() }}, false, true},
		{"at PULL", boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
			return boltserver.Reply{LateFailure: fail().Failure}
		}}, false, false},
		{"at COMMIT", boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply { return fail() }}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := boltserver.Start(t, boltserver.Options{Hooks: tc.hooks})
			session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "")
			tx, err := session.BeginTransaction(t.Context())
			if tc.begin {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			_, err = tx.Run(t.Context(), "CREATE (n)", nil)
			if tc.run {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				err = tx.Commit(t.Context())
			}
			require.Equal(t, "Neo.ClientError.Schema.ConstraintValidationFailed", code(t, err))
			require.Len(t, s.RolledBack(), 1)
			require.Empty(t, s.Committed())

			// The connection is good for the next one.
			s.SetHooks(boltserver.Hooks{})
			require.NoError(t, session.Close(t.Context()))
			require.NoError(t, commitOne(t, s))
		})
	}
}

// commitOne commits a transaction of one statement with a driver of its own.
func commitOne(t *testing.T, s *boltserver.Server) error {
	session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "")
	tx, err := session.BeginTransaction(t.Context())
	if err != nil {
		return err
	}
	if _, err := tx.Run(t.Context(), "CREATE (n)", nil); err != nil {
		return err
	}
	return tx.Commit(t.Context())
}

func TestCuts(t *testing.T) {
	for _, tc := range []struct {
		name      string
		hooks     boltserver.Hooks
		committed int
	}{
		{"before RUN", boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
			return boltserver.Reply{Cut: boltserver.CutBefore}
		}}, 0},
		{"after RUN", boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
			return boltserver.Reply{Cut: boltserver.CutAfter}
		}}, 0},
		{"before COMMIT", boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
			return boltserver.Reply{Cut: boltserver.CutBefore}
		}}, 0},
		{"after COMMIT", boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
			return boltserver.Reply{Cut: boltserver.CutAfter}
		}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := boltserver.Start(t, boltserver.Options{Hooks: tc.hooks})
			err := commitOne(t, s)
			var lost *neo4j.ConnectivityError
			require.ErrorAs(t, err, &lost)
			require.Len(t, s.Committed(), tc.committed)
			if tc.committed == 0 {
				// The client may see the end before the server has noted it.
				require.Eventually(t, func() bool { return len(s.RolledBack()) == 1 }, time.Minute, time.Millisecond)
			}
		})
	}
}

func TestHeldStatementEndsWithItsClient(t *testing.T) {
	held := make(chan struct{})
	s := boltserver.Start(t, boltserver.Options{Hooks: boltserver.Hooks{
		OnRun: func(boltserver.Statement) boltserver.Reply {
			close(held)
			return boltserver.Reply{Wait: make(chan struct{})} // for ever
		},
	}})
	session := open(t, connect(t, s.URI(), neo4j.NoAuth()), "")
	tx, err := session.BeginTransaction(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // the driver needs a deadline to notice the end
	go func() { <-held; cancel() }()
	_, err = tx.Run(ctx, "CREATE (n)", nil)
	require.Error(t, err)
	require.Eventually(t, func() bool { return len(s.RolledBack()) == 1 }, time.Minute, time.Millisecond)
}

func TestStopAndListenAgain(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := boltserver.Start(t, boltserver.Options{Hooks: boltserver.Hooks{
		OnRun: func(boltserver.Statement) boltserver.Reply {
			close(entered)
			return boltserver.Reply{Wait: release}
		},
	}})
	uri := s.URI()
	failed := make(chan error)
	go func() { failed <- commitOne(t, s) }()
	<-entered
	s.Stop() // returns although a statement is held
	require.Error(t, <-failed)
	require.Zero(t, s.Connections())
	require.Len(t, s.RolledBack(), 1)

	_, err := net.Dial("tcp", s.Address())
	require.Error(t, err)
	require.NoError(t, s.Listen())
	require.NoError(t, s.Listen(), "a second call changes nothing")
	require.Equal(t, uri, s.URI())
	s.SetHooks(boltserver.Hooks{})
	require.NoError(t, commitOne(t, s))

	s.Close()
	s.Close()
	require.Error(t, s.Listen())
}

func TestAddressInUse(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	_, err := boltserver.New(boltserver.Options{Address: s.Address()})
	require.Error(t, err)
}

// speak sends raw bytes behind the handshake and returns when the server has
// closed the connection.
func speak(t testing.TB, address string, b []byte) {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	conn.Write([]byte{0x60, 0x60, 0xb0, 0x17, 0, 4, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	conn.Write(b)
	conn.(*net.TCPConn).CloseWrite()
	for buf := make([]byte, 4096); ; {
		if _, err := conn.Read(buf); err != nil {
			require.False(t, errors.Is(err, context.DeadlineExceeded) || isTimeout(err), "the server hangs")
			return
		}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestNotBolt(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	for _, hello := range []string{
		"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x60\x60\xb0\x17" + strings.Repeat("\x00", 16),
		"\x60\x60\xb0\x17\x00\x02\x08\x05" + strings.Repeat("\x00", 12), // 5.8 to 5.6
	} {
		conn, err := net.Dial("tcp", s.Address())
		require.NoError(t, err)
		_, err = conn.Write([]byte(hello))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err = conn.Read(make([]byte, 100))
		require.False(t, err != nil && isTimeout(err), "the server hangs")
		conn.Close()
	}
	require.NoError(t, commitOne(t, s))
}

// FuzzHostileClient sends bytes that no driver sends.
func FuzzHostileClient(f *testing.F) {
	hello := "\x00\x03\xb1\x01\xa0\x00\x00" + "\x00\x03\xb1\x6a\xa0\x00\x00" // HELLO {}, LOGON {}
	for _, b := range []string{
		"", "\x00\x00", "\xff\xff", "\x00\x01\xb1\x00\x00", "\x00\x02\xb0\x01\x00\x00", hello,
		hello + "\x00\x03\xb1\x3f\xa0\x00\x00",                     // PULL of nothing
		hello + "\x00\x02\xb0\x12\x00\x00",                         // COMMIT of nothing
		hello + "\x00\x05\xb3\x10\x80\xa0\xa0\x00\x00",             // RUN
		hello + "\x00\x06\xb1\x11\xd6\xff\xff\xff\x00\x00",         // a list longer than the message
		hello + "\x00\x03\xb1\x11\xa0\x00\x00\x00\x02\xb0\x13\x00", // BEGIN, ROLLBACK
		hello + "\x00\x06\xb1\x11\xa1\x01\x01\x01\x00\x00",         // a map whose key is a number
		hello + "\x00\x40" + strings.Repeat("\x91", 64) + "\x00\x00",
	} {
		f.Add([]byte(b))
	}
	s := boltserver.Start(f, boltserver.Options{Databases: []string{"neo4j"}})
	f.Fuzz(func(t *testing.T, b []byte) {
		speak(t, s.Address(), b)
		require.Empty(t, s.Committed())
		s.Forget()
	})
}
