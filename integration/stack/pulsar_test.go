package stack

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTopicPath(t *testing.T) {
	for topic, want := range map[string]string{
		"orders":                             "/admin/v2/persistent/public/default/orders",
		"shop/web/orders":                    "/admin/v2/persistent/shop/web/orders",
		"persistent://shop/web/orders":       "/admin/v2/persistent/shop/web/orders",
		"non-persistent://shop/web/orders":   "/admin/v2/non-persistent/shop/web/orders",
		"persistent://public/default/a/b?c#": "/admin/v2/persistent/public/default/a%2Fb%3Fc%23",
	} {
		require.Equal(t, want, TopicPath(topic), topic)
	}
}

func TestTokenIsAJSONWebToken(t *testing.T) {
	// Computed with: printf '%s' HEADER.CLAIMS | openssl dgst -sha256 -hmac KEY -binary | basenc --base64url
	require.Equal(t, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.7rGQ1KdWzLhIzMdQZI7o99MfMq-yUJ2ufcCE9nhkDA0", signToken("a key of thirty-two bytes or more", "admin"))
}

func TestLoopbackInterface(t *testing.T) {
	name, err := loopbackInterface()
	require.NoError(t, err)
	lo, err := net.InterfaceByName(name)
	require.NoError(t, err)
	addresses, err := lo.Addrs()
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(addresses), "127.0.0.1/8")
}

func TestPulsarConfTakesSettingsThatWin(t *testing.T) {
	newConf := func(cfg PulsarConfig) string {
		dir := t.TempDir()
		p := &Pulsar{tokenKey: "key", Server: &Server{dir: dir, state: state{Ports: map[string]int{
			portBroker: 1001, portWeb: 1002, portBrokerTLS: 1003, portWebTLS: 1004, portBookie: 1005,
		}}}}
		require.NoError(t, p.writeConf(cfg))
		b, err := os.ReadFile(filepath.Join(dir, pulsarConfFile))
		require.NoError(t, err)
		require.NotContains(t, string(b), "<no value>")
		return string(b)
	}
	conf := newConf(PulsarConfig{FailoverDelay: time.Second, Settings: map[string]string{"numIOThreads": "7"}})
	require.Contains(t, conf, "brokerServicePort=1001\nwebServicePort=1002\n")
	require.Contains(t, conf, "\nactiveConsumerFailoverDelayTimeMillis=1000\nacknowledgmentAtBatchIndexLevelEnabled=false\n")
	require.Greater(t, strings.Index(conf, "\nnumIOThreads=7\n"), strings.Index(conf, "\nnumIOThreads=2\n"), "of two lines Pulsar takes the last")
	require.Contains(t, conf, "\nlisteningInterface=lo")
	require.NotContains(t, conf, "Tls")
	require.NotContains(t, conf, "authentication")

	conf = newConf(PulsarConfig{TLS: true, Token: true, BatchIndexAck: true})
	require.Contains(t, conf, "\nbrokerServicePortTls=1003\nwebServicePortTls=1004\n")
	require.Contains(t, conf, "\ntokenSecretKey=data:;base64,a2V5\n")
	require.Contains(t, conf, "\nacknowledgmentAtBatchIndexLevelEnabled=true\n")
}

func TestPulsarAdminRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		status int
		reason string
	}{
		"with a reason":    {`{"reason":"Topic not found"}`, 404, "Topic not found"},
		"without a reason": {"<html>no</html>\n", 500, "<html>no</html>"},
		"of no words":      {"", 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.answer))
			}))
			defer broker.Close()
			err := pulsarAt(t, broker.URL).CreateTopic(t.Context(), "orders", 3)
			var refused *AdminError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, &AdminError{Request: "PUT /admin/v2/persistent/public/default/orders/partitions", Status: tc.status, Reason: tc.reason}, refused)
		})
	}
}

func TestPulsarAdminIsAskedAsTheSuperuser(t *testing.T) {
	var asked []string
	broker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer broker.Close()
	p := pulsarAt(t, broker.URL)
	require.NoError(t, p.Grant(t.Context(), "public/default", "reader", "consume"))
	p.token, p.tokenKey = true, "key"
	require.NoError(t, p.Grant(t.Context(), "public/default", "reader"))
	const path = " /admin/v2/namespaces/public/default/permissions/reader "
	require.Equal(t, []string{"POST" + path, "DELETE" + path + "Bearer " + p.Token(PulsarSuperuser)}, asked)

	require.ErrorContains(t, p.CreateNamespace(t.Context(), "public"), "tenant/name")
}

// pulsarAt is a broker whose admin interface is at this address.
func pulsarAt(t *testing.T, address string) *Pulsar {
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return &Pulsar{Server: &Server{state: state{Ports: map[string]int{portWeb: port}}}}
}

func TestSecretIsKept(t *testing.T) {
	s := &Server{dir: t.TempDir(), program: program{artifact: artifact{name: namePulsar}}}
	first, err := s.keepSecret("secret", "first")
	require.NoError(t, err)
	require.Equal(t, "first", first)
	again, err := s.keepSecret("secret", "second")
	require.NoError(t, err)
	require.Equal(t, "first", again)
	info, err := os.Stat(s.path("secret"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.Mkdir(s.path("directory"), 0o700))
	_, err = s.keepSecret("directory", "third")
	require.ErrorContains(t, err, "keep the secret of pulsar")
}
