package graphmill_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestSecretsStandInNoRedactedDefinition(t *testing.T) {
	const secret = "pl4nted"
	spec := graphmill.StreamSpec{
		Configs: map[string]string{
			"security.protocol": "SASL_SSL", "sasl.password": secret, "ssl.key.pem": secret, "SSL.Key.Password": secret,
			"sasl.oauthbearer.client.secret": secret, "ssl.truststore.password": "secret:trust",
			"ssl.certificate.pem": "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----\n" + secret + "\n-----END RSA PRIVATE KEY-----",
		},
		Credentials: map[string]string{"sasl.username": secret, "sasl.password": "secret:broker"},
	}
	shown := spec.Redacted()
	text, err := json.Marshal(shown)
	require.NoError(t, err)
	require.NotContains(t, string(text), secret)
	require.Equal(t, "SASL_SSL", shown.Configs["security.protocol"])
	require.Equal(t, "secret:broker", shown.Credentials["sasl.password"], "a reference is no secret")
	require.Equal(t, "secret:trust", shown.Configs["ssl.truststore.password"])
	require.Equal(t, secret, spec.Credentials["sasl.username"], "the definition itself is left as it is")
}

func TestADefinitionThatWasReadBackIsRefusedWithItsMask(t *testing.T) {
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m.f", Credentials: map[string]string{"sasl.password": graphmill.RedactedValue}}.WithDefaults()
	err := spec.Validate()
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "credentials", e.Field)
	require.Contains(t, e.Text, "sasl.password")
}
