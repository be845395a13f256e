package pulsar

import (
	"errors"
	"fmt"
	"net"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// tlsTexts say of each reason what is so, of the broker at an address, and what
// to do.
var tlsTexts = map[tlsfault.Reason]struct{ is, next string }{
	tlsfault.Missing:            {"expects TLS, and this connection has none", "name the broker by pulsar+ssl://"},
	tlsfault.Unexpected:         {"does not speak TLS", "name the broker by pulsar://, or the address of the listener with TLS"},
	tlsfault.Authority:          {"shows a certificate of an authority that is not trusted", "give the certificate of the authority that signed the broker's in tlsTrustCerts or tlsTrustCertsFilePath"},
	tlsfault.HostName:           {"shows a certificate that is not for this address", "name the broker as its certificate does (its advertised address, too), or set tlsHostnameVerificationEnable to false"},
	tlsfault.Expired:            {"shows a certificate that has expired or is not valid yet", "renew the broker's certificate, and look at the clocks"},
	tlsfault.CertificateMissing: {"wants a certificate of the client, and there is none", "give one in tlsCertificateFilePath and tlsKeyFilePath, or in tlsCertificate and tlsPrivateKey"},
	tlsfault.CertificateRefused: {"does not accept the client's certificate", "look at who signed the client's certificate, until when it is valid, and whether the broker trusts that authority"},
	tlsfault.Other:              {"cannot be talked to by TLS", "look at the versions and certificates of TLS on both sides"},
}

// unusable is why a connection that was made cannot be used.
type unusable struct {
	why     tlsfault.Reason
	sure    bool // else the broker has only closed it, or says what may pass
	address string
	err     error
}

func (u *unusable) Error() string { return fmt.Sprintf("connect to %s: %v", u.address, u.err) }

func (u *unusable) Unwrap() error { return u.err }

// fault makes the stream's fault of it. What is mended at the broker alone is
// waited out, as is what the broker has not said: a proxy whose broker is away
// closes connections, too. All else ends the stream.
func (u *unusable) fault() *graphmill.Fault {
	t := tlsTexts[u.why]
	text := "the broker at " + u.address + " " + t.is
	var alert *net.OpError
	switch {
	case !u.sure && errors.As(u.err, &alert) && alert.Op == "remote error":
		return waits(string(u.why), text+" for now: it answers with an alert", t.next, u.err)
	case !u.sure: // that it has ended is all there is to say of the cause
		return waits(string(u.why), "the broker at "+u.address+" closes the connection; most likely it "+t.is, t.next, nil)
	case u.why == tlsfault.Expired:
		return waits(string(u.why), text, t.next, u.err)
	}
	return ends(string(u.why), text, t.next, u.err)
}

// unusable makes the fault of a connection that cannot be used. Once the stream has
// run with what it is set up with, the cause is at the brokers: certificates that
// are being exchanged, a proxy that is set up anew. Then it is waited out.
func (l *links) unusable(u *unusable) *graphmill.Fault {
	f := u.fault()
	if f.Class != graphmill.FaultSetup || !l.hasRun.Load() {
		return f
	}
	return waits(f.Code, f.Text, f.Next, f.Err)
}

// loginNext says of each login what to look at when it is refused.
var loginNext = map[method]string{
	methodNone:   "give the stream a login: token, or userId and password, or tlsCertificate and tlsPrivateKey, or issuerUrl and privateKey",
	methodToken:  "check the token: whether the broker's key has signed it, and until when it is good",
	methodBasic:  "check userId and password; the broker is not asked again, since that may lock the account",
	methodTLS:    "check that the broker takes clients by their certificate (AuthenticationProviderTls)",
	methodOAuth2: "check audience and scope, and that the broker trusts the issuer of tokens",
}

// refused makes the fault of a login that the broker refuses, in the broker's words.
func (l *links) refused(words error) *graphmill.Fault {
	s := l.security
	text := "the broker refuses the login of " + s.principal()
	if s.method == methodNone || s.method == "" {
		text = "the broker wants a login, and there is none"
	}
	next := loginNext[s.method]
	if s.method == "" {
		next = loginNext[methodNone]
	}
	return ends(codeAuth, text, next, words)
}

// fault is that of a token that cannot be had.
func (e *issuerError) fault() *graphmill.Fault {
	if e.refused {
		return ends(codeAuth, e.Error(), "check privateKey, or clientId and clientSecret, and audience and scope", nil)
	}
	return waits(codeIssuer, e.Error(), "check issuerUrl, and that the issuer can be reached from here", nil)
}

// isTLS tells whether a code is about TLS that does not come about.
func isTLS(code string) bool { return tlsTexts[tlsfault.Reason(code)].is != "" }
