package kafka

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// Reason codes of logins that do not come about, beside codeAuth.
const (
	codeMechanism  = "sasl_mechanism"   // set-up: the broker does not offer it
	codeUnasked    = "sasl_not_offered" // set-up: the listener has no login
	codeLoginFirst = "sasl_missing"     // the listener seems to want a login
)

// tlsNext says of each reason what to do about it, by the names of the settings.
var tlsNext = map[tlsfault.Reason]string{
	tlsfault.Missing:            "set security.protocol to ssl, or to sasl_ssl with a login",
	tlsfault.Unexpected:         "set security.protocol to plaintext, or to sasl_plaintext with a login; or name the address of the listener with TLS",
	tlsfault.Authority:          "give the certificate of the authority that signed the broker's in ssl.ca.pem or ssl.ca.location",
	tlsfault.HostName:           "name the broker as its certificate does (its advertised listener, too), or set ssl.endpoint.identification.algorithm to none",
	tlsfault.CertificateMissing: "give one in ssl.certificate.* and ssl.key.*, or in ssl.keystore.location",
}

// closedAtOnce is the fault of a connection that the broker closes before it
// answers, without a word.
func (l *links) closedAtOnce(addr string, err error) *graphmill.Fault {
	text := "the broker at " + addr + " closes the connection at once; most likely it "
	var f *graphmill.Fault
	switch {
	case l.security.mechanism == "":
		f = waits(codeLoginFirst, text+"wants a login", nil) // the cause is the client's own guess
		f.Next = "give the stream a login: security.protocol sasl_ssl or sasl_plaintext, sasl.mechanism, sasl.username, sasl.password"
	default:
		f = waits(codeUnreachable, "the broker at "+addr+" closes the connection at once", err)
		f.Next = "look into the broker's log"
	}
	return f
}

// logins and rights are the broker's answers that mean that we may not.
var (
	logins = []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState}
	rights = []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SecurityDisabled}
)

func isAny(err error, of []error) bool {
	return slices.ContainsFunc(of, func(r error) bool { return errors.Is(err, r) })
}

// isRefusal tells whether err is a matter of the login or of rights.
func isRefusal(err error) bool { return isAny(err, logins) || isAny(err, rights) }

// isSteady tells whether waiting for a moment longer will not change a fault:
// what has been so for a second is worth an answer (see patience.Until).
func isSteady(f *graphmill.Fault) bool {
	return f.Code == codeTopicAbsent || f.Code == codeLoginFirst || tlsfault.IsReason(f.Code)
}

// refused makes the fault of a refusal.
func (l *links) refused(doing string, err error) *graphmill.Fault {
	s := l.security
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		l.refuse(err)
		return ends(codeAuth, "the broker refuses the login of "+s.principal(),
			"check sasl.username, sasl.password and sasl.mechanism; the broker is not asked again, since that may lock the account", err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return ends(codeMechanism, fmt.Sprintf("the broker does not offer the mechanism %s", s.mechanism),
			"set sasl.mechanism to one that it offers (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)", err)
	case errors.Is(err, kerr.IllegalSaslState) && s.mechanism != "":
		return ends(codeUnasked, "the broker has no login at this address",
			"set security.protocol to plaintext or ssl; or name the address of the listener with the login", err)
	}
	return forbidden(fmt.Sprintf("%s: the broker does not allow it to %s", doing, s.principal()), err)
}

// forbidden makes the fault of a right that is lacking.
func forbidden(text string, err error) *graphmill.Fault {
	next := "allow it to the user at the broker"
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		next = "allow the user Read and Describe on the topic, or Write to produce (kafka-acls.sh --add --allow-principal User:NAME --operation Read --operation Describe --topic TOPIC)"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		next = "allow the user Read on the consumer group (kafka-acls.sh --add --allow-principal User:NAME --operation Read --group GROUP)"
	}
	return ends(codeForbidden, text, next, err)
}

// refuse remembers that the login was refused.
func (l *links) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noLogin = err
}

// refusal returns the broker's refusal of the login, or nil.
func (l *links) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noLogin
}
