package graph

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	f := classify("db.example:7687", stageReach, err, graphmill.WholeBatch)
	require.Equal(t, graphmill.FaultSetup, f.Class)
	require.Equal(t, codeTLS, f.Code)
	require.Contains(t, f.Text, "other.example")
	require.Contains(t, f.Next, "host name")
}
