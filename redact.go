package graphmill

import (
	"maps"
	"strings"
)

// RedactedValue stands in place of a secret in everything that leaves the
// server.
const RedactedValue = "********"

// secretRefPrefix begins a value that names a secret in place of holding it.
const secretRefPrefix = "secret:"

// secretWords are the parts of a setting's name by which its value is a secret.
// librdkafka's names that hold one: sasl.password, ssl.key.password,
// ssl.keystore.password, ssl.key.pem, sasl.oauthbearer.client.secret,
// sasl.oauthbearer.config, sasl.jaas.config (Java's clients); Pulsar's: authParams, authParamMap, token, password, privateKey, clientSecret, tlsPrivateKey.
var secretWords = []string{"password", "secret", "token", "credential", "jaas", "key.pem", "oauthbearer.config", "private", "passphrase", "authparam"}

// SecretConfig says whether the value of a setting of a broker's client is a
// secret: by the setting's name, or because a private key in PEM stands in it, as
// in files that hold a certificate and its key.
func SecretConfig(name, value string) bool {
	if strings.Contains(value, "PRIVATE KEY-----") {
		return true
	}
	name = strings.ToLower(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// SecretRef returns the name in a value of the form secret:NAME, which stands
// for a secret that is kept elsewhere and is no secret itself.
func SecretRef(value string) (name string, ok bool) {
	return strings.CutPrefix(value, secretRefPrefix)
}

// Redacted returns a copy that may be shown to everybody: values of Credentials,
// and of Configs that hold secrets (SecretConfig), are RedactedValue, unless they are
// references.
func (s StreamSpec) Redacted() StreamSpec {
	s.Credentials = redacted(s.Credentials, func(string, string) bool { return true })
	s.Configs = redacted(s.Configs, SecretConfig)
	return s
}

func redacted(entries map[string]string, secret func(name, value string) bool) map[string]string {
	entries = maps.Clone(entries)
	for name, value := range entries {
		if _, isRef := SecretRef(value); !isRef && secret(name, value) {
			entries[name] = RedactedValue
		}
	}
	return entries
}
