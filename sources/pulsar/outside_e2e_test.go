//go:build e2e

package pulsar_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/stack"
)

func TestPulsarFromOutside(t *testing.T) {
	p, err := stack.StartPulsar(t.Context(), stack.PulsarConfig{Log: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	o := outside{
		url: p.ServiceURL(), admin: p.AdminURL(),
		create: func(t *testing.T, topic string, partitions int) {
			require.NoError(t, p.CreateTopic(t.Context(), topic, partitions))
		},
		roll: func(t *testing.T, name string) {
			require.NoError(t, p.Admin(t.Context(), http.MethodPut, stack.TopicPath(name)+"/unload", nil, nil))
		},
	}
	for name, test := range fromOutside {
		t.Run(name, func(t *testing.T) { test(t, newOutside(t, o)) })
	}
}
