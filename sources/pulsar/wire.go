package pulsar

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// command is a command of Pulsar's binary protocol (PulsarApi.proto), as far as
// questions need it; the names are the protocol's. It is written and read through
// JSON, because the message's Go type is internal to the client library, while what
// describes it is not.
type command struct {
	Type string `json:"type"`

	Connect              *connectCommand    `json:"connect,omitempty"`
	Connected            *connectedCommand  `json:"connected,omitempty"`
	AuthResponse         *authResponse      `json:"authResponse,omitempty"`
	Error                *errorCommand      `json:"error,omitempty"`
	PartitionMetadata    *topicQuestion     `json:"partitionMetadata,omitempty"`
	PartitionMetadataIs  *partitionsAnswer  `json:"partitionMetadataResponse,omitempty"`
	LookupTopic          *lookupQuestion    `json:"lookupTopic,omitempty"`
	LookupTopicIs        *lookupAnswer      `json:"lookupTopicResponse,omitempty"`
	TopicsOfNamespace    *namespaceQuestion `json:"getTopicsOfNamespace,omitempty"`
	TopicsOfNamespaceAre *topicsAnswer      `json:"getTopicsOfNamespaceResponse,omitempty"`
	Subscribe            *subscribeCommand  `json:"subscribe,omitempty"`
	Unsubscribe          *consumerCommand   `json:"unsubscribe,omitempty"`
	CloseConsumer        *consumerCommand   `json:"close_consumer,omitempty"`
	Seek                 *seekCommand       `json:"seek,omitempty"`
	LastMessageID        *consumerCommand   `json:"getLastMessageId,omitempty"`
	LastMessageIDIs      *lastMessageAnswer `json:"getLastMessageIdResponse,omitempty"`
	Pong                 *struct{}          `json:"pong,omitempty"`
}

type connectCommand struct {
	ClientVersion   string       `json:"client_version"`
	AuthMethodName  string       `json:"auth_method_name,omitempty"`
	AuthData        []byte       `json:"auth_data,omitempty"`
	ProtocolVersion int          `json:"protocol_version"`
	ProxyTo         string       `json:"proxy_to_broker_url,omitempty"` // host:port, for a proxy
	FeatureFlags    featureFlags `json:"feature_flags"`
}

type featureFlags struct {
	SupportsAuthRefresh bool `json:"supports_auth_refresh,omitempty"`
}

type connectedCommand struct {
	ServerVersion string `json:"server_version"`
}

type authResponse struct {
	Response struct {
		AuthMethodName string `json:"auth_method_name"`
		AuthData       []byte `json:"auth_data"`
	} `json:"response"`
	ClientVersion   string `json:"client_version"`
	ProtocolVersion int    `json:"protocol_version"`
}

type errorCommand struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

type topicQuestion struct {
	Topic     string `json:"topic"`
	RequestID uint64 `json:"request_id"`
}

type partitionsAnswer struct {
	Partitions int    `json:"partitions"`
	Response   string `json:"response"` // Success, Failed
	Error      string `json:"error"`
	Message    string `json:"message"`
}

type lookupQuestion struct {
	Topic         string `json:"topic"`
	RequestID     uint64 `json:"request_id"`
	Authoritative bool   `json:"authoritative"`
	Listener      string `json:"advertised_listener_name,omitempty"`
}

type lookupAnswer struct {
	URL           string `json:"brokerServiceUrl"`
	URLTLS        string `json:"brokerServiceUrlTls"`
	Response      string `json:"response"` // Redirect, Connect, Failed
	Authoritative bool   `json:"authoritative"`
	Error         string `json:"error"`
	Message       string `json:"message"`
	ThroughProxy  bool   `json:"proxy_through_service_url"`
}

type namespaceQuestion struct {
	RequestID uint64 `json:"request_id"`
	Namespace string `json:"namespace"`
	Mode      string `json:"mode"` // PERSISTENT
}

type topicsAnswer struct {
	Topics []string `json:"topics"`
}

type subscribeCommand struct {
	Topic              string `json:"topic"`
	Subscription       string `json:"subscription"`
	SubType            string `json:"subType"` // Exclusive, Failover
	ConsumerID         uint64 `json:"consumer_id"`
	RequestID          uint64 `json:"request_id"`
	Durable            bool   `json:"durable"`
	ForceTopicCreation bool   `json:"force_topic_creation"`
	InitialPosition    string `json:"initialPosition,omitempty"` // of a subscription that does not exist; empty: Latest
}

const initialEarliest = "Earliest" // an InitialPosition

type consumerCommand struct {
	ConsumerID uint64 `json:"consumer_id,string"`
	RequestID  uint64 `json:"request_id,string"`
}

type seekCommand struct {
	ConsumerID uint64   `json:"consumer_id"`
	RequestID  uint64   `json:"request_id"`
	MessageID  *placeID `json:"message_id,omitempty"`
	Published  uint64   `json:"message_publish_time,omitempty"` // ms since 1970, in place of the id
}

// placeID is a place in a partition. -1, before all that there is, wraps around.
type placeID struct {
	Ledger uint64 `json:"ledgerId,string"`
	Entry  uint64 `json:"entryId,string"`
	Index  int32  `json:"batch_index,omitempty"` // -1: the message is its whole entry
}

type lastMessageAnswer struct {
	Last       placeID `json:"last_message_id"`
	MarkDelete placeID `json:"consumer_mark_delete_position"` // what the consumer's cursor is behind
}

// commandType is the protocol's BaseCommand, which the client library registers.
var commandType = sync.OnceValues(func() (protoreflect.MessageType, error) {
	return protoregistry.GlobalTypes.FindMessageByName("pulsar.proto.BaseCommand")
})

// withoutCreation is the field of CommandPartitionedTopicMetadata that the library's
// protocol does not have yet (metadata_auto_creation_enabled = 6, of Pulsar 4.0): by
// false a question for the partitions of a topic does not make it. Brokers that do
// not know it pass over it.
var withoutCreation = []byte{6 << 3, 0}

// writeCommand writes a frame: its size, the command's size, the command.
func writeCommand(w io.Writer, c command) error {
	t, err := commandType()
	if err != nil {
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	m := t.New()
	if err := protojson.Unmarshal(text, m.Interface()); err != nil {
		return err
	}
	if c.PartitionMetadata != nil {
		m.Mutable(t.Descriptor().Fields().ByName("partitionMetadata")).Message().SetUnknown(withoutCreation)
	}
	body, err := proto.Marshal(m.Interface())
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	_, err = w.Write(append(frame, body...))
	return err
}

// maxFrame bounds what a broker may answer, in bytes: a list of 100,000 topics has
// some 10 MB. Brokers' own bound is 5 MB by default.
const maxFrame = 32 << 20

// notPulsar is an answer that is none of the protocol.
type notPulsar struct{ first [8]byte }

func (*notPulsar) Error() string { return "what answers does not speak Pulsar's protocol" }

// readCommand reads a frame. What stands behind the command in it, a message's
// payload, is passed over.
func readCommand(r io.Reader) (command, error) {
	var sizes [8]byte
	if n, err := io.ReadFull(r, sizes[:]); err != nil {
		if n > 0 && err == io.ErrUnexpectedEOF { // an alert of TLS is shorter than that
			err = &notPulsar{sizes}
		}
		return command{}, err
	}
	total, size := binary.BigEndian.Uint32(sizes[:4]), binary.BigEndian.Uint32(sizes[4:])
	if size == 0 || total < 4 || size > total-4 || total > maxFrame {
		return command{}, &notPulsar{sizes}
	}
	body := make([]byte, total-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return command{}, err
	}
	t, err := commandType()
	if err != nil {
		return command{}, err
	}
	m := t.New().Interface()
	// A type of command that the library does not know yet is one without a type.
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(body[:size], m); err != nil {
		return command{}, &notPulsar{sizes}
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return command{}, fmt.Errorf("read a command: %w", err)
	}
	var c command
	if err := json.Unmarshal(text, &c); err != nil {
		return command{}, fmt.Errorf("read a command: %w", err)
	}
	return c, nil
}
