package pulsar_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/clientcert/certtest"
	"github.com/graphmill/graphmill/sources/pulsar"
)

func TestDiagnoseAdminTellsWhatIsWrong(t *testing.T) {
	a := certtest.NewAuthority(t)
	page := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	var seen []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("ok"))
	}))
	t.Cleanup(elsewhere.Close)
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		code   string // empty: all is well
		says   string
	}{
		{"health", page(200, "ok"), "", ""},
		{"no login", page(401, "<html><title>Error 401 Authentication required</title>"), "auth", "bearer of the token"},
		{"a role that may not", page(401, `{"reason":"This operation requires super-user access"}`), "forbidden", "does not allow"},
		{"a role that is forbidden", page(403, `{"reason":"no"}`), "forbidden", "does not allow"},
		{"another server", page(404, "<html>not here</html>"), "admin_unreachable", "no admin REST"},
		{"a broker that is ill", page(500, `{"reason":"timed out `+planted+`"}`), "broker_error", "health"},
		{"a proxy without a broker", page(502, "bad gateway"), "broker_error", "health"},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request) {
			block := []byte(strings.Repeat("x", 1<<20))
			for range 20 {
				_, _ = w.Write(block)
			}
		}, "admin_unreachable", "does not answer"},
		{"another broker", http.RedirectHandler(elsewhere.URL+"/admin/v2/brokers/health", http.StatusTemporaryRedirect).ServeHTTP, "", ""},
		{"a page to log in", http.RedirectHandler(elsewhere.URL+"/login", http.StatusFound).ServeHTTP, "admin_unreachable", "does not answer"},
		{"another kind of address", http.RedirectHandler("ftp://127.0.0.1/admin/v2/x", http.StatusFound).ServeHTTP, "admin_unreachable", "does not answer"},
		{"itself for ever", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "admin_unreachable", "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen = nil
			s := httptest.NewServer(c.answer)
			t.Cleanup(s.Close)
			f, err := pulsar.DiagnoseAdmin(t.Context(), s.URL, settingsOf(t, m{"token": planted}))
			require.NoError(t, err)
			if c.code == "" {
				require.Nil(t, f)
				if len(seen) > 0 {
					require.Equal(t, []string{"Bearer " + planted}, seen, "the other broker is shown the login too")
				}
				return
			}
			require.Empty(t, seen, "the login goes nowhere else")
			require.Equal(t, c.code, f.Code, "%v", f)
			require.Contains(t, f.Text, c.says)
			require.NotContains(t, f.Error()+f.Next, planted)
		})
	}
	t.Run("TLS", func(t *testing.T) {
		s := httptest.NewUnstartedServer(page(200, "ok"))
		s.TLS = tlsOf(a.Issue(nil))
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that trust it not
		s.StartTLS()
		t.Cleanup(s.Close)
		f, err := pulsar.DiagnoseAdmin(t.Context(), s.URL, settingsOf(t, m{"tlsTrustCerts": a.PEM}))
		require.NoError(t, err)
		require.Nil(t, f)
		f, err = pulsar.DiagnoseAdmin(t.Context(), s.URL, pulsar.ClientSettings{})
		require.NoError(t, err)
		require.Equal(t, "tls_authority", f.Code)
	})
	t.Run("nobody", func(t *testing.T) {
		f, err := pulsar.DiagnoseAdmin(t.Context(), "http://127.0.0.1:1", pulsar.ClientSettings{})
		require.NoError(t, err)
		require.Equal(t, "admin_unreachable", f.Code)
		require.Equal(t, graphmill.FaultTransient, f.Class)
	})
	for _, address := range []string{"", "pulsar://b", "http://", "http://u:" + planted + "@h", "http://h?x=" + planted, ":"} {
		_, err := pulsar.DiagnoseAdmin(t.Context(), address, pulsar.ClientSettings{})
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err), address)
		require.NotContains(t, err.Error(), planted)
	}
}

func TestDiagnoseAdminOfTheBrokerOfTests(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	f, err := pulsar.DiagnoseAdmin(t.Context(), s.AdminURL(), pulsar.ClientSettings{})
	require.NoError(t, err)
	require.Nil(t, f)
	s.RequireTokens(map[string]string{"good": "r"})
	f, err = pulsar.DiagnoseAdmin(t.Context(), s.AdminURL(), settingsOf(t, m{"token": planted}))
	require.NoError(t, err)
	require.Equal(t, "auth", f.Code)
}
