//go:build e2e

package pulsar_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/stack"
)

// startReal returns the one real Pulsar that tests run on. The first test that asks
// for it starts it.
var startReal = func(t *testing.T) server {
	t.Helper()
	real.once.Do(func() {
		real.pulsar, real.err = stack.StartPulsar(context.Background(), stack.PulsarConfig{
			Log: os.Stderr,
			// A broker's own is a second. With 0, which hardly anybody has, a consumer
			// is told that it is the active one before it can hear it.
			FailoverDelay: 100 * time.Millisecond,
			Settings:      map[string]string{"allowAutoTopicCreation": "false"},
		})
	})
	require.NoError(t, real.err)
	t.Cleanup(func() {
		if t.Failed() {
			kept, err := real.pulsar.KeepLog()
			t.Log("the log of Pulsar is in", kept, err)
		}
	})
	return realServer{real.pulsar}
}

var real struct {
	once   sync.Once
	pulsar *stack.Pulsar
	err    error
}

func stopReal() error {
	if real.pulsar == nil {
		return nil
	}
	return real.pulsar.Close()
}

type realServer struct{ *stack.Pulsar }

func (r realServer) URL() string { return r.ServiceURL() }

func (r realServer) stop(t *testing.T) { require.NoError(t, r.Kill()) }

func (r realServer) start(t *testing.T) { require.NoError(t, r.Restart(context.Background())) }
