package pulsar_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
)

// issuer gives out tokens of OAuth 2.0.
type issuer struct {
	*httptest.Server
	mu       sync.Mutex
	asked    []url.Values
	token    string
	lifetime int // seconds
	refuses  int // status; 0: it gives tokens
	silent   bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{token: planted, lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /realm/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if i.silent {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token_endpoint": i.URL + "/token"})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = r.ParseForm()
		i.asked = append(i.asked, r.Form)
		w.Header().Set("Content-Type", "application/json")
		if i.refuses != 0 {
			w.WriteHeader(i.refuses)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"%s is wrong"}`, r.Form.Get("client_secret"))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.token, "token_type": "Bearer", "expires_in": i.lifetime})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) configs() m {
	return m{"issuerUrl": i.URL + "/realm", "clientId": "c", "clientSecret": "s" + planted, "audience": "urn:pulsar", "scope": "a b"}
}

func TestTokensOfAnIssuerAreShownToBrokers(t *testing.T) {
	i := newIssuer(t)
	s := pulsarserver.Start(t, pulsarserver.Options{})
	create(t, s, "t", 0)
	s.RequireTokens(map[string]string{planted: "reader"})
	settings := settingsOf(t, i.configs())
	for range 3 {
		require.NoError(t, probeWith(t, s.URL(), settings, "t"))
	}
	require.Len(t, i.asked, 1, "a token is kept while it is good")
	require.Equal(t, url.Values{"grant_type": {"client_credentials"}, "client_id": {"c"}, "client_secret": {"s" + planted}, "audience": {"urn:pulsar"}, "scope": {"a b"}}, i.asked[0])

	i.lifetime = 10 // seconds: less than what a token must be good for yet
	settings = settingsOf(t, i.configs())
	for range 2 {
		require.NoError(t, probeWith(t, s.URL(), settings, "t"))
	}
	require.Len(t, i.asked, 3, "a token that ends is not shown again")
}

func TestIssuersThatGiveNoTokenAreTold(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	create(t, s, "t", 0)
	for name, c := range map[string]struct {
		change func(*issuer)
		code   string
		class  graphmill.FaultClass
	}{
		"one that does not know the secret": {func(i *issuer) { i.refuses = 401 }, "auth", graphmill.FaultSetup},
		"one that is ill":                   {func(i *issuer) { i.refuses = 503 }, "oauth_issuer", graphmill.FaultTransient},
		"one that says nothing of itself":   {func(i *issuer) { i.silent = true }, "oauth_issuer", graphmill.FaultTransient},
		"one that is away":                  {func(i *issuer) { i.Close() }, "oauth_issuer", graphmill.FaultTransient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			configs := i.configs()
			c.change(i)
			err := probe(t, s.URL(), configs, "t")
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.code, f.Code, "%v", err)
			require.Equal(t, c.class, f.Class)
			require.NotContains(t, err.Error()+f.Next, planted)
		})
	}
}
