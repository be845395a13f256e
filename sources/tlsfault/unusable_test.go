package tlsfault_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

func TestFaultOfAConnectionThatCannotBeUsed(t *testing.T) {
	next := map[tlsfault.Reason]string{tlsfault.Authority: "give the authority"}
	broken := errors.New("broken")
	alert := &net.OpError{Op: "remote error", Err: broken}
	cases := map[string]struct {
		is     tlsfault.Unusable
		hasRun bool
		class  graphmill.FaultClass
		text   string
		next   string
		err    error
	}{
		"what the stream is set up with is wrong": {
			tlsfault.Unusable{Why: tlsfault.Authority, Sure: true, Err: broken}, false, graphmill.FaultSetup,
			"the broker at b:1 shows a certificate of an authority that is not trusted", "give the authority", broken,
		},
		"and it was right before": {
			tlsfault.Unusable{Why: tlsfault.Authority, Sure: true, Err: broken}, true, graphmill.FaultTransient,
			"the broker at b:1 shows a certificate of an authority that is not trusted", "give the authority", broken,
		},
		"the broker alone can mend it": {
			tlsfault.Unusable{Why: tlsfault.Expired, Sure: true, Err: broken}, false, graphmill.FaultTransient,
			"the broker at b:1 shows a certificate that has expired or is not valid yet", "renew the broker's certificate, and look at the clocks", broken,
		},
		"the broker says what may pass": {
			tlsfault.Unusable{Why: tlsfault.Other, Err: alert}, false, graphmill.FaultTransient,
			"the broker at b:1 cannot be talked to by TLS for now: it answers with an alert", "look at the versions and certificates of TLS on both sides", alert,
		},
		"the broker says nothing": {
			tlsfault.Unusable{Why: tlsfault.Authority, Err: broken}, false, graphmill.FaultTransient,
			"the broker at b:1 closes the connection; most likely it shows a certificate of an authority that is not trusted", "give the authority", nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.is.Address = "b:1"
			f := c.is.Fault(next, c.hasRun)
			require.Equal(t, &graphmill.Fault{
				Class: c.class, Outage: c.class == graphmill.FaultTransient, Code: string(c.is.Why),
				Text: c.text, Next: c.next, Message: graphmill.WholeBatch, Err: c.err,
			}, f)
			require.True(t, tlsfault.IsReason(f.Code))
		})
	}
	require.False(t, tlsfault.IsReason("auth"))
}
