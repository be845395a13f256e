// Package tlsfault finds out why TLS to a broker does not come about, from what the
// library of TLS says of it, by reasons that are the codes of a stream's state.
package tlsfault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
)

// Reason is the reason code of TLS that does not come about.
type Reason string

// The reasons.
const (
	Missing            Reason = "tls_missing"             // the listener wants TLS
	Unexpected         Reason = "tls_not_offered"         // the listener has no TLS
	Authority          Reason = "tls_authority"           // who signed the broker's certificate is not trusted
	HostName           Reason = "tls_host_name"           // the broker's certificate is another host's
	Expired            Reason = "tls_expired"             // the broker's certificate, or not valid yet
	CertificateMissing Reason = "tls_certificate_missing" // the broker wants one of the client
	CertificateRefused Reason = "tls_certificate_refused" // the broker does not accept the client's
	Other              Reason = "tls"
)

// Client is what is known of the client's side.
type Client struct {
	Asked bool // the broker has asked for the client's certificate
	Shown bool // the client has one
}

// Explain returns why a connection with TLS has failed, and the error to show for
// it. Sure is false where the broker has only closed the connection, or has sent an
// alert that may pass. An error of which it knows nothing has no reason.
func Explain(err error, client Client) (why Reason, sure bool, shown error) {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		header    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return Authority, true, err
	case errors.As(err, &name):
		return HostName, true, err
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return Expired, true, err
	case errors.As(err, &invalid), errors.As(err, &verify):
		return Other, true, err
	case errors.As(err, &header):
		return Unexpected, true, errors.New("what it answers is not TLS")
	case errors.As(err, &op) && op.Op == "remote error": // an alert
		switch {
		case isAlert(op.Err, ofCertificates) && client.Asked && client.Shown:
			return CertificateRefused, true, err
		case isAlert(op.Err, ofCertificates) && client.Asked:
			return CertificateMissing, true, err
		case isAlert(op.Err, ofCertificates), isAlert(op.Err, ofSettings):
			return Other, true, err
		}
		// A broker, or a proxy, that starts or ends says so too: internal_error,
		// handshake_failure before its keys are loaded, unrecognized_name.
		return Other, false, err
	case HasEnded(err):
		switch {
		case client.Asked && client.Shown:
			return CertificateRefused, false, err
		case client.Asked:
			return CertificateMissing, false, err
		}
		return Unexpected, false, err
	}
	return "", false, err
}

// IsAnswer tells whether what a listener answers to a client without TLS is an
// alert of TLS: type 21, version 3.x.
func IsAnswer(p []byte) bool { return len(p) >= 2 && p[0] == 21 && p[1] == 3 }

// HasEnded tells whether the broker has closed the connection without a word.
func HasEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Alerts (RFC 8446, section 6) that do not pass by waiting.
var (
	// The client's certificate is refused, or lacking.
	ofCertificates = []tls.AlertError{
		42,  // bad_certificate
		43,  // unsupported_certificate
		44,  // certificate_revoked
		45,  // certificate_expired
		46,  // certificate_unknown
		48,  // unknown_ca
		49,  // access_denied
		116, // certificate_required
	}
	// Both sides cannot come together.
	ofSettings = []tls.AlertError{
		70,  // protocol_version
		71,  // insufficient_security
		120, // no_application_protocol
	}
)

// isAlert tells whether an alert is one of those. The library has a type of its
// own for those that it was sent, which only its text tells.
func isAlert(err error, of []tls.AlertError) bool {
	return slices.ContainsFunc(of, func(a tls.AlertError) bool { return err.Error() == a.Error() })
}

// Offered tells whether a handshake gets an answer of TLS, whoever vouches for
// the certificate: nothing is sent over the connection.
func Offered(ctx context.Context, address string) bool {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
		return true
	}
	var op *net.OpError // an alert, of a server that wants a certificate of ours, or another version
	return errors.As(err, &op) && op.Op == "remote error"
}
