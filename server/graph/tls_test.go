package graph

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

// The driver trusts the authorities of the system only, which sign nothing for a
// test: so a certificate for another host is made up here.
func TestCase32CertificateOfAnotherHostIsOfTheSetUp(t *testing.T) {
	cause := &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"other.example"}}, Host: "db.example"}}
	err := &neo4j.ConnectivityError{Inner: fmt.Errorf("handshake: %w", cause)}
	f := classify("db.example:7687", true, stageReach, err, graphmill.WholeBatch)
	require.Equal(t, graphmill.FaultSetup, f.Class)
	require.Equal(t, codeTLS, f.Code)
	require.Contains(t, f.Text, "other.example")
	require.Contains(t, f.Next, "host name")
}

// shake makes a handshake with a server that answers with an alert, and returns
// what crypto/tls says to that.
func shake(t *testing.T, alert byte) error {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		theirs.Read(make([]byte, 64<<10))
		theirs.Write([]byte{21, 3, 3, 0, 2, 2, alert}) // a fatal one, in a record of its own
		theirs.Close()
	}()
	defer ours.Close()
	err := tls.Client(ours, &tls.Config{ServerName: "db.example", MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
	require.Error(t, err)
	return err
}

// TestCase32TLSThatIsNotReadyIsWaitedFor tells what only somebody can mend from what
// a proxy says that is being started, or whose database is.
func TestCase32TLSThatIsNotReadyIsWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		name           string
		err            error
		first, reached string // the reason before the database has let us in once, and behind
	}{
		{"bad certificate", shake(t, 42), codeTLS, codeTLS},
		{"certificate revoked", shake(t, 44), codeTLS, codeTLS},
		{"certificate expired", shake(t, 45), codeTLS, codeTLS},
		{"unknown authority, says the server", shake(t, 48), codeTLS, codeTLS},
		{"protocol version", shake(t, 70), codeTLS, codeTLS},
		{"certificate required", shake(t, 116), codeTLS, codeTLS},
		{"unknown authority, say we", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, codeTLS, codeTLS},
		{"handshake failure", shake(t, 40), codeTLS, codeUnreachable},
		{"unrecognized name", shake(t, 112), codeTLS, codeUnreachable},
		{"no TLS at all", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, codeTLS, codeUnreachable},
		{"internal error", shake(t, 80), codeUnreachable, codeUnreachable},
		{"unexpected message", shake(t, 10), codeUnreachable, codeUnreachable},
		{"user canceled", shake(t, 90), codeUnreachable, codeUnreachable},
		{"the connection is closed", io.EOF, codeUnreachable, codeUnreachable},
		{"an error of ours with the words of an alert", &net.OpError{Op: "local error", Err: fmt.Errorf("tls: bad certificate")}, codeUnreachable, codeUnreachable},
		{"an alert of a type that is not known", &net.OpError{Op: "remote error", Err: fmt.Errorf("tls: bad certificate")}, codeUnreachable, codeUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := &neo4j.ConnectivityError{Inner: fmt.Errorf("handshake: %w", tc.err)}
			for reached, code := range map[bool]string{false: tc.first, true: tc.reached} {
				f := classify("db.example:7687", reached, stageReach, err, graphmill.WholeBatch)
				require.Equal(t, code, f.Code)
				require.Equal(t, code == codeUnreachable, f.Outage)
			}
		})
	}
}
