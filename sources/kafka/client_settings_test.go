package kafka_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill/sources/kafka"
)

// seen keeps the last request of each kind that a source has sent.
type seen struct {
	mu   sync.Mutex
	last map[int16]kmsg.Request
}

func (b *broker) watching(keys ...kmsg.Key) *seen {
	s := &seen{last: map[int16]kmsg.Request{}}
	for _, key := range keys {
		b.fake.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.fake.KeepControl()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last[req.Key()] = req
			return nil, nil, false
		})
	}
	return s
}

func (s *seen) of(key kmsg.Key) kmsg.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[int16(key)]
}

func TestConfigsReachTheBroker(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	b.produce(topic, 0, "a")
	saw := b.watching(kmsg.JoinGroup, kmsg.Fetch)
	cfg := b.config(topic)
	cfg.Start.Earliest = true
	cfg.Client = client(t, nil, map[string]string{
		"session.timeout.ms": "7000", "max.poll.interval.ms": "9000", "heartbeat.interval.ms": "500",
		"client.rack": "rack-1", "fetch.min.bytes": "3", "fetch.wait.max.ms": "70", "fetch.max.bytes": "5000", "max.partition.fetch.bytes": "4000",
		"broker.address.family": "v4", "socket.timeout.ms": "5000", "socket.connection.setup.timeout.ms": "3000", "reconnect.backoff.ms": "10",
		"reconnect.backoff.max.ms": "20", "metadata.max.age.ms": "2000", "connections.max.idle.ms": "5000", "receive.message.max.bytes": "1048576",
	})
	s, _ := b.open(cfg)
	collect(t, s, 1)
	join := saw.of(kmsg.JoinGroup).(*kmsg.JoinGroupRequest)
	require.EqualValues(t, 7000, join.SessionTimeoutMillis)
	require.EqualValues(t, 9000, join.RebalanceTimeoutMillis)
	require.Nil(t, join.InstanceID, "membership is dynamic")
	eventually(t, "a fetch with more than one byte", func() bool {
		f, ok := saw.of(kmsg.Fetch).(*kmsg.FetchRequest)
		return ok && f.MaxWaitMillis == 70 && f.MinBytes == 3 && f.Rack == "rack-1" && f.MaxBytes <= 5000
	})
}

func TestClientIDIsTheOneOfTheConfigs(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	for name, want := range map[string]string{"": kafka.DefaultClientID, "mine": "mine"} {
		cfg := b.config(topic)
		if name != "" {
			cfg.Client = client(t, nil, map[string]string{"client.id": name})
		}
		b.open(cfg)
		info := b.fake.GroupInfo(cfg.Group)
		require.Len(t, info.Members, 1)
		require.Equal(t, want, info.Members[0].ClientID)
	}
}

func TestAnAddressOfTheOtherFamilyIsNotConnectedTo(t *testing.T) {
	b := newFake(t)
	err := b.probe(client(t, nil, map[string]string{"broker.address.family": "v6"}), b.topic(1))
	require.Equal(t, "broker_unreachable", fault(t, err).Code)
}
