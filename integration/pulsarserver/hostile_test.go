package pulsarserver

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alive requires that a server still serves.
func alive(t *testing.T, s *Server) {
	t.Helper()
	login(t, broker{url: s.URL()}).settle()
}

func TestHostileFramesEndTheConnection(t *testing.T) {
	u32 := func(values ...uint32) (b []byte) {
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	for name, bytes := range map[string][]byte{
		"HTTP":                          []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"nothing in it":                 u32(0, 0),
		"no room for a command":         u32(3, 0),
		"a command beyond the frame":    u32(8, 5, 0),
		"the largest sizes":             u32(0xffffffff, 0xffffffff),
		"larger than a message may be":  u32(64<<20, 4),
		"no protobuf":                   append(u32(8, 4), 0xff, 0xff, 0xff, 0xff),
		"required fields are missing":   u32(4, 0),
		"a type that there is not":      append(u32(6, 2), 0x08, 0x7f),
		"a command of a server":         append(u32(6, 2), 0x08, 0x03),
		"CONNECT without its fields":    append(u32(6, 2), 0x08, 0x02),
		"SUBSCRIBE without its fields":  append(u32(6, 2), 0x08, 0x04),
		"CONNECT is not the first":      append(u32(6, 2), 0x08, 0x12),
		"cut off, and then it is quiet": u32(100, 50),
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, Options{})
			w := dial(t, broker{url: s.URL()})
			_, err := w.nc.Write(bytes)
			require.NoError(t, err)
			require.NoError(t, w.nc.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			w.r.ReadByte() // whatever it answers, or nothing
			alive(t, s)
		})
	}
}

// TestCommandsWithoutTheirFields sends each type of command on a connection that
// is let in, with none of its fields, with unset required ones, and as an answer.
func TestCommandsWithoutTheirFields(t *testing.T) {
	s := Start(t, Options{})
	b := broker{url: s.URL()}
	types := message{commandType().New()}.field("type").Enum().Values()
	for i := range types.Len() {
		w := login(t, b)
		typ := types.Get(i).Number()
		_, err := w.nc.Write([]byte{0, 0, 0, 6, 0, 0, 0, 2, 0x08, byte(typ)})
		require.NoError(t, err)
		require.NoError(t, w.nc.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
		w.r.ReadByte()
		w.nc.Close()
	}
	alive(t, s)
}

func TestHostileFieldsOfSubscriptions(t *testing.T) {
	s := Start(t, Options{})
	b := broker{url: s.URL()}
	createTopicAt(t, s, "t", 0)
	createTopicAt(t, s, "p", 2)
	for _, topic := range []string{"", "/", "//", "a/b", "a/b/", "persistent://", "persistent://a", "non-persistent://public/default/t", "p-partition-99999999999999999999", "p-partition--1", "p-partition-2", "p-partition-01", "p"} {
		w := login(t, b)
		w.send(fmt.Sprintf(`type: SUBSCRIBE subscribe { topic: %q subscription: "s" subType: Exclusive consumer_id: 1 request_id: 1 }`, topic), nil)
		if topic == "p-partition-01" || topic == "p-partition--1" || topic == "p-partition-99999999999999999999" {
			w.expect("SUCCESS") // names as any other
			continue
		}
		w.expect("ERROR")
	}
	for _, kind := range []string{"Shared", "Key_Shared"} {
		w := login(t, b)
		w.send(subscribeText("t", kind, "a", 1, 1), nil)
		require.Equal(t, "NotAllowedError", w.expect("ERROR").get("error").enum("error"))
	}
	w := login(t, b)
	w.send(subscribeText("t", "Exclusive", "a", 1, 1), nil)
	w.expect("SUCCESS")
	p := login(t, b)
	p.send(`type: PRODUCER producer { topic: "t" producer_id: 1 request_id: 1 }`, nil)
	p.expect("PRODUCER_SUCCESS")
	for range 3 {
		p.send(`type: SEND send { producer_id: 1 sequence_id: 1 num_messages: -5 }`, payload(t, "x", ^uint64(0)))
		p.expect("SEND_RECEIPT")
	}
	for range 3 { // permits do not wrap around
		w.send(`type: FLOW flow { consumer_id: 1 messagePermits: 4294967295 }`, nil)
	}
	for range 3 {
		w.expect("MESSAGE")
	}
	for _, id := range []string{
		"ledgerId: 18446744073709551615 entryId: 18446744073709551615", "ledgerId: 1 entryId: 18446744073709551615",
		"ledgerId: 9223372036854775807 entryId: 9223372036854775807", "ledgerId: 0 entryId: 0", "ledgerId: 1 entryId: 1 ack_set: [0, -1]",
	} {
		for _, kind := range []string{"Individual", "Cumulative"} {
			w.send(fmt.Sprintf(`type: ACK ack { consumer_id: 1 ack_type: %s message_id { %s } request_id: 2 }`, kind, id), nil)
			w.expect("ACK_RESPONSE")
		}
		w.send(fmt.Sprintf(`type: REDELIVER_UNACKNOWLEDGED_MESSAGES redeliverUnacknowledgedMessages { consumer_id: 1 message_ids { %s } }`, id), nil)
		for range 3 {
			if id == "ledgerId: 1 entryId: 1 ack_set: [0, -1]" {
				continue // the first has been acknowledged by then
			}
			w.expect("MESSAGE")
		}
	}
	alive(t, s)
}

func FuzzFrames(f *testing.F) {
	f.Add(byte(4), []byte{0x22, 0x00}, []byte{})
	f.Add(byte(6), []byte{0x32, 0x04, 0x08, 0x01, 0x10, 0x01}, []byte{0x0e, 0x01, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, typ byte, fields, rest []byte) {
		s := &Server{opts: Options{MaxMessageSize: DefaultMaxMessageSize}, handlers: handlers(), namespaces: map[string]bool{DefaultNamespace: true},
			partitioned: map[string]int{}, topics: map[string]*topic{}}
		s.SetHooks(Hooks{})
		s.createOne("persistent://public/default/t")
		m, err := decode(commandType(), append([]byte{0x08, typ & 0x7f}, fields...))
		if err != nil {
			return
		}
		c := newConn(s, nil, 1)
		c.cut = func() {}
		c.connected = true
		for range 2 {
			c.handle(m, rest)
		}
		readMetadata(rest)
	})
}
