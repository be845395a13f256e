package pulsar

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// answers are commands of a broker, as JSON, and as they are read.
var answers = map[string]command{
	`{"type":"CONNECTED","connected":{"server_version":"4.0"}}`:                                            {Type: "CONNECTED", Connected: &connectedCommand{ServerVersion: "4.0"}},
	`{"type":"ERROR","error":{"request_id":1,"error":"TopicNotFound","message":"none"}}`:                   {Type: "ERROR", Error: &errorCommand{Error: "TopicNotFound", Message: "none"}},
	`{"type":"PARTITIONED_METADATA_RESPONSE","partitionMetadataResponse":{"request_id":1,"partitions":3}}`: {Type: "PARTITIONED_METADATA_RESPONSE", PartitionMetadataIs: &partitionsAnswer{Partitions: 3}},
	`{"type":"LOOKUP_RESPONSE","lookupTopicResponse":{"request_id":1,"brokerServiceUrl":"b","response":"Connect","proxy_through_service_url":true}}`: {
		Type: "LOOKUP_RESPONSE", LookupTopicIs: &lookupAnswer{URL: "b", Response: "Connect", ThroughProxy: true}},
	`{"type":"GET_TOPICS_OF_NAMESPACE_RESPONSE","getTopicsOfNamespaceResponse":{"request_id":1,"topics":["a","b"]}}`: {
		Type: "GET_TOPICS_OF_NAMESPACE_RESPONSE", TopicsOfNamespaceAre: &topicsAnswer{Topics: []string{"a", "b"}}},
	`{"type":"REACHED_END_OF_TOPIC","reachedEndOfTopic":{"consumer_id":1}}`: {Type: "REACHED_END_OF_TOPIC"},
}

func frameOf(t require.TestingT, text string) []byte {
	typ, err := commandType()
	require.NoError(t, err)
	m := typ.New().Interface()
	require.NoError(t, protojson.Unmarshal([]byte(text), m))
	body, err := proto.Marshal(m)
	require.NoError(t, err)
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(frame, uint32(len(body))), body...)
}

// Whatever a broker answers, it is read or refused.
func FuzzReadCommand(f *testing.F) {
	for text := range answers {
		f.Add(frameOf(f, text))
	}
	f.Add([]byte{21, 3, 1, 0, 2, 2, 10})
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(_ *testing.T, frame []byte) {
		_, _ = readCommand(bytes.NewReader(frame)) // either will do
	})
}

func TestAnswersOfBrokersAreRead(t *testing.T) {
	for text, want := range answers {
		r := bytes.NewReader(append(frameOf(t, text), "behind it"...))
		got, err := readCommand(r)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, len("behind it"), r.Len(), "what follows is the next command's")
	}
}

// A field that the client library does not know keeps a question from making a topic.
func TestAQuestionForPartitionsAsksThatNoTopicIsMade(t *testing.T) {
	var frame bytes.Buffer
	require.NoError(t, writeCommand(&frame, command{Type: "PARTITIONED_METADATA", PartitionMetadata: &topicQuestion{Topic: "t", RequestID: 1}}))
	require.True(t, bytes.HasSuffix(frame.Bytes(), withoutCreation))
}
