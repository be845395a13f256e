package graph_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
)

const (
	transient = graphmill.FaultTransient
	tooBig    = graphmill.FaultTooBig
	setUp     = graphmill.FaultSetup
	message   = graphmill.FaultMessage
)

// doubtful are those of the errors below for which a message is not blamed at
// once.
var doubtful = []string{
	"Neo.ClientError.Something.New not known",
	"Neo.DatabaseError.General.UnknownError not known",
	"odd no code at all",
	"Neo.ClientError.Statement.EntityNotFound deleted meanwhile",
	"Neo.ClientError.Procedure.ProcedureCallFailed no answer",
	"Neo.ClientError.Statement.ExternalResourceFailed no file",
	"Memgraph.ClientError.MemgraphError.MemgraphError something new",
}

// TestDatabaseErrorsOfAStatement goes through the driver, which changes some of
// the codes.
func TestDatabaseErrorsOfAStatement(t *testing.T) {
	for _, tc := range []struct {
		code, text string
		class      graphmill.FaultClass
		reason     string
		outage     bool
	}{
		// Of a message, also where the code says something else.
		{"Neo.ClientError.Schema.ConstraintValidationFailed", "Node(2) already exists", message, "message", false},
		{"Neo.ClientError.Statement.SemanticError", "null key", message, "message", false},
		{"Neo.ClientError.Statement.TypeError", "map as property", message, "message", false},
		{"Neo.ClientError.Statement.ArithmeticError", "/ by zero", message, "message", false},
		{"Neo.ClientError.Statement.SyntaxError", "Text cannot be parsed to a Date", message, "message", false},
		{"Neo.ClientError.Statement.SyntaxError", "Type mismatch for parameter 'z'", message, "message", false},
		{"Neo.ClientError.Statement.ParameterMissing", "Expected parameter(s): a", message, "message", false},
		{"Neo.ClientError.Statement.ExternalResourceFailed", "no file", message, "message", false},
		{"Neo.ClientError.Procedure.ProcedureNotFound", "no procedure", message, "message", false},
		{"Neo.ClientError.Request.Invalid", "bad zone", message, "message", false},
		{"Neo.ClientError.Transaction.ForbiddenDueToTransactionType", "schema", message, "message", false},
		{"Neo.DatabaseError.Statement.ExecutionFailed", "property value is too large to index", message, "message", false},
		{"Neo.DatabaseError.Transaction.TransactionStartFailed", "CALL IN TRANSACTIONS", message, "message", false},
		{"Neo.TransientError.General.StackOverFlowError", "nested", message, "message", false},
		{"Neo.ClientError.Something.New", "not known", message, "message", false},
		{"Neo.DatabaseError.General.UnknownError", "not known", message, "message", false},
		{"odd", "no code at all", message, "message", false},
		{"Neo.ClientError.Statement.EntityNotFound", "deleted meanwhile", message, "message", false},
		{"Neo.ClientError.Procedure.ProcedureCallFailed", "no answer", message, "message", false},

		{"Neo.TransientError.Transaction.DeadlockDetected", "cycle", transient, "conflict", false},
		{"Neo.TransientError.Transaction.LockAcquisitionTimeout", "lock", transient, "conflict", false},
		{"Neo.TransientError.Transaction.LockClientStopped", "lock", transient, "conflict", false},
		{"Neo.ClientError.Transaction.LockClientStopped", "lock", transient, "conflict", false},
		{"Neo.TransientError.Transaction.Terminated", "by an operator", transient, "conflict", false},
		{"Neo.ClientError.Transaction.Terminated", "by an operator", transient, "conflict", false},
		{"Neo.TransientError.Something.New", "not known", transient, "conflict", false},
		{"Neo.ClientError.Security.AuthorizationExpired", "again", transient, "conflict", false},

		{"Neo.TransientError.General.MemoryPoolOutOfMemoryError", "memory", tooBig, "too_big", false},
		{"Neo.TransientError.General.TransactionOutOfMemoryError", "memory", tooBig, "too_big", false},
		{"Neo.ClientError.General.TransactionOutOfMemoryError", "memory", tooBig, "too_big", false},
		{"Neo.TransientError.General.OutOfMemoryError", "memory", tooBig, "too_big", false},
		{"Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration", "time", tooBig, "too_big", false},
		{"Neo.ClientError.Transaction.TransactionTimedOut", "time", tooBig, "too_big", false},

		{"Neo.TransientError.General.DatabaseUnavailable", "stopping", transient, "database_unreachable", true},
		{"Neo.TransientError.Database.DatabaseUnavailable", "stopped", transient, "database_unreachable", true},
		{"Neo.TransientError.Cluster.ReplicationFailure", "cluster", transient, "database_unreachable", true},
		{"Neo.TransientError.Transaction.LeaderSwitch", "cluster", transient, "database_unreachable", true},
		{"Neo.TransientError.Transaction.MaximumTransactionLimitReached", "many", transient, "database_unreachable", true},
		{"Neo.ClientError.Routing.RoutingFailed", "cluster", transient, "database_unreachable", true},
		{"Neo.ClientError.Routing.DbmsInPanic", "panic", transient, "database_error", true},
		{"Neo.ClientError.Cluster.NotALeader", "cluster", transient, "database_unreachable", true},
		{"Neo.ClientError.Security.AuthProviderTimeout", "LDAP", transient, "database_unreachable", true},
		{"Neo.ClientError.General.WriteOnReadOnlyAccessDatabase", "read-only", transient, "database_read_only", true},
		{"Neo.ClientError.General.ForbiddenOnReadOnlyDatabase", "read-only", transient, "database_read_only", true},
		{"Neo.DatabaseError.Transaction.TransactionLogError", "disk full", transient, "database_error", true},

		{"Neo.ClientError.Security.Unauthorized", "no", setUp, "auth", false},
		{"Neo.ClientError.Security.AuthenticationRateLimit", "no", setUp, "auth", false},
		{"Neo.ClientError.Security.CredentialsExpired", "no", setUp, "auth", false},
		{"Neo.ClientError.Security.TokenExpired", "no", setUp, "auth", false},
		{"Neo.ClientError.Security.Forbidden", "no", setUp, "forbidden", false},
		{"Neo.ClientError.Database.DatabaseNotFound", "no", setUp, "database_not_found", false},

		// Memgraph has one code for nearly everything.
		{"Memgraph.TransientError.MemgraphError.MemgraphError", "Cannot resolve conflicting transactions. You can retry this transaction when the conflicting transaction is finished.", transient, "conflict", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Cannot resolve conflicting transactions.", transient, "conflict", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Unable to commit due to unique constraint violation on :A(id)", message, "message", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "line 1:1 mismatched input 'X'", message, "message", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Memory limit exceeded! Attempting to allocate a chunk", tooBig, "too_big", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Transaction was asked to abort because of transaction timeout.", tooBig, "too_big", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Transaction was asked to abort because of database shutdown.", transient, "database_unreachable", true},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Transaction was asked to abort by another user.", transient, "conflict", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Write query forbidden on the replica!", transient, "database_read_only", true},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "You are not authorized to execute this query", setUp, "forbidden", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "Cannot get shared access to the storage. Try stopping other queries", transient, "conflict", false},
		{"Memgraph.ClientError.MemgraphError.MemgraphError", "something new", message, "message", false},
		{"Memgraph.ClientError.Security.Unauthenticated", "Authentication failure", setUp, "auth", false},
	} {
		t.Run(tc.code+" "+tc.text, func(t *testing.T) {
			s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
				if st.Query == "CREATE (:B)" {
					return boltserver.Fail(tc.code, tc.text)
				}
				return boltserver.Reply{}
			}})
			_, err := open(t, s).Execute(t.Context(), work(plainly("CREATE (:A)", 3), plainly("CREATE (:B)", 5)))
			f := faultOf(t, err)
			require.Equal(t, tc.class, f.Class)
			require.Equal(t, tc.reason, f.Code)
			require.Equal(t, tc.outage, f.Outage)
			require.False(t, f.Unknown, "nothing has been committed")
			require.Equal(t, slices.Contains(doubtful, tc.code+" "+tc.text), f.Unfamiliar)
			require.Contains(t, f.Text, tc.text)
			if tc.class == message || tc.class == tooBig {
				require.Equal(t, 5, f.Message)
			} else {
				require.Equal(t, graphmill.WholeBatch, f.Message)
			}
			if tc.class != message {
				require.NotEmpty(t, f.Next+map[bool]string{true: "a conflict is retried"}[f.Code == "conflict"])
			}
		})
	}
}

func TestNothingIsOfAMessageBeforeAStatement(t *testing.T) {
	s := start(t, boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply {
		return boltserver.Fail("Neo.DatabaseError.Transaction.TransactionStartFailed", "no space left")
	}})
	_, err := open(t, s).Execute(t.Context(), work(plainly("CREATE (:A)", 3)))
	f := faultOf(t, err)
	require.Equal(t, transient, f.Class)
	require.Equal(t, "database_error", f.Code)
	require.True(t, f.Outage)
}

func TestTextsOfFaultsAreBounded(t *testing.T) {
	s := start(t, boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
		return boltserver.Fail("Neo.ClientError.Statement.SyntaxError", "a\n  b "+strings.Repeat("ä", 10_000))
	}})
	_, err := open(t, s).Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
	f := faultOf(t, err)
	require.Less(t, len(f.Text), 800)
	require.Contains(t, f.Text, "SyntaxError: a b ää")
	require.True(t, strings.ToValidUTF8(f.Text, "") == f.Text)
}

// certificate makes a self-signed certificate for names.
func certificate(t *testing.T, from, to time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: from, NotAfter: to, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestCase32VerifyTellsWhatDoesNotHold(t *testing.T) {
	now := time.Now()
	good := &tls.Config{Certificates: []tls.Certificate{certificate(t, now.Add(-time.Hour), now.Add(time.Hour), "db.example")}}
	expired := &tls.Config{Certificates: []tls.Certificate{certificate(t, now.Add(-2*time.Hour), now.Add(-time.Hour), "db.example")}}
	clients := good.Clone()
	clients.ClientAuth = tls.RequireAnyClientCert
	closed := boltserver.Start(t, boltserver.Options{})
	closed.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer web.Close()
	go answer(web, "HTTP/1.1 400 Bad Request\r\n\r\n")
	old, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer old.Close()
	go answer(old, "\x00\x00\x00\x00")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer gone.Close()
	go answer(gone, "")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()

	for _, tc := range []struct {
		name     string
		server   boltserver.Options
		uri      string // with %s for the server's address; else of another
		database string
		class    graphmill.FaultClass
		code     string
		outage   bool
		text     string
	}{
		{"wrong password", boltserver.Options{User: "neo4j", Password: "other"}, "bolt://%s", "", setUp, "auth", false, "Neo.ClientError.Security.Unauthorized"},
		{"wrong password, of a cluster", boltserver.Options{User: "neo4j", Password: "other"}, "neo4j://%s", "", setUp, "auth", false, "Neo.ClientError.Security.Unauthorized"},
		{"too many wrong passwords", boltserver.Options{Hooks: boltserver.Hooks{OnLogon: func(string) *boltserver.Failure {
			return &boltserver.Failure{Code: "Neo.ClientError.Security.AuthenticationRateLimit", Message: "too many"}
		}}}, "bolt://%s", "", setUp, "auth", false, "RateLimit"},
		{"unknown database", boltserver.Options{Databases: []string{"neo4j"}}, "bolt://%s", "nope", setUp, "database_not_found", false, "'nope'"},
		{"certificate of nobody known", boltserver.Options{TLS: good}, "bolt+s://%s", "", setUp, "tls", false, "certificate"},
		{"certificate of nobody known, of a cluster", boltserver.Options{TLS: good}, "neo4j+s://%s", "", setUp, "tls", false, "certificate"},
		{"a client certificate is asked for", boltserver.Options{TLS: clients}, "bolt+ssc://%s", "", setUp, "tls", false, "certificate"},
		{"certificate that has expired", boltserver.Options{TLS: expired}, "bolt+s://%s", "", setUp, "tls", false, "expired"},
		{"TLS to a server without", boltserver.Options{}, "bolt+ssc://%s", "", setUp, "tls", false, "answers without"},
		{"TLS to a server without, of a cluster", boltserver.Options{}, "neo4j+ssc://%s", "", setUp, "tls", false, "answers without"},
		{"TLS to a server that closes the connection", boltserver.Options{}, "bolt+ssc://" + gone.Addr().String(), "", transient, "database_unreachable", true, "the database at 127.0.0.1"},
		{"TLS to a web server", boltserver.Options{}, "bolt+ssc://" + web.Addr().String(), "", setUp, "tls", false, "tls"},
		{"no TLS to a server with", boltserver.Options{TLS: good}, "bolt://%s", "", setUp, "tls", false, "speaks TLS only"},
		{"no TLS to a server with, of a cluster", boltserver.Options{TLS: good}, "neo4j://%s", "", setUp, "tls", false, "speaks TLS only"},
		{"nobody there", boltserver.Options{}, "bolt://" + closed.Address(), "", transient, "database_unreachable", true, "connection refused"},
		{"nobody there, of a cluster", boltserver.Options{}, "neo4j://" + closed.Address(), "", transient, "database_unreachable", true, "connection refused"},
		{"closes the connection", boltserver.Options{}, "bolt://" + gone.Addr().String(), "", transient, "database_unreachable", true, "the database at 127.0.0.1"},
		{"does not answer", boltserver.Options{}, "bolt://" + silent.Addr().String(), "", transient, "database_unreachable", true, "it does not answer"},
		{"a web server", boltserver.Options{}, "bolt://" + web.Addr().String(), "", setUp, "database_incompatible", false, "HTTP"},
		{"a version of Bolt that is not spoken", boltserver.Options{}, "bolt://" + old.Addr().String(), "", setUp, "database_incompatible", false, "Bolt versions"},
		{"database stops", boltserver.Options{Hooks: boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
			return boltserver.Fail("Neo.TransientError.General.DatabaseUnavailable", "stopping")
		}}}, "bolt://%s", "", transient, "database_unreachable", true, "stopping"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := boltserver.Start(t, tc.server)
			uri := tc.uri
			if strings.Contains(uri, "%s") {
				uri = fmt.Sprintf(uri, s.Address())
			}
			limit := 30 * time.Second // a busy machine is no silent server
			if uri == "bolt://"+silent.Addr().String() {
				limit = 300 * time.Millisecond
			}
			sink := openURI(t, uri, func(c *graph.Config) {
				c.User, c.Password, c.ConnectTimeout = "neo4j", "very-secret", limit
			})
			err := sink.Verify(t.Context(), tc.database)
			f := faultOf(t, err)
			require.Equal(t, tc.class, f.Class, "%v", err)
			require.Equal(t, tc.code, f.Code, "%v", err)
			require.Equal(t, tc.outage, f.Outage)
			require.Contains(t, f.Text, tc.text)
			require.NotEmpty(t, f.Next)
			require.NotContains(t, err.Error(), "very-secret")

			// Execute says the same.
			w := work(plainly("CREATE (:A)", 0))
			w.Database = tc.database
			if tc.name != "database stops" {
				_, err = sink.Execute(t.Context(), w)
				require.Equal(t, tc.code, faultOf(t, err).Code)
				require.Equal(t, tc.class, faultOf(t, err).Class)
				require.False(t, faultOf(t, err).Unknown)
			}
		})
	}
}

// answer answers every connection with text and closes it.
func answer(l net.Listener, text string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 100))
		conn.Write([]byte(text))
		conn.Close()
	}
}

func TestVerifySucceeds(t *testing.T) {
	now := time.Now()
	secure := &tls.Config{Certificates: []tls.Certificate{certificate(t, now.Add(-time.Hour), now.Add(time.Hour), "db.example")}}
	for _, tc := range []struct {
		scheme string
		opts   boltserver.Options
	}{
		{"bolt", boltserver.Options{User: "neo4j", Password: "right", Databases: []string{"neo4j", "movies"}}},
		{"neo4j", boltserver.Options{User: "neo4j", Password: "right", Databases: []string{"neo4j", "movies"}}},
		{"bolt+ssc", boltserver.Options{TLS: secure}},
	} {
		t.Run(tc.scheme, func(t *testing.T) {
			s := boltserver.Start(t, tc.opts)
			sink := openURI(t, tc.scheme+"://"+s.Address(), func(c *graph.Config) {
				c.User, c.Password, c.Database = "neo4j", "right", "neo4j"
			})
			require.NoError(t, sink.Verify(t.Context(), ""))
			require.NoError(t, sink.Verify(t.Context(), "movies"))
			got := s.Autocommitted()
			require.Equal(t, "neo4j", got[0].Database)
			require.Equal(t, "movies", got[1].Database)
		})
	}
}
