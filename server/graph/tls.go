package graph

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"reflect"
	"slices"
)

// finalAlerts are the alerts of TLS (RFC 8446, section 6.2) by which a server says
// what no waiting heals: it does not like who we are, or we speak of different
// things. A proxy that is being started, or whose server is away, sends others:
// internal_error (80), or none at all.
var finalAlerts = []uint64{
	42,  // bad_certificate
	43,  // unsupported_certificate
	44,  // certificate_revoked
	45,  // certificate_expired
	46,  // certificate_unknown
	48,  // unknown_ca
	49,  // access_denied
	70,  // protocol_version
	71,  // insufficient_security
	116, // certificate_required
}

// firstAlerts mean the same where the server has never let us in. Where it has, a
// proxy may lack its certificate or its servers for a while.
var firstAlerts = []uint64{
	40,  // handshake_failure
	112, // unrecognized_name
	120, // no_application_protocol
}

// refusesTLS tells a server that will never be let in, or never let us in, from
// one that is not ready.
func refusesTLS(causes []error, reached bool) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
	)
	for _, err := range causes {
		switch {
		case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
			return true
		case errors.As(err, &record): // what answers is no TLS
			return !reached
		}
		if alert, ok := alertOf(err); ok {
			return slices.Contains(finalAlerts, alert) || !reached && slices.Contains(firstAlerts, alert)
		}
	}
	return false
}

// alertOf returns the alert that the other side has sent. crypto/tls does not
// export its type, which is a number.
func alertOf(err error) (uint64, bool) {
	var e *net.OpError
	if !errors.As(err, &e) || e.Op != "remote error" {
		return 0, false
	}
	v := reflect.ValueOf(e.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return v.Uint(), true
}
