package pulsar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/setting"
)

const (
	// issuerTimeout bounds one request to the issuer of tokens.
	issuerTimeout = 10 * time.Second

	// maxIssuerAnswer bounds what it says of itself, in bytes.
	maxIssuerAnswer = 1 << 20

	// earlier is how long before its end a token is not shown any more.
	earlier = 30 * time.Second
)

// oauthClient gets tokens by the client credentials of OAuth 2.0 (RFC 6749, 4.4),
// and keeps one as long as it is good. Safe for concurrent use.
type oauthClient struct {
	issuer   *url.URL
	id       string
	secret   setting.Secret
	audience string
	scopes   []string
	http     *http.Client
	kept     atomic.Pointer[oauth2.Token]

	mu           sync.Mutex // held while a token is asked for, so that one request does for all
	tokenAddress string     // learnt of the issuer
}

// oauth makes the client of the issuer, whose certificate one of roots has signed:
// the system's authorities, or those of the brokers.
func (r *rawSecurity) oauth(roots *x509.CertPool, given given, vault setting.Vault) (*oauthClient, error) {
	c := &oauthClient{id: r.clientID, secret: r.clientSecret, audience: r.audience, scopes: strings.Fields(r.scope)}
	issuer := r.issuer
	if !r.privateKey.Empty() {
		if c.id != "" || !c.secret.Empty() {
			return nil, graphmill.Invalid(given.Field("clientId"), "clientId and clientSecret stand in privateKey; give one or the other")
		}
		key, err := readPrivateKey(r.privateKey.Reveal(), given, vault)
		if err != nil {
			return nil, err
		}
		c.id, c.secret = key.ClientID, setting.Hide(key.ClientSecret)
		if issuer == "" {
			issuer = key.IssuerURL
		}
		if len(c.scopes) == 0 {
			c.scopes = strings.Fields(key.Scope)
		}
	}
	switch {
	case issuer == "":
		return nil, graphmill.Invalid(given.Field("issuerUrl"), "issuerUrl is needed with the login oauth2")
	case c.id == "" || c.secret.Empty():
		return nil, graphmill.Invalid(given.Field("privateKey"), "the login oauth2 needs a client and its secret: privateKey, with client_id and client_secret in it, or clientId and clientSecret")
	}
	var err error
	if c.issuer, err = httpsURL(issuer); err != nil {
		return nil, graphmill.Invalid(given.Field("issuerUrl"), "the value of issuerUrl cannot be used: %v", err)
	}
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DisableKeepAlives: true, // a token is asked for once an hour
	}
	c.http = &http.Client{Transport: transport, Timeout: issuerTimeout}
	return c, nil
}

// privateKey is the file of credentials that Pulsar's clients take.
type privateKey struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	IssuerURL    string `json:"issuer_url"`
	Scope        string `json:"scope"`
}

// readPrivateKey reads the credentials of a path, a file: URL, or a data: URL.
func readPrivateKey(value string, given given, vault setting.Vault) (privateKey, error) {
	var content []byte
	if data, ok := strings.CutPrefix(value, "data:"); ok {
		form, text, ok := strings.Cut(data, ",")
		content = []byte(text)
		var err error
		if strings.HasSuffix(form, ";base64") {
			content, err = base64.StdEncoding.DecodeString(text)
		}
		if !ok || err != nil {
			return privateKey{}, graphmill.Invalid(given.Field("privateKey"), "the value of privateKey cannot be used: it is a file, or data:application/json;base64,TEXT")
		}
	} else {
		var err error
		path := strings.TrimPrefix(strings.TrimPrefix(value, "file:"), "//")
		if content, err = given.File("privateKey", path, vault); err != nil {
			return privateKey{}, err
		}
	}
	var key privateKey
	if json.Unmarshal(content, &key) != nil { // its error may repeat some of it
		return privateKey{}, graphmill.Invalid(given.Field("privateKey"), "privateKey holds no object of JSON with client_id and client_secret")
	}
	return key, nil
}

// issuerError is why there is no token. It holds none, and no secret.
type issuerError struct {
	issuer  string
	refused bool   // the issuer knows the client or its secret not
	text    string // what is so
}

func (e *issuerError) Error() string { return "the issuer of tokens at " + e.issuer + " " + e.text }

// token returns a token that is good for some time yet. Errors are *issuerError.
func (c *oauthClient) token() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.kept.Load(); kept != nil && (kept.Expiry.IsZero() || time.Until(kept.Expiry) > earlier) {
		return kept.AccessToken, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*issuerTimeout)
	defer cancel()
	if c.tokenAddress == "" {
		address, err := c.discover(ctx)
		if err != nil {
			return "", err
		}
		c.tokenAddress = address
	}
	cfg := clientcredentials.Config{
		ClientID: c.id, ClientSecret: c.secret.Reveal(), TokenURL: c.tokenAddress, Scopes: c.scopes, AuthStyle: oauth2.AuthStyleInParams,
	}
	if c.audience != "" {
		cfg.EndpointParams = url.Values{"audience": {c.audience}}
	}
	token, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, c.http))
	if err != nil {
		return "", c.refused(err)
	}
	c.kept.Store(token)
	return token.AccessToken, nil
}

// current is the token that is kept, or "". c may be nil.
func (c *oauthClient) current() string {
	if c == nil {
		return ""
	}
	if kept := c.kept.Load(); kept != nil {
		return kept.AccessToken
	}
	return ""
}

// refused tells what an issuer has against it. Its own words are left out: they
// may repeat what was sent.
func (c *oauthClient) refused(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.Response == nil {
		return c.fails("does not answer: " + withoutURL(err))
	}
	status := answer.Response.StatusCode
	e := &issuerError{issuer: c.issuer.Host, text: fmt.Sprintf("answers %d %s", status, answer.ErrorCode)}
	e.refused = status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
	return e
}

func (c *oauthClient) fails(text string) error {
	return &issuerError{issuer: c.issuer.Host, text: text}
}

// discover asks the issuer where tokens are given out (OpenID Connect Discovery
// 1.0, section 4).
func (c *oauthClient) discover(ctx context.Context) (string, error) {
	at := c.issuer.JoinPath(".well-known", "openid-configuration")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", c.fails(withoutURL(err))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", c.fails("does not answer: " + withoutURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	var endpoints struct {
		Token string `json:"token_endpoint"`
	}
	if resp.StatusCode != http.StatusOK {
		return "", c.fails(fmt.Sprintf("answers %d to %s", resp.StatusCode, at.Path))
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxIssuerAnswer)).Decode(&endpoints) != nil {
		return "", c.fails("does not say where tokens are given out (" + at.Path + ")")
	}
	if _, err := httpsURL(endpoints.Token); err != nil {
		return "", c.fails("names an address for tokens that cannot be used (" + at.Path + ")")
	}
	return endpoints.Token, nil
}

// withoutURL is an error of net/http without the address, which is told anyway.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}
