//go:build e2e

package pulsarserver

import (
	"os"
	"testing"

	"github.com/graphmill/graphmill/integration/stack"
	"github.com/stretchr/testify/require"
)

func TestClaimsOfRealPulsar(t *testing.T) {
	for _, with := range []struct {
		name   string
		config stack.PulsarConfig
		claims []claim
	}{
		{"without tokens", stack.PulsarConfig{}, claims},
		{"with tokens", stack.PulsarConfig{Token: true}, authClaims},
	} {
		t.Run(with.name, func(t *testing.T) {
			with.config.Log = os.Stderr
			p, err := stack.StartPulsar(t.Context(), with.config)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			b := broker{url: p.ServiceURL(), admin: p.AdminURL()}
			if with.config.Token {
				b.token = p.Token(stack.PulsarSuperuser)
			}
			for _, claim := range with.claims {
				t.Run(claim.name, func(t *testing.T) { claim.run(t, b) })
			}
		})
	}
}
