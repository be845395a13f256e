package frame_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
)

// TestRequestBytes spells out one frame, as sdk/ABI.md describes it.
func TestRequestBytes(t *testing.T) {
	f := encode(t, "st", graphmill.SourcePulsar, []graphmill.Message{
		{
			Topic: "tp", Partition: -1, Offset: -1, ID: "1:2", Timestamp: 3, BrokerTime: 4, Redeliveries: 5,
			Payload: []byte("PAY"), Headers: []graphmill.Header{{Key: "h", Value: []byte("v")}, {Key: "n"}},
		},
	})
	var want []byte
	u32 := func(values ...uint32) {
		for _, v := range values {
			want = binary.LittleEndian.AppendUint32(want, v)
		}
	}
	const null = 0xffffffff
	u32(0x31424d47, null)  // magic, cursor
	u32(1, 48, 72)         // messages
	u32(1, 120)            // topics
	u32(2, 136)            // headers
	u32(168, 2)            // stream
	u32(1)                 // Pulsar
	u32(172, 3, 175, null) // payload, key
	u32(0, null)           // topic, partition
	u32(null, null)        // offset
	u32(3, 0)              // timestamp
	u32(0, 2)              // headers
	u32(178, 3)            // id
	u32(4, 0)              // broker's time
	u32(5, 0)              // redeliveries
	u32(170, 2, 0, 0)      // topic entry
	u32(175, 1, 176, 1)    // header h
	u32(177, 1, 178, null) // header n
	want = append(want, "sttpPAYhvn1:2\x00\x00\x00"...)
	require.Equal(t, want, f)
}

func TestEncoderIsUsedAgain(t *testing.T) {
	var e frame.Encoder
	for _, g := range append(frametest.GoldenRequests(), frametest.GoldenRequests()...) {
		size, err := e.Plan(g.Stream, g.Source, g.Messages)
		require.NoError(t, err)
		require.Zero(t, size%8)
		f := bytes.Repeat([]byte{0xff}, size+100)
		e.Encode(f)
		req, err := frametest.DecodeRequest(f[:size])
		require.NoError(t, err)
		require.Equal(t, frametest.Request{Cursor: frame.Null, Stream: g.Stream, Source: g.Source, Messages: g.Messages}, req)
		require.Equal(t, bytes.Repeat([]byte{0xff}, 100), f[size:], "nothing behind the frame is written")
	}
}

func TestManyTopics(t *testing.T) {
	var messages []graphmill.Message
	for i := range 1000 {
		messages = append(messages, graphmill.Message{Topic: fmt.Sprint("topic-", i%100)})
	}
	f := encode(t, "s", graphmill.SourceKafka, messages)
	require.EqualValues(t, 100, binary.LittleEndian.Uint32(f[20:]))
	req, err := frametest.DecodeRequest(f)
	require.NoError(t, err)
	require.Equal(t, messages, req.Messages)
}

func TestBatchOver4GiB(t *testing.T) {
	payload := make([]byte, 1<<20)
	messages := make([]graphmill.Message, 4096)
	for i := range messages {
		messages[i].Payload = payload
	}
	var e frame.Encoder
	_, err := e.Plan("s", graphmill.SourceKafka, messages)
	var fe *frame.Error
	require.ErrorAs(t, err, &fe)
	require.True(t, fe.OverLimit)
	_, err = e.Plan("s", graphmill.SourceKafka, messages[:4000])
	require.NoError(t, err)
}
