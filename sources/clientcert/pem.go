// Package clientcert reads the certificates and keys that a broker's client is
// given: in PEM, with keys that may be encrypted. It takes them as they come with a
// stream's definition, so nothing in them is trusted, and no error repeats any of a
// key.
package clientcert

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ErrNoCertificate says that a text holds no certificate in PEM.
var ErrNoCertificate = errors.New("it holds no certificate in PEM")

// Chain reads a certificate and the intermediate ones that follow it, without a
// key. The error is ErrNoCertificate, or that of a certificate that cannot be read.
func Chain(text []byte) (*tls.Certificate, error) {
	cert := &tls.Certificate{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			cert.Certificate = append(cert.Certificate, block.Bytes)
		}
	}
	if len(cert.Certificate) == 0 {
		return nil, ErrNoCertificate
	}
	var err error
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		return nil, err
	}
	return cert, nil
}

// KeyMatches tells whether the key is the one of the certificate.
func KeyMatches(c *tls.Certificate) bool {
	signer, ok := c.PrivateKey.(crypto.Signer)
	if !ok {
		return false
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.Leaf.PublicKey)
}

// Password opens an encrypted key.
type Password struct {
	Name string // of the setting that it is given by, for errors; empty: there is none
	Text string
}

// Key reads the first private key of a text in PEM.
func Key(text []byte, password Password) (crypto.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block.Headers["DEK-Info"] != "" {
			return nil, errors.New("it is encrypted in the old form of OpenSSL, which protects little; convert it with openssl pkcs8 -topk8")
		}
		switch block.Type {
		case "PRIVATE KEY":
			return x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return decryptKey(block.Bytes, password)
		}
		return nil, fmt.Errorf("a %s is not known; convert it with openssl pkcs8 -topk8", strings.ToLower(block.Type))
	}
	return nil, errors.New("it holds no private key in PEM")
}

// VerifyChain checks that one of roots, or of the system's where roots is nil, has
// signed the certificates that a broker shows, whatever name they are for.
func VerifyChain(certs []*x509.Certificate, roots *x509.CertPool) error {
	if len(certs) == 0 {
		return errors.New("the broker shows no certificate")
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := certs[0].Verify(opts)
	return err
}
