package pulsar_test

import (
	"crypto"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/youmark/pkcs8"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/clientcert/certtest"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/setting/settingtest"
)

// planted is a secret that must be found nowhere.
const planted = "PLANTED-s3cret-31415"

type m = map[string]string

func TestConfigsThatCannotBeTakenSayWhy(t *testing.T) {
	a := certtest.NewAuthority(t)
	own, other := a.Issue(nil), a.Issue(nil)
	der, err := pkcs8.MarshalPrivateKey(own.Key, []byte(planted), &pkcs8.Opts{
		Cipher: pkcs8.AES256CBC, KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 16, IterationCount: 2048, HMACHash: crypto.SHA256},
	})
	require.NoError(t, err)
	encrypted := certtest.PEM("ENCRYPTED PRIVATE KEY", der)
	issuer := func(more ...string) m {
		out := m{"issuerUrl": "https://issuer.example.com"}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for _, c := range []struct {
		name                 string
		configs, credentials m
		field                string
		says                 []string
	}{
		{"a name that is mistyped", m{"operationTimoutMs": planted}, nil, "configs", []string{`"operationTimoutMs"`, "did you mean operationTimeoutMs?"}},
		{"a name in another spelling", m{"receiver-queue-size": planted}, nil, "configs", []string{"did you mean receiverQueueSize?"}},
		{"a name that is nothing", nil, m{"zzzzzzzzzzzzz": planted}, "credentials", []string{`"zzzzzzzzzzzzz" is not a setting of Pulsar's Java client`}},
		{"a name without end", m{strings.Repeat("x", 10_000): planted}, nil, "configs", []string{`xxx..."`}},
		{"a name of Python's client", nil, m{"private_key": planted}, "credentials", []string{"other clients of Pulsar", "privateKey"}},
		{"a setting by both of its names", m{"authPlugin": "token", "authPluginClassName": "token"}, nil, "configs", []string{"given twice"}},
		{"a setting in both maps", m{"token": planted}, m{"token": planted}, "credentials", []string{"given twice", "configs"}},
		{"no number", m{"operationTimeoutMs": planted}, nil, "configs", []string{"operationTimeoutMs", "from 100 to 300000"}},
		{"a number that is too small", m{"receiverQueueSize": "0"}, nil, "configs", []string{"from 1 to 1000000"}},
		{"a number that is too large", m{"keepAliveIntervalSeconds": "99999999999999999999"}, nil, "configs", []string{"keepAliveIntervalSeconds"}},
		{"no truth", m{"tlsAllowInsecureConnection": planted}, nil, "configs", []string{"true or false"}},
		{"no word of the list", m{"subscriptionInitialPosition": planted}, nil, "configs", []string{"Latest, Earliest"}},
		{"an ignored setting out of its range", m{"numIoThreads": "-1"}, nil, "configs", []string{"numIoThreads"}},
		{"an empty value", m{"listenerName": ""}, nil, "configs", []string{"empty"}},
		{"properties that are no object", m{"properties": planted}, nil, "configs", []string{"properties", "object of JSON"}},
		{"properties that hold no texts", m{"subscriptionProperties": `{"a":{"b":"` + planted + `"}}`}, nil, "configs", []string{"object of JSON"}},
		{"the broker", m{"serviceUrl": "pulsar://b:6650"}, nil, "configs", []string{"SERVICE_URL"}},
		{"the broker as the tools call it", m{"brokerServiceUrl": "pulsar://b:6650"}, nil, "configs", []string{"SERVICE_URL"}},
		{"the subscription", m{"subscriptionName": "s"}, nil, "configs", []string{"SUBSCRIPTION"}},
		{"the subscription's type", m{"subscriptionType": "Shared"}, nil, "configs", []string{"SUBSCRIPTION_TYPE"}},
		{"a subscription that forgets", m{"subscriptionMode": "NonDurable"}, nil, "configs", []string{"durable"}},
		{"compacted topics", m{"readCompacted": "true"}, nil, "configs", []string{"compaction"}},
		{"dead letters of the broker", m{"deadLetterPolicy": "{}"}, nil, "configs", []string{"ON_FAILURE"}},
		{"keys of encrypted messages", m{"cryptoKeyReader": "x"}, nil, "configs", []string{"encrypted"}},
		{"a keystore of Java", m{"tlsTrustStorePath": "store.jks"}, nil, "configs", []string{"PEM", "openssl pkcs12"}},
		{"a plug-in of Java", m{"sslFactoryPlugin": "x"}, nil, "configs", []string{"never loaded"}},
		{"a function", m{"messageListener": "x"}, nil, "configs", []string{"not as text"}},

		{"Athenz", m{"authPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationAthenz", "authParams": planted}, nil, "configs", []string{"not available", "token, tls, basic, oauth2"}},
		{"Kerberos", m{"authPlugin": "sasl"}, nil, "configs", []string{"not available"}},
		{"a keystore as the login", m{"authPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationKeyStoreTls"}, nil, "configs", []string{"not available"}},
		{"a class that is not known", m{"authPlugin": planted}, nil, "configs", []string{"no login that is known"}},
		{"the login token without one", m{"authPlugin": "token"}, nil, "configs", []string{"token is needed"}},
		{"a token in a file that is not there", m{"token": "file:///absent"}, nil, "configs", []string{"token", "no secret"}},
		{"a token with a newline in it", nil, m{"token": "a\n" + planted}, "credentials", []string{"unprintable"}},
		{"a token beside a user", m{"userId": "u"}, m{"token": planted, "password": planted}, "configs", []string{"userId is of the login basic, and the login is token"}},
		{"a token with the login tls", m{"authPlugin": "tls"}, m{"token": planted}, "credentials", []string{"token is of the login token, and the login is tls"}},
		{"a login that is switched off, and a token", m{"authPlugin": "none"}, m{"token": planted}, "credentials", []string{"the login is none"}},
		{"a user without a password", m{"userId": "u"}, nil, "configs", []string{"password is needed"}},
		{"a password without a user", nil, m{"password": planted}, "configs", []string{"userId is needed"}},
		{"the login tls without a certificate", m{"authPlugin": "tls"}, nil, "configs", []string{"needs a certificate"}},
		{"parameters that are no object", nil, m{"authParams": "{" + planted}, "credentials", []string{"authParams", "object of JSON"}},
		{"parameters without names", m{"authPlugin": "basic"}, m{"authParams": planted}, "credentials", []string{"name:value"}},
		{"parameters that no login has", nil, m{"authParams": `{"tenantDomain":"` + planted + `"}`}, "credentials", []string{"a name that no login here has"}},
		{"a parameter that is a setting too", nil, m{"authParams": "token:" + planted, "token": planted}, "credentials", []string{"token is given twice", "authParams"}},
		{"parameters twice", nil, m{"authParams": "token:" + planted, "authParamMap": `{"token":"` + planted + `"}`}, "credentials", []string{"one is needed"}},

		{"an issuer without a client", issuer(), nil, "configs", []string{"privateKey", "clientSecret"}},
		{"a client without an issuer", m{"clientId": "c"}, m{"clientSecret": planted}, "configs", []string{"issuerUrl is needed"}},
		{"an issuer without TLS", m{"issuerUrl": "http://issuer.example.com"}, m{"privateKey": "key"}, "configs", []string{"issuerUrl", "on the way"}},
		{"an issuer that is no address", m{"issuerUrl": planted}, m{"privateKey": "key"}, "configs", []string{"https://host/path"}},
		{"an issuer with a password in it", m{"issuerUrl": "https://u:" + planted + "@h/"}, m{"privateKey": "key"}, "configs", []string{"https://host/path"}},
		{"a client twice", issuer("clientId", "c"), m{"privateKey": "key"}, "configs", []string{"one or the other"}},
		{"credentials that are no object", issuer(), m{"privateKey": "junk"}, "credentials", []string{"no object of JSON"}},
		{"credentials that are no base64", issuer(), m{"privateKey": "data:application/json;base64,%%%" + planted}, "credentials", []string{"data:application/json;base64"}},
		{"another kind of grant", issuer("type", "password"), m{"privateKey": "key"}, "configs", []string{"client_credentials"}},

		{"authorities that are none", m{"tlsTrustCerts": planted}, nil, "configs", []string{"tlsTrustCerts holds no certificate"}},
		{"a file that is no certificate", m{"tlsTrustCertsFilePath": "junk"}, nil, "configs", []string{"tlsTrustCertsFilePath holds no certificate"}},
		{"a certificate without its key", m{"tlsCertificate": own.CertPEM()}, nil, "configs", []string{"needs its key"}},
		{"a key without its certificate", nil, m{"tlsPrivateKey": own.KeyPEM(t)}, "configs", []string{"needs its certificate"}},
		{"another certificate's key", m{"tlsCertificate": own.CertPEM()}, m{"tlsPrivateKey": other.KeyPEM(t)}, "credentials", []string{"not the one of the certificate"}},
		{"a key that is none", m{"tlsCertificate": own.CertPEM()}, m{"tlsPrivateKey": planted}, "credentials", []string{"no private key"}},
		{"a key that is encrypted", m{"tlsCertificate": own.CertPEM()}, m{"tlsPrivateKey": encrypted}, "credentials", []string{"no setting for its password"}},
		{"a certificate twice", m{"tlsCertificate": own.CertPEM(), "tlsCertFile": "junk"}, nil, "configs", []string{"one is needed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			vault := settingtest.Vault{"junk": "junk", "key": `{"client_id":"c","client_secret":"` + planted + `"}`}
			_, _, err := pulsar.ParseConfigs(c.configs, c.credentials, vault)
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.field, e.Field, "%v", err)
			for _, s := range c.says {
				require.Contains(t, err.Error(), s)
			}
			require.NotContains(t, err.Error()+e.Next, planted, "no value stands in an error")
		})
	}
}

func TestConfigsThatHaveNoEffectAreToldOnceEach(t *testing.T) {
	_, notes, err := pulsar.ParseConfigs(m{
		"numIoThreads": "4", "statsIntervalSeconds": "60", "ackTimeoutMillis": "1000", "negativeAckRedeliveryDelayMicros": "1", "priorityLevel": "1",
		"subscriptionMode": "DURABLE", "autoUpdatePartitions": "TRUE", "receiverQueueSize": "10",
	}, m{"tlsCiphers": "X"}, nil)
	require.NoError(t, err)
	require.Len(t, notes, 6, "what is as it has to be needs no word: %q", notes)
	for _, name := range []string{"numIoThreads", "statsIntervalSeconds", "ackTimeoutMillis", "negativeAckRedeliveryDelayMicros", "priorityLevel", "tlsCiphers"} {
		require.Contains(t, strings.Join(notes, "\n"), ": "+name+" has no effect")
	}
}

// Each login may be given in each form that Pulsar's clients take.
func TestLoginsAreTakenInTheFormsOfPulsarsClients(t *testing.T) {
	a := certtest.NewAuthority(t)
	own := a.Issue(nil)
	key := `{"type":"client_credentials","client_id":"c","client_secret":"` + planted + `","issuer_url":"https://issuer.example.com"}`
	vault := settingtest.Vault{"both": own.KeyPEM(t) + own.CertPEM(), "token": " " + planted + "\n", "/run/token": planted, "key": key, "ca": a.PEM}
	const classes = "org.apache.pulsar.client.impl.auth."
	for name, credentials := range map[string]m{
		"a token":                               {"token": planted},
		"a token as a secret":                   {"token": "secret:token"},
		"a token in a file":                     {"token": "file:///run/token"},
		"the class of tokens":                   {"authPlugin": classes + "AuthenticationToken", "authParams": "token:" + planted},
		"the class of tokens, and the token":    {"authPluginClassName": classes + "AuthenticationToken", "authParams": planted},
		"the class of tokens, and a file":       {"authPlugin": classes + "AuthenticationToken", "authParams": "file:///run/token"},
		"the class of tokens, and JSON":         {"authPlugin": classes + "AuthenticationToken", "authParams": `{"token":"` + planted + `"}`},
		"parameters as a secret":                {"authPlugin": "token", "authParams": "secret:token"},
		"a map":                                 {"authParamMap": `{"token":"` + planted + `"}`},
		"a user":                                {"userId": "u", "password": planted},
		"the class of users":                    {"authPlugin": classes + "AuthenticationBasic", "authParams": `{"userId":"u","password":"` + planted + `"}`},
		"a user by names":                       {"authPlugin": "basic", "authParams": "userId:u,password:" + planted},
		"a certificate":                         {"tlsCertificateFilePath": "both", "tlsKeyFilePath": "both"},
		"the class of certificates":             {"authPlugin": classes + "AuthenticationTls", "authParams": "tlsCertFile:both,tlsKeyFile:both"},
		"a certificate beside a token":          {"tlsCertFile": "both", "tlsKeyFile": "both", "token": planted},
		"credentials in a file":                 {"privateKey": "key"},
		"credentials in a file by a URL":        {"privateKey": "file:///run/token", "issuerUrl": "https://i"},
		"credentials as data":                   {"privateKey": "data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(key))},
		"a client and its secret":               {"issuerUrl": "https://issuer.example.com", "clientId": "c", "clientSecret": planted, "audience": "a", "scope": "b c"},
		"the class of issuers":                  {"authPlugin": classes + "oauth2.AuthenticationOAuth2", "authParams": `{"type":"client_credentials","issuerUrl":"https://i","privateKey":"key","audience":"a"}`},
		"no login":                              {"authPlugin": "none"},
		"no login by its class":                 {"authPlugin": classes + "AuthenticationDisabled"},
		"authorities of two kinds, and a token": {"tlsTrustCerts": "secret:ca", "tlsTrustCertsFilePath": "ca", "token": planted},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "credentials in a file by a URL" {
				vault := maps.Clone(vault)
				vault["/run/token"] = key
				_, _, err := pulsar.ParseConfigs(nil, credentials, vault)
				require.NoError(t, err)
				return
			}
			s, notes, err := pulsar.ParseConfigs(nil, credentials, vault)
			require.NoError(t, err)
			require.Empty(t, notes)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", s, s, s), planted, "no format prints a secret")
		})
	}
}

// What a vault says reaches the user with its code, under the entry's name.
func TestErrorsOfTheVaultNameTheEntry(t *testing.T) {
	for name, configs := range map[string]m{
		"token": {"token": "secret:absent"}, "tlsTrustCertsFilePath": {"tlsTrustCertsFilePath": "absent"}, "privateKey": {"issuerUrl": "https://i", "privateKey": "absent"},
	} {
		_, _, err := pulsar.ParseConfigs(configs, nil, settingtest.Vault{})
		var e *graphmill.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "secret_not_found", e.Code)
		require.Contains(t, e.Text, name)
		_, _, err = pulsar.ParseConfigs(configs, nil, nil)
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err), "without a vault nothing can be named")
	}
}

func TestSettingsThatAreUnsafeAreTold(t *testing.T) {
	_, notes, err := pulsar.ParseConfigs(m{"tlsAllowInsecureConnection": "true"}, nil, nil)
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "whoever answers")
	s, _, err := pulsar.ParseConfigs(m{"tlsHostnameVerificationEnable": "false"}, m{"token": planted}, nil)
	require.NoError(t, err)
	require.Empty(t, s.Warnings("pulsar+ssl://b"))
	notes = s.Warnings("pulsar://b")
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], "no effect")
	require.Contains(t, notes[1], "the token is sent as it is")
	require.NotContains(t, strings.Join(notes, ""), planted)
}

func TestStartFromFollowsSubscriptionInitialPosition(t *testing.T) {
	require.Equal(t, graphmill.StartEarliest, pulsar.StartFrom(m{"subscriptionInitialPosition": "Earliest"}, nil))
	require.Equal(t, graphmill.StartLatest, pulsar.StartFrom(nil, m{"subscriptionInitialPosition": "LATEST"}))
	require.Empty(t, pulsar.StartFrom(m{"token": "x"}, nil))
}

// What CONFIGS of a stream hold of secrets is shown to nobody.
func TestSecretsInConfigsAreSeenByTheirNames(t *testing.T) {
	for _, name := range []string{"token", "authParams", "authParamMap", "password", "privateKey", "clientSecret", "tlsPrivateKey"} {
		require.True(t, graphmill.SecretConfig(name, "x"), name)
	}
}
