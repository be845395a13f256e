package stack

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// Files of the certificates in the directory of a broker. Those of servers and
// clients hold the key, the certificate and its authority, in this order, which
// is what Kafka calls a PEM keystore.
const (
	caFile            = "ca.pem"
	serverFile        = "server.pem"
	expiredFile       = "server-expired.pem"
	misnamedFile      = "server-misnamed.pem"
	clientFile        = "client.pem"
	foreignCAFile     = "foreign-ca.pem"
	foreignClientFile = "foreign-client.pem"
)

// clientName is whom the certificates of clients name.
const clientName = "graphmill-client"

// writeCertificates makes what the listeners with TLS and their clients need,
// and what they must refuse: certificates of a foreign authority, one that has
// expired, and one that is another host's.
func writeCertificates(path func(name string) string) error {
	now := time.Now()
	ours, err := newAuthority("graphmill test authority", now)
	if err != nil {
		return err
	}
	foreign, err := newAuthority("foreign test authority", now)
	if err != nil {
		return err
	}
	for name, a := range map[string]*authority{caFile: ours, foreignCAFile: foreign} {
		if err := os.WriteFile(path(name), a.pem, 0o644); err != nil {
			return err
		}
	}
	localhost := func(c *x509.Certificate) {
		c.Subject.CommonName = "localhost"
		c.DNSNames = []string{"localhost"}
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	client := func(c *x509.Certificate) { c.Subject.CommonName = clientName }
	for name, of := range map[string]struct {
		authority *authority
		make      func(*x509.Certificate)
	}{
		serverFile: {ours, localhost},
		expiredFile: {ours, func(c *x509.Certificate) {
			localhost(c)
			c.NotBefore, c.NotAfter = now.AddDate(0, 0, -2), now.AddDate(0, 0, -1)
		}},
		misnamedFile: {ours, func(c *x509.Certificate) {
			c.Subject.CommonName = "elsewhere.example"
			c.DNSNames = []string{"elsewhere.example"}
		}},
		clientFile:        {ours, client},
		foreignClientFile: {foreign, client},
	} {
		keystore, err := of.authority.issue(of.make)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path(name), keystore, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// authority signs certificates.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pem    []byte
	issued int64
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	a := &authority{key: key, cert: &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.AddDate(0, 0, -7),
		NotAfter:              now.AddDate(10, 0, 0),
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %q: %w", name, err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

// issue makes a key and its certificate, which complete may change, and returns
// both with the authority's.
func (a *authority) issue(complete func(*x509.Certificate)) ([]byte, error) {
	a.issued++
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.issued),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	complete(cert)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %q: %w", cert.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key) // the only form that Kafka reads
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	return bytes.Join([][]byte{
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		a.pem,
	}, nil), nil
}
