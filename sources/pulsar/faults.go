package pulsar

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// Reason codes of this package's faults.
const (
	codeUnreachable     = "broker_unreachable"
	codeBrokerError     = "broker_error" // it answers, but cannot do what it is asked for now
	codeTopicAbsent     = "topic_absent"
	codeNamespaceAbsent = "namespace_absent"  // set-up: the namespace, or its tenant
	codeBusy            = "subscription_busy" // another consumer has it, and shares it with nobody
	codeOtherType       = "subscription_type" // consumers of another type have it
	codeQuota           = "quota"             // a limit of the broker's is reached
	codeTerminated      = "topic_terminated"  // set-up: nothing will ever come to the topic
	codeNotSupported    = "not_supported"     // set-up: the broker does not know what is asked for
	codeTopicName       = "topic_name"        // set-up: the broker takes no topic of this name
	codeSchema          = "schema"            // set-up: the topic has a schema that a reader must have too
	codeAuth            = "auth"              // set-up: the broker refuses the login
	codeIssuer          = "oauth_issuer"      // the issuer of tokens does not answer
	codeForbidden       = "forbidden"         // set-up: the client may not do it
)

// waits makes a fault that heals by itself and is waited out.
func waits(code, text, next string, err error) *graphmill.Fault {
	return &graphmill.Fault{Class: graphmill.FaultTransient, Outage: true, Code: code, Text: text, Next: next, Message: graphmill.WholeBatch, Err: err}
}

// ends makes a fault that somebody has to mend.
func ends(code, text, next string, err error) *graphmill.Fault {
	return &graphmill.Fault{Class: graphmill.FaultSetup, Code: code, Text: text, Next: next, Message: graphmill.WholeBatch, Err: err}
}

// answer is an error that a broker has answered.
type answer struct {
	Code    string // ServerError of the protocol: "TopicNotFound"
	Message string // in the broker's words; may be empty
}

func (a *answer) Error() string {
	if a.Message == "" {
		return a.Code
	}
	return a.Code + ": " + a.Message
}

// serverErrors finds a broker's code in an error of the client, which makes texts
// of them: "server error: TopicNotFound: ...", "AuthorizationError".
var serverErrors = regexp.MustCompile(`\b(UnknownError|MetadataError|PersistenceError|AuthenticationError|AuthorizationError|ConsumerBusy|ServiceNotReady|` +
	`UnsupportedVersionError|TopicNotFound|SubscriptionNotFound|ConsumerNotFound|TooManyRequests|TopicTerminatedError|InvalidTopicName|IncompatibleSchema|` +
	`ConsumerAssignError|NotAllowedError)\b(?:: (?s:(.*)))?`)

// answerOf returns what a broker has answered, if err is that.
func answerOf(err error) (*answer, bool) {
	var a *answer
	if errors.As(err, &a) {
		return a, true
	}
	found := serverErrors.FindStringSubmatch(err.Error())
	if found == nil {
		return nil, false
	}
	return &answer{Code: found[1], Message: found[2]}, true
}

// fault classes what went wrong while doing something with the brokers: doing is
// what, for people, as "subscribe to persistent://...". What it does not know heals
// by itself.
func (l *links) fault(doing string, err error) *graphmill.Fault {
	var f *graphmill.Fault
	var issuer *issuerError
	var no *noLogin
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &no):
		return l.refused(no.words)
	case errors.As(err, &issuer):
		return issuer.fault()
	}
	if a, ok := answerOf(err); ok {
		return l.answer(doing, a)
	}
	return l.unreachable(doing, err)
}

// answer makes the fault of what a broker has answered.
func (l *links) answer(doing string, a *answer) *graphmill.Fault {
	lower := strings.ToLower(a.Message)
	switch a.Code {
	case "AuthenticationError":
		no := &noLogin{errors.New(l.security.conceal(a.Message))}
		l.refuse(no)
		return l.refused(no.words)
	case "AuthorizationError":
		return ends(codeForbidden, fmt.Sprintf("%s: the broker does not allow it to %s", doing, l.security.principal()),
			"allow the role to consume (pulsar-admin namespaces grant-permission TENANT/NAMESPACE --role ROLE --actions consume, or topics grant-permission TOPIC); of a subscription whose mode is Prefix the name begins with the role", a)
	case "TopicNotFound":
		if isNamespace(lower) {
			return namespaceAbsent(doing, a)
		}
		return waits(codeTopicAbsent, doing+": the topic does not exist", "create the topic, or name another one", a)
	case "ConsumerBusy":
		return busy(doing, lower, a)
	case "TopicTerminatedError":
		return ends(codeTerminated, doing+": the topic has been terminated, so that nothing will come to it any more", "read another topic", a)
	case "InvalidTopicName":
		return ends(codeTopicName, doing+": the broker takes no topic of this name", "name the topic as NAME or persistent://TENANT/NAMESPACE/NAME", a)
	case "UnsupportedVersionError":
		return ends(codeNotSupported, doing+": the broker does not know how", "use a newer broker", a)
	case "IncompatibleSchema":
		return ends(codeSchema, doing+": the topic takes only clients that give its schema", "let the namespace take clients without one (pulsar-admin namespaces set-schema-validation-enforce --disable)", a)
	}
	switch {
	case isNamespace(lower):
		return namespaceAbsent(doing, a)
	case isLimit(lower):
		return overLimit(doing, a)
	}
	return waits(codeBrokerError, fmt.Sprintf("%s: the broker answers %s", doing, a.Code), "", a)
}

// isNamespace tells whether a broker, in its words, misses the namespace.
func isNamespace(message string) bool {
	return strings.Contains(message, "namespace not found") || strings.Contains(message, "namespace does not exist") ||
		strings.Contains(message, "policies not found") || strings.Contains(message, "tenant does not exist") || strings.Contains(message, "tenant or namespace or topic does not exist") ||
		strings.Contains(message, "tenant not found")
}

func namespaceAbsent(doing string, a *answer) *graphmill.Fault {
	return ends(codeNamespaceAbsent, doing+": the namespace does not exist", "create it (pulsar-admin namespaces create TENANT/NAMESPACE), or name another one", a)
}

// isLimit tells whether a broker, in its words, has reached a limit.
func isLimit(message string) bool {
	return strings.Contains(message, "reached max") || strings.Contains(message, "exceed") || strings.Contains(message, "maximum number") ||
		strings.Contains(message, "quota") || strings.Contains(message, "limit")
}

func overLimit(doing string, a *answer) *graphmill.Fault {
	return waits(codeQuota, doing+": a limit of the broker's is reached", "raise the limit at the broker, or end what is connected to no purpose", a)
}

// busy is the fault of a subscription that other consumers have. It is waited for:
// the type Exclusive means that one server reads, and this one is the next when that
// one ends.
func busy(doing, message string, a *answer) *graphmill.Fault {
	switch {
	case isLimit(message):
		return overLimit(doing, a)
	case strings.Contains(message, "different type"):
		return waits(codeOtherType, doing+": consumers of another type have the subscription",
			"end them, set subscription_type to theirs, or name a subscription of the stream's own", a)
	}
	return waits(codeBusy, doing+": another consumer has the subscription for itself",
		"wait until it ends, or end it; set subscription_type to failover on all servers if they are to share the partitions, or name a subscription of the stream's own", a)
}

// unreachable makes the fault of brokers that do not answer. It names the address
// that was tried: where brokers advertise an address that cannot be reached from
// here, the first obstacle of many, it is not the one in the settings.
func (l *links) unreachable(doing string, err error) *graphmill.Fault {
	addr, failed := l.last()
	asked := hosts(l.serviceURL)
	var u *tlsfault.Unusable
	var a *answer
	var issuer *issuerError
	var no *noLogin
	switch {
	case errors.As(err, &u), errors.As(failed, &u):
		return u.Fault(tlsNext, l.hasRun.Load())
	case errors.As(failed, &no):
		return l.refused(no.words)
	case errors.As(failed, &issuer):
		return issuer.fault()
	case errors.As(failed, &a):
		return l.answer(doing, a)
	case failed == nil:
		return waits(codeUnreachable, "no broker of "+asked+" answers", "check that the broker runs and that its address can be reached from here", err)
	case addr != "" && !strings.Contains(", "+asked+",", ", "+addr+","):
		return waits(codeUnreachable, fmt.Sprintf("the broker at %s, the address that %s gives out, does not answer", addr, asked),
			"set the broker's advertisedAddress or advertisedListeners to an address that can be reached from here; with several listeners, name one in listenerName", failed)
	}
	return waits(codeUnreachable, "no broker of "+asked+" answers", "check that the broker runs and that its address can be reached from here", failed)
}
