package pulsarserver

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// wire is a client without a mind of its own.
type wire struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func dial(t *testing.T, b broker) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(b.url, "pulsar://"))
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	return &wire{t, nc, bufio.NewReader(nc)}
}

// login dials and is let in.
func login(t *testing.T, b broker) *wire {
	t.Helper()
	w := dial(t, b)
	w.send(connectText(b.token), nil)
	w.expect("CONNECTED")
	return w
}

func connectText(token string) string {
	return fmt.Sprintf(`type: CONNECT connect { client_version: "wire" protocol_version: 21 auth_method_name: "token" auth_data: %q }`, token)
}

// send sends a command, given as text, and what is behind it.
func (w *wire) send(text string, rest []byte) {
	w.t.Helper()
	m := message{commandType().New()}
	require.NoError(w.t, prototext.Unmarshal([]byte(text), m.m.Interface()))
	head, err := frameHead(m, len(rest))
	require.NoError(w.t, err)
	_, err = w.nc.Write(append(head, rest...))
	require.NoError(w.t, err)
}

// expect reads the next command but PING, which has to be of the type.
func (w *wire) expect(typ string) message {
	w.t.Helper()
	require.NoError(w.t, w.nc.SetReadDeadline(time.Now().Add(patience)))
	for {
		m, _, err := readFrame(w.r, DefaultMaxMessageSize+frameMargin)
		require.NoError(w.t, err, "waiting for %s", typ)
		got := m.enum("type")
		if got == "PING" {
			w.send("type: PONG pong {}", nil)
			continue
		}
		require.Equal(w.t, typ, got, "%v", m.m.Interface())
		return m
	}
}

// settle waits until all that was sent has been dealt with, and nothing came.
func (w *wire) settle() {
	w.t.Helper()
	w.send("type: PING ping {}", nil)
	w.expect("PONG")
}

func (w *wire) ended() {
	w.t.Helper()
	require.NoError(w.t, w.nc.SetReadDeadline(time.Now().Add(patience)))
	_, err := w.r.ReadByte()
	require.Error(w.t, err)
	require.NotErrorIs(w.t, err, os.ErrDeadlineExceeded)
}

// payload is a message as it stands behind SEND.
func payload(t *testing.T, text string, at uint64) []byte {
	t.Helper()
	m := message{metadataType().New()}
	m.setText("producer_name", "wire").setUint("sequence_id", 0).setUint("publish_time", at)
	metadata, err := proto.Marshal(m.m.Interface())
	require.NoError(t, err)
	body := binary.BigEndian.AppendUint32(nil, uint32(len(metadata)))
	body = append(append(body, metadata...), text...)
	head := binary.BigEndian.AppendUint16(nil, magicChecksum)
	return append(binary.BigEndian.AppendUint32(head, crc32.Checksum(body, castagnoli)), body...)
}

func subscribeText(topic, kind, name string, consumer, request int) string {
	return fmt.Sprintf(`type: SUBSCRIBE subscribe { topic: "persistent://public/default/%s" subscription: "s" subType: %s consumer_name: %q consumer_id: %d request_id: %d initialPosition: Earliest }`,
		topic, kind, name, consumer, request)
}

func claimActiveFirst(t *testing.T, b broker) {
	createTopic(t, b, "first", 1)
	w := login(t, b)
	w.send(subscribeText("first-partition-0", "Failover", "b", 1, 1), nil)
	change := w.expect("ACTIVE_CONSUMER_CHANGE").get("active_consumer_change")
	require.True(t, change.bool("is_active"))
	require.EqualValues(t, 1, w.expect("SUCCESS").get("success").uint("request_id"))

	// One that does not become active is told so, and the active one is not.
	other := login(t, b)
	other.send(subscribeText("first-partition-0", "Failover", "c", 7, 2), nil)
	require.False(t, other.expect("ACTIVE_CONSUMER_CHANGE").get("active_consumer_change").bool("is_active"))
	other.expect("SUCCESS")
	w.settle()

	// One that does is, and so are all others.
	w.send(subscribeText("first-partition-0", "Failover", "a", 2, 3), nil)
	changes := map[uint64]bool{}
	for range 2 {
		change := w.expect("ACTIVE_CONSUMER_CHANGE").get("active_consumer_change")
		changes[change.uint("consumer_id")] = change.bool("is_active")
	}
	require.Equal(t, map[uint64]bool{1: false, 2: true}, changes)
	w.expect("SUCCESS")
	require.False(t, other.expect("ACTIVE_CONSUMER_CHANGE").get("active_consumer_change").bool("is_active"))

	// An exclusive one is not told.
	w.send(subscribeText("first-exclusive", "Exclusive", "a", 3, 4), nil)
	w.expect("SUCCESS")
	// Twice the same is no error.
	w.send(subscribeText("first-exclusive", "Exclusive", "a", 3, 5), nil)
	w.expect("SUCCESS")
}

func claimSeekOrder(t *testing.T, b broker) {
	createTopic(t, b, "order", 1) // where the first by name is the active one

	w := login(t, b)
	w.send(subscribeText("order-partition-0", "Failover", "a", 1, 1), nil)
	w.expect("ACTIVE_CONSUMER_CHANGE")
	w.expect("SUCCESS")
	other := login(t, b)
	other.send(subscribeText("order-partition-0", "Failover", "b", 9, 1), nil)
	other.expect("ACTIVE_CONSUMER_CHANGE")
	other.expect("SUCCESS")
	// It need not be the one that asks.
	other.send(`type: SEEK seek { consumer_id: 9 request_id: 2 message_publish_time: 1 }`, nil)
	closed := w.expect("CLOSE_CONSUMER").get("close_consumer")
	require.EqualValues(t, 1, closed.uint("consumer_id"))
	require.EqualValues(t, brokersOwn, closed.uint("request_id"))
	require.EqualValues(t, 2, other.expect("SUCCESS").get("success").uint("request_id"))
	other.settle() // and it does not become the active one
	w.send(subscribeText("order-partition-0", "Failover", "a", 1, 3), nil)
	require.True(t, w.expect("ACTIVE_CONSUMER_CHANGE").get("active_consumer_change").bool("is_active"))
	w.expect("SUCCESS")
	require.False(t, other.expect("ACTIVE_CONSUMER_CHANGE").get("active_consumer_change").bool("is_active"))
	w.send(`type: SEEK seek { consumer_id: 1 request_id: 4 message_publish_time: 1 }`, nil)
	require.EqualValues(t, 1, w.expect("CLOSE_CONSUMER").get("close_consumer").uint("consumer_id"))
	require.EqualValues(t, 4, w.expect("SUCCESS").get("success").uint("request_id"))
}

func claimUnknown(t *testing.T, b broker) {
	w := login(t, b)
	w.send(`type: FLOW flow { consumer_id: 5 messagePermits: 5 }`, nil)
	w.send(`type: REDELIVER_UNACKNOWLEDGED_MESSAGES redeliverUnacknowledgedMessages { consumer_id: 5 }`, nil)
	w.send(`type: ACK ack { consumer_id: 5 ack_type: Individual message_id { ledgerId: 1 entryId: 1 } }`, nil)
	w.settle()
	notFound := func() {
		t.Helper()
		failure := w.expect("ERROR").get("error")
		require.Equal(t, "MetadataError", failure.enum("error"))
		require.Equal(t, "Consumer not found", failure.text("message"))
	}
	w.send(`type: UNSUBSCRIBE unsubscribe { consumer_id: 5 request_id: 1 }`, nil)
	notFound()
	w.send(`type: SEEK seek { consumer_id: 5 request_id: 2 message_publish_time: 1 }`, nil)
	notFound()
	w.send(`type: GET_LAST_MESSAGE_ID getLastMessageId { consumer_id: 5 request_id: 3 }`, nil)
	notFound()
	w.send(`type: CLOSE_CONSUMER close_consumer { consumer_id: 5 request_id: 4 }`, nil)
	w.expect("SUCCESS")
	w.send(`type: CLOSE_PRODUCER close_producer { producer_id: 5 request_id: 5 }`, nil)
	w.expect("SUCCESS")
	w.send(`type: ACK ack { consumer_id: 5 ack_type: Individual request_id: 9 message_id { ledgerId: 1 entryId: 1 } }`, nil)
	w.settle()
	w.send(`type: SEND send { producer_id: 5 sequence_id: 1 }`, payload(t, "x", 1))
	w.ended()
	w = login(t, b)
	w.send(subscribeText("permits", "Exclusive", "a", 1, 1), nil)
	w.expect("SUCCESS")
	w.send(`type: SEEK seek { consumer_id: 1 request_id: 2 }`, nil)
	require.Equal(t, "MetadataError", w.expect("ERROR").get("error").enum("error"))
	w.send(`type: FLOW flow { consumer_id: 1 messagePermits: 0 }`, nil)
	w.ended()
}

func claimDeleteCloses(t *testing.T, b broker) {
	createTopic(t, b, "closes", 0)
	w := login(t, b)
	w.send(subscribeText("closes", "Exclusive", "a", 1, 1), nil)
	w.expect("SUCCESS")
	p := login(t, b)
	p.send(`type: PRODUCER producer { topic: "persistent://public/default/closes" producer_id: 3 request_id: 1 }`, nil)
	success := p.expect("PRODUCER_SUCCESS").get("producer_success")
	require.Regexp(t, `^standalone-\d+-\d+$`, success.text("producer_name"))
	require.EqualValues(t, -1, success.int("last_sequence_id"))
	require.Equal(t, 204, ask(t, b, "DELETE", publicDefault+"closes?force=true", nil, nil))
	require.EqualValues(t, 1, w.expect("CLOSE_CONSUMER").get("close_consumer").uint("consumer_id"))
	require.EqualValues(t, 3, p.expect("CLOSE_PRODUCER").get("close_producer").uint("producer_id"))
}

func claimWrongToken(t *testing.T, b broker) {
	for _, token := range []string{"wrong", ""} {
		w := dial(t, b)
		w.send(connectText(token), nil)
		failure := w.expect("ERROR").get("error")
		require.Equal(t, "AuthenticationError", failure.enum("error"))
		require.Equal(t, "Failed to authenticate", failure.text("message"))
		require.EqualValues(t, brokersOwn, failure.uint("request_id"))
		w.ended()
	}
	login(t, b)
}

func claimAdminToken(t *testing.T, b broker) {
	for _, path := range []string{"/admin/v2/brokers/health", "/admin/v2/namespaces/public", publicDefault + "t/stats"} {
		require.Equal(t, 401, ask(t, broker{admin: b.admin}, "GET", path, nil, nil), path)
		require.Equal(t, 401, ask(t, broker{admin: b.admin, token: "wrong"}, "GET", path, nil, nil), path)
	}
	require.Equal(t, 200, ask(t, b, "GET", "/admin/v2/brokers/health", nil, nil))
	createTopic(t, b, "allowed", 0)
	c := subscribe(t, connect(t, b), "allowed", "s")
	c.Close()
}
