package pulsar_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// fake is a Pulsar in the process.
type fake struct{ *pulsarserver.Server }

func startFake(t *testing.T, opts pulsarserver.Options) fake {
	opts.FailoverDelay = cmp.Or(opts.FailoverDelay, 20*time.Millisecond) // so that clients hear who is the active one
	return fake{pulsarserver.Start(t, opts)}
}

func (f fake) stop(*testing.T) { f.Stop() }

func (f fake) start(t *testing.T) { require.NoError(t, f.Listen()) }

// startServer starts a Pulsar in the process, or returns the real one under the
// build tag e2e.
func startServer(t *testing.T) server {
	if startReal != nil {
		return startReal(t)
	}
	return startFake(t, pulsarserver.Options{NoAutoCreate: true})
}

func TestSuite(t *testing.T) {
	sourcetest.Suite{
		Open:      func(t *testing.T) sourcetest.Broker { return brokerOf(t, startServer(t)) },
		Shared:    startReal != nil,
		Abilities: abilities,
	}.Run(t)
}
