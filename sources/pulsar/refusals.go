package pulsar

import (
	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// tlsNext says of each reason what to do about it, by the names of the settings.
var tlsNext = map[tlsfault.Reason]string{
	tlsfault.Missing:            "name the broker by pulsar+ssl://",
	tlsfault.Unexpected:         "name the broker by pulsar://, or the address of the listener with TLS",
	tlsfault.Authority:          "give the certificate of the authority that signed the broker's in tlsTrustCerts or tlsTrustCertsFilePath",
	tlsfault.HostName:           "name the broker as its certificate does (its advertised address, too), or set tlsHostnameVerificationEnable to false",
	tlsfault.CertificateMissing: "give one in tlsCertificateFilePath and tlsKeyFilePath, or in tlsCertificate and tlsPrivateKey",
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
