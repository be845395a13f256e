package sourcetest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// carry produces messages, each as a unit of its own, and reads them.
func (x *trial) carry(messages ...graphmill.Message) []graphmill.Message {
	x.t.Helper()
	topic := x.topic(1)
	src, _ := x.open(x.stream(topic))
	for _, m := range messages {
		x.b.Produce(topic, 0, m)
	}
	got, _ := Collect(x.t, src, len(messages))
	return got
}

func keepsNullAndEmpty(x *trial) {
	got := x.carry(
		graphmill.Message{Payload: []byte{}},
		graphmill.Message{Payload: []byte("x"), Key: []byte("k")},
		graphmill.Message{Payload: []byte("x"), Key: []byte{}},
	)
	require.NotNil(x.t, got[0].Payload, "empty is not null")
	require.Empty(x.t, got[0].Payload)
	require.Nil(x.t, got[0].Key, "null is not empty")
	require.Empty(x.t, got[0].Headers)
	require.Equal(x.t, "k", string(got[1].Key))
	if x.can.EmptyKey {
		require.NotNil(x.t, got[2].Key)
	} else {
		require.Nil(x.t, got[2].Key)
	}
	require.Empty(x.t, got[2].Key)
}

func keepsNullPayload(x *trial) {
	if !x.can.NullPayload {
		x.t.Skip("this broker has no messages without a payload")
	}
	got := x.carry(
		graphmill.Message{Payload: nil, Key: []byte("k")},
		graphmill.Message{Payload: nil, Key: nil},
	)
	require.Nil(x.t, got[0].Payload)
	require.Equal(x.t, "k", string(got[0].Key))
	require.Nil(x.t, got[1].Payload)
	require.Nil(x.t, got[1].Key)
}

// anyBytes is each byte once: no text.
func anyBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func keepsBytes(x *trial) {
	got := x.carry(graphmill.Message{Payload: anyBytes(), Key: anyBytes()})
	require.Equal(x.t, anyBytes(), got[0].Payload)
	require.Equal(x.t, anyBytes(), got[0].Key)
}

func keepsHeaders(x *trial) {
	long := strings.Repeat("0123456789", 1000)
	sent := []graphmill.Header{
		{Key: "b", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: anyBytes()}, {Key: "", Value: []byte{}},
		{Key: "ключ", Value: []byte("значение")}, {Key: "long", Value: []byte(long)}, {Key: "b", Value: []byte("1")},
	}
	want := sent
	if !x.can.HeaderList {
		sent = []graphmill.Header{
			{Key: "b", Value: []byte("1")}, {Key: "ключ", Value: []byte("значение")}, {Key: "a", Value: []byte{}},
			{Key: "long", Value: []byte(long)},
		}
		want = []graphmill.Header{sent[2], sent[0], sent[3], sent[1]}
	}
	got := x.carry(
		graphmill.Message{Payload: []byte("with"), Headers: sent},
		graphmill.Message{Payload: []byte("without")},
	)
	require.Equal(x.t, want, got[0].Headers)
	require.Empty(x.t, got[1].Headers)
}

func keepsTime(x *trial) {
	const when = 1_700_000_000_123
	got := x.carry(
		graphmill.Message{Payload: []byte("then"), Timestamp: when},
		graphmill.Message{Payload: []byte("now")},
	)
	require.EqualValues(x.t, when, got[0].Timestamp)
	require.WithinDuration(x.t, time.Now(), time.UnixMilli(got[1].Timestamp), 2*Patience)
}

func readsBigMessages(x *trial) {
	big := make([]byte, x.can.BigPayload)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(big) // never fails
	got := x.carry(
		graphmill.Message{Payload: []byte("small")},
		graphmill.Message{Payload: big},
		graphmill.Message{Payload: big},
		graphmill.Message{Payload: []byte("small")},
	)
	for i, want := range []string{"small", string(big), string(big), "small"} {
		// Not Equal: it would print a megabyte.
		require.Len(x.t, got[i].Payload, len(want), "message %d", i)
		require.True(x.t, want == string(got[i].Payload), "message %d has other bytes", i)
	}
}

func repeatsTheSame(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	src, _ := x.open(s)
	x.b.Produce(topic, 0,
		graphmill.Message{Payload: anyBytes(), Key: []byte("k"), Timestamp: 1_700_000_000_123, Headers: []graphmill.Header{
			{Key: "z", Value: []byte("1")}, {Key: "y", Value: []byte("2")}, {Key: "x", Value: []byte("3")}, {Key: "w", Value: []byte("4")},
		}},
		graphmill.Message{Payload: []byte{}},
	)
	first, _ := Collect(x.t, src, 2)
	x.close(src)
	src, _ = x.open(s)
	again, _ := Collect(x.t, src, 2)
	for i := range first {
		// Brokers count what they have handed over, not what was received.
		first[i].Redeliveries, again[i].Redeliveries = 0, 0
	}
	require.Equal(x.t, first, again)
}
