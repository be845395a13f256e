package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/secret"
)

// created makes a definition of the world's topic.
func created(w *world, s *server.Server, name string, check bool, change func(*graphmill.StreamSpec)) (server.StreamInfo, error) {
	spec := graphmill.StreamSpec{Name: name, Topics: []string{"topic"}, Transform: "obedient", ConsumerGroup: name}
	change(&spec)
	return s.CreateStream(w.t.Context(), server.CreateRequest{Spec: spec, Check: check})
}

func TestCreateTellsWhatOfConfigsHasNoEffect(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	info, err := created(w, s, "noted", true, func(spec *graphmill.StreamSpec) {
		spec.Configs = map[string]string{"debug": "all", "auto.offset.reset": "smallest"}
		spec.StartFrom = graphmill.StartLatest
	})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 2)
	require.Contains(t, info.Warnings[0], "debug")
	require.Contains(t, info.Warnings[1], "start_from says latest")
	require.Equal(t, graphmill.StartLatest, info.Spec.StartFrom)
}

func TestAutoOffsetResetSaysWhereToBeginWhereStartFromDoesNot(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	for value, want := range map[string]string{"smallest": graphmill.StartEarliest, "latest": graphmill.StartLatest} {
		info, err := created(w, s, value, true, func(spec *graphmill.StreamSpec) {
			spec.Configs = map[string]string{"auto.offset.reset": value}
		})
		require.NoError(t, err)
		require.Equal(t, want, info.Spec.StartFrom)
		require.Empty(t, info.Warnings)
	}
}

func TestCreateRefusesConfigsByFieldAndName(t *testing.T) {
	const planted = "PLANTED-27182"
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	for _, check := range []bool{true, false} {
		_, err := created(w, s, "refused", check, func(spec *graphmill.StreamSpec) {
			spec.Credentials = map[string]string{"sasl.pasword": planted}
		})
		e := requireCode(t, err, "invalid")
		require.Equal(t, "credentials", e.Field)
		require.Contains(t, e.Text, "sasl.password")
		require.NotContains(t, err.Error(), planted)
	}
}

func TestASecretThatIsAbsentKeepsAStreamFromStartingOnly(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	dir := t.TempDir()
	s := w.open(func(c *server.Config) { c.Secrets = secret.References{Dir: dir} })
	w.push(s)
	later := func(spec *graphmill.StreamSpec) { spec.Configs = map[string]string{"client.id": "secret:later"} }
	_, err := created(w, s, "later", true, later)
	e := requireCode(t, err, "secret_not_found")
	require.Equal(t, "configs", e.Field)
	require.Contains(t, e.Text, "client.id")

	info, err := created(w, s, "later", false, later)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(info.Warnings), "cannot start yet")
	_, err = s.StartStream(t.Context(), "later", server.StartRequest{})
	requireCode(t, err, "secret_not_found")
	st, err := s.StreamStatus(t.Context(), "later")
	require.NoError(t, err)
	require.Equal(t, graphmill.StateFailed, st.State)
	require.Equal(t, "secret_not_found", st.Reason.Code)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "later"), []byte("me\n"), 0o600))
	_, err = s.StartStream(t.Context(), "later", server.StartRequest{})
	require.NoError(t, err)
	require.Equal(t, "me", w.kafka.GroupInfo("later").Members[0].ClientID)
}

func TestADefinitionNamesNoFileOutsideOfTheSecrets(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	outside := filepath.Join(t.TempDir(), "outside.pem")
	require.NoError(t, os.WriteFile(outside, []byte("not for streams"), 0o600))
	for _, dir := range []string{"", t.TempDir()} {
		s := w.open(func(c *server.Config) { c.Secrets = secret.References{Dir: dir} })
		for _, path := range []string{outside, "../outside.pem", "/etc/passwd"} {
			_, err := created(w, s, "spy", true, func(spec *graphmill.StreamSpec) {
				spec.Configs = map[string]string{"security.protocol": "ssl", "ssl.ca.location": path}
			})
			e := requireCode(t, err, "file_not_allowed")
			require.Contains(t, e.Text, "ssl.ca.location")
			require.Contains(t, e.Next, "--secrets-dir")
			require.False(t, strings.Contains(err.Error(), "not for streams"))
		}
		w.close(s)
	}
}
