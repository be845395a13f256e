package server_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// lostKey is a server that was begun anew without the key of its stream "s".
func lostKey(t *testing.T, desired graphmill.State) (w *world, s *server.Server, key string) {
	t.Helper()
	w = newWorld(t, 1, boltserver.Options{})
	s = w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) {
		spec.Credentials = map[string]string{"client.id": "me"}
		spec.Configs = map[string]string{"ssl.key.password": "pl4nted"}
	})
	if desired == graphmill.StateRunning {
		w.start(s)
	}
	w.close(s)
	key = filepath.Join(w.dir, "secret.key")
	require.NoError(t, os.Rename(key, key+".away"))
	return w, w.open(nil), key
}

func TestAStreamWhoseKeyIsLostHasFailedUntilTheKeyIsBack(t *testing.T) {
	w, s, key := lostKey(t, graphmill.StateRunning)
	require.Len(t, w.log.with("put it back from a backup, or name it with --secret-key-file"), 1, "it is told at start")
	info, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, graphmill.StateFailed, info.State)
	require.Equal(t, graphmill.StateRunning, info.Desired)
	require.Equal(t, "secret_key", info.Reason.Code)
	require.Contains(t, info.Reason.Text, "configs.ssl.key.password, credentials.client.id")
	require.Contains(t, info.Reason.NextStep, "graphmill stream edit s --config ssl.key.password=... --credential client.id=...")
	require.Equal(t, info.Reason, w.status(s).Reason)
	require.Equal(t, graphmill.RedactedValue, info.Spec.Configs["ssl.key.password"])

	requireCode(t, start(s)(), "secret_key")
	_, err = s.StreamOffsets(t.Context(), "s")
	requireCode(t, err, "secret_key")
	_, err = s.CheckStream(t.Context(), "s", server.CheckRequest{BatchLimit: 1, Timeout: patience, From: graphmill.StartEarliest})
	requireCode(t, err, "secret_key")
	spec := graphmill.StreamSpec{Name: "other", Topics: []string{"topic"}, Transform: "obedient", Credentials: map[string]string{"client.id": "me"}}
	_, err = s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	requireCode(t, err, "secret_key")
	require.NoFileExists(t, key, "another key would hide that one is lost")

	require.NoError(t, os.Rename(key+".away", key))
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 1)
}

func TestAStreamWhoseKeyIsLostIsResumedWithTheKey(t *testing.T) {
	w, s, key := lostKey(t, graphmill.StateRunning)
	w.close(s)
	require.NoError(t, os.Rename(key+".away", key))
	w.awaitState(w.open(nil), graphmill.StateRunning)
}

func TestAStreamWhoseKeyIsLostIsSetAgain(t *testing.T) {
	patch := func(s *server.Server, doc string) error {
		_, err := s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: json.RawMessage(doc), Check: true})
		return err
	}
	w, s, key := lostKey(t, graphmill.StateRunning)
	require.NoError(t, patch(s, `{"batch_size": 7}`), "what is no secret can be changed")
	require.Equal(t, "secret_key", w.status(s).Reason.Code)
	requireCode(t, patch(s, `{"credentials": {"client.id": "you"}}`), "secret_key")
	require.NoFileExists(t, key)
	require.NoError(t, patch(s, `{"credentials": {"client.id": "you"}, "configs": {"ssl.key.password": "new"}}`), "nothing is sealed with the lost key any more")
	require.FileExists(t, key)
	st := w.status(s)
	require.Equal(t, graphmill.StateFailed, st.State, "until START, as other failures")
	require.Equal(t, "graphmill stream start s", st.Reason.NextStep)
	w.start(s)
	w.close(s)
	w.awaitState(w.open(nil), graphmill.StateRunning)
}

func TestAStoppedStreamWhoseKeyIsLostSaysSo(t *testing.T) {
	w, s, _ := lostKey(t, graphmill.StateStopped)
	require.Len(t, w.log.with("level=WARN"), 1)
	st := w.status(s)
	require.Equal(t, graphmill.StateStopped, st.State)
	require.Equal(t, "secret_key", st.Reason.Code)
	requireCode(t, stop(s)(), "already_stopped")
	require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Credentials = map[string]string{"client.id": "me"} })
}

// damage puts something in the place of a stream's entry. No server is open.
func (w *world) damage(name, entry string) {
	w.t.Helper()
	db, err := bbolt.Open(filepath.Join(w.dir, "catalog.db"), 0o600, nil)
	require.NoError(w.t, err)
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("streams")).Put([]byte(name), []byte(entry)) })
	require.NoError(w.t, errors.Join(err, db.Close()))
}

func TestCase40ABrokenEntryIsShownAndCanBeDropped(t *testing.T) {
	for name, c := range map[string]struct {
		entry  string
		topics []string // that are known all the same
	}{
		"torn":               {entry: `{"spec":`},
		"of a later version": {entry: `{"spec":{"name":"s","topics":["topic"],"credentials":{"a":"sealed:1:00000000:AAAA"},"later":true},"desired":"running"}`, topics: []string{"topic"}},
		"empty":              {entry: " "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: "sound", Topics: []string{"topic"}, Transform: "obedient"}, Check: true})
			require.NoError(t, err)
			w.close(s)
			w.damage("s", c.entry)
			s = w.open(nil)
			require.Len(t, w.log.with("graphmill stream drop s"), 1, "it is told with the next step")

			infos, err := s.Streams(t.Context())
			require.NoError(t, err)
			require.Len(t, infos, 2)
			info, err := s.Stream(t.Context(), "s")
			require.NoError(t, err)
			require.Equal(t, infos[0], info)
			require.Equal(t, graphmill.StateBroken, info.State)
			require.Equal(t, "entry_broken", info.Reason.Code)
			require.Contains(t, info.Reason.Text, filepath.Join(w.dir, "catalog.db"))
			require.Contains(t, info.Reason.NextStep, "graphmill stream drop s")
			require.Equal(t, c.topics, info.Spec.Topics)
			require.Empty(t, info.Spec.Credentials)
			require.Equal(t, info.Reason, w.status(s).Reason)

			requireCode(t, start(s)(), "entry_broken")
			requireCode(t, stop(s)(), "entry_broken")
			_, err = s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: json.RawMessage(`{}`)})
			requireCode(t, err, "entry_broken")
			_, err = s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient"}, Check: true})
			requireCode(t, err, "entry_broken")

			require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
			_, err = s.Stream(t.Context(), "s")
			requireCode(t, err, "stream_not_found")
			requireCode(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}), "stream_not_found")
			w.create(s, nil)
			w.start(s)
		})
	}
}
