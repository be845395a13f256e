package tlsfault

import (
	"cmp"
	"errors"
	"fmt"
	"net"

	"github.com/graphmill/graphmill"
)

// Unusable is the error of a connection that was made and cannot be used.
type Unusable struct {
	Why     Reason
	Sure    bool   // else the broker has only closed it, or says what may pass
	Address string // host:port
	Err     error
}

func (u *Unusable) Error() string { return fmt.Sprintf("connect to %s: %v", u.Address, u.Err) }

// Unwrap returns what the connection ended with.
func (u *Unusable) Unwrap() error { return u.Err }

// is says of each reason what is so, of the broker at an address.
var is = map[Reason]string{
	Missing:            "expects TLS, and this connection has none",
	Unexpected:         "does not speak TLS",
	Authority:          "shows a certificate of an authority that is not trusted",
	HostName:           "shows a certificate that is not for this address",
	Expired:            "shows a certificate that has expired or is not valid yet",
	CertificateMissing: "wants a certificate of the client, and there is none",
	CertificateRefused: "does not accept the client's certificate",
	Other:              "cannot be talked to by TLS",
}

// usualNext says what to do where that has nothing to do with the client's settings.
var usualNext = map[Reason]string{
	Expired:            "renew the broker's certificate, and look at the clocks",
	CertificateRefused: "look at who signed the client's certificate, until when it is valid, and whether the broker trusts that authority",
	Other:              "look at the versions and certificates of TLS on both sides",
}

// IsReason tells whether a fault's code is a Reason.
func IsReason(code string) bool { return is[Reason(code)] != "" }

// Fault makes the stream's fault of it. next says of Missing, Unexpected, Authority,
// HostName and CertificateMissing what to do, by the names of the client's settings.
//
// What is mended at the broker alone is waited out, as is what the broker has not
// said: a proxy whose broker is away closes connections, too. Once the stream has run
// with what it is set up with (hasRun), the cause is at the brokers in any case:
// certificates that are being exchanged, a proxy that is set up anew. All else ends
// the stream.
func (u *Unusable) Fault(next map[Reason]string, hasRun bool) *graphmill.Fault {
	f := &graphmill.Fault{
		Class: graphmill.FaultSetup, Code: string(u.Why), Message: graphmill.WholeBatch,
		Text: "the broker at " + u.Address + " " + is[u.Why],
		Next: cmp.Or(next[u.Why], usualNext[u.Why]),
		Err:  u.Err,
	}
	if hasRun || !u.Sure || u.Why == Expired {
		f.Class, f.Outage = graphmill.FaultTransient, true
	}
	var op *net.OpError
	switch {
	case u.Sure:
	case errors.As(u.Err, &op) && op.Op == "remote error":
		f.Text += " for now: it answers with an alert"
	default: // that it has ended is all there is to say of the cause
		f.Text, f.Err = "the broker at "+u.Address+" closes the connection; most likely it "+is[u.Why], nil
	}
	return f
}
