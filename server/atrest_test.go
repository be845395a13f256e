package server_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/secret"
)

func TestTheStatusOfAStreamThatDoesNotRunTellsEndAndLag(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	require.Equal(t, []graphmill.PartitionStatus{
		{TopicPartition: graphmill.TopicPartition{Topic: "topic", Partition: 0}, Acknowledged: -1, End: 0, Lag: -1, Lane: -1},
		{TopicPartition: graphmill.TopicPartition{Topic: "topic", Partition: 1}, Acknowledged: -1, End: 0, Lag: -1, Lane: -1},
	}, withoutIDs(w.status(s).Partitions), "it has come nowhere yet")

	w.produce("a", "b")
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.NoError(t, stop(s)())
	w.produce("c", "fail", "d")
	p := w.await(s, "the broker's answer is a new one", func(st graphmill.StreamStatus) bool { return st.Partitions[0].End == 5 }).Partitions[0]
	require.EqualValues(t, 2, p.Acknowledged)
	require.EqualValues(t, 3, p.Lag)
	require.Equal(t, -1, p.Lane)

	w.start(s)
	p = w.awaitState(s, graphmill.StateFailed).Partitions[0]
	require.EqualValues(t, 5, p.End)
	require.EqualValues(t, p.End-p.Acknowledged, p.Lag)

	_, err := w.setOffsets(s, "4", &graphmill.TopicPartition{Topic: "topic"})
	require.NoError(t, err)
	require.EqualValues(t, 4, w.status(s).Partitions[0].Acknowledged, "what is moved is seen at once")

	var asked atomic.Int64
	w.kafka.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.kafka.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	for range 50 {
		w.status(s)
	}
	require.Zero(t, asked.Load(), "who looks often does not ask often")
	one, other := w.status(s), w.status(s)
	require.NotSame(t, &one.Partitions[0], &other.Partitions[0], "what is remembered is nobody's to change")
}

func withoutIDs(partitions []graphmill.PartitionStatus) []graphmill.PartitionStatus {
	for i := range partitions {
		partitions[i].TopicID = ""
	}
	return partitions
}

func TestTheStatusOfAStreamThatDoesNotRunDoesNotHangWithItsBroker(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
	require.NoError(t, stop(s)())
	w.kafka.Close()
	promptly(t, "50 times the status", func() {
		for range 50 {
			p := w.status(s).Partitions[0]
			require.EqualValues(t, 1, p.Acknowledged)
			require.EqualValues(t, -1, p.End)
			require.EqualValues(t, -1, p.Lag)
		}
	})
}

// A stopped stream with a wrong password is looked at again and again, by --watch or
// a dashboard.
func TestTheStatusDoesNotTryAWrongPasswordAgainAndAgain(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "topic"), kfake.EnableSASL())
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	var logins atomic.Int64
	broker.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		logins.Add(1)
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code // as real brokers; the fake closes the connection
		return resp, nil, true
	})
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient", BootstrapServers: broker.ListenAddrs(),
		Configs:     map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"},
		Credentials: map[string]string{"sasl.password": "wrong"}}
	_, err = s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	require.NoError(t, err)
	logins.Store(0)
	for range 20 {
		require.Equal(t, graphmill.StateStopped, w.status(s).State)
	}
	require.LessOrEqual(t, logins.Load(), int64(1))
	_, err = s.StartStream(t.Context(), "s", server.StartRequest{})
	require.Error(t, err)
	before := logins.Load()
	for range 20 {
		w.status(s)
	}
	require.Equal(t, before, logins.Load(), "a stream that was not let in is not tried by a status")
}

// What is no login may be asked again: a secret that is not there yet locks nobody out.
func TestTheStatusOfAStreamThatDoesNotRunSeesThatItsSecretIsThere(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	secrets := secret.References{Dir: t.TempDir()}
	s := w.open(func(c *server.Config) { c.Secrets = secrets })
	w.push(s)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient", Credentials: map[string]string{"client.id": "secret:id"}}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	require.NoError(t, err)
	require.Empty(t, w.status(s).Partitions)
	require.NoError(t, os.WriteFile(filepath.Join(secrets.Dir, "id"), []byte("me"), 0o600))
	w.await(s, "the broker is asked", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 1 && st.Partitions[0].End == 0 })
}
