package pulsarserver

import (
	"sync"

	_ "github.com/apache/pulsar-client-go/pulsar" // registers the messages of the protocol
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// message is a message of the protocol. The client's generated types are internal
// to it, and generating them again would register their names twice, so they are
// reached through the descriptors that the client registers. A field that does
// not exist panics: that is a mistake in this package, never in what came.
type message struct{ m protoreflect.Message }

// Full names of the messages that frames hold.
const (
	nameCommand  = "pulsar.proto.BaseCommand"
	nameMetadata = "pulsar.proto.MessageMetadata"
	nameErrors   = "pulsar.proto.ServerError"
)

func messageType(name protoreflect.FullName) func() protoreflect.MessageType {
	return sync.OnceValue(func() protoreflect.MessageType {
		t, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			panic(err) // the client no longer registers it
		}
		return t
	})
}

var (
	commandType  = messageType(nameCommand)
	metadataType = messageType(nameMetadata)
	errorCodes   = sync.OnceValue(func() protoreflect.EnumDescriptor {
		t, err := protoregistry.GlobalTypes.FindEnumByName(nameErrors)
		if err != nil {
			panic(err)
		}
		return t.Descriptor()
	})
)

// errorCode returns the number of an error of the protocol; a name that it does
// not have is UnknownError.
func errorCode(name string) int64 {
	v := errorCodes().Values().ByName(protoreflect.Name(name))
	if v == nil {
		return 0
	}
	return int64(v.Number())
}

// newCommand returns a command of the type ("SEND_RECEIPT") and the message in
// the field ("send_receipt") that says the rest of it.
func newCommand(typ, field string) (command, body message) {
	c := message{commandType().New()}
	f := c.field("type")
	c.m.Set(f, protoreflect.ValueOfEnum(f.Enum().Values().ByName(protoreflect.Name(typ)).Number()))
	return c, c.sub(field)
}

func decode(t protoreflect.MessageType, b []byte) (message, error) {
	m := message{t.New()}
	return m, proto.Unmarshal(b, m.m.Interface())
}

func (m message) encode() ([]byte, error) { return proto.Marshal(m.m.Interface()) }

// look returns nil for a field that this kind of message does not have.
func (m message) look(name string) protoreflect.FieldDescriptor {
	return m.m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (m message) field(name string) protoreflect.FieldDescriptor {
	f := m.look(name)
	if f == nil {
		panic(string(m.m.Descriptor().FullName()) + " has no field " + name)
	}
	return f
}

func (m message) has(name string) bool    { return m.m.Has(m.field(name)) }
func (m message) uint(name string) uint64 { return m.m.Get(m.field(name)).Uint() }
func (m message) int(name string) int64   { return m.m.Get(m.field(name)).Int() }
func (m message) bool(name string) bool   { return m.m.Get(m.field(name)).Bool() }
func (m message) text(name string) string { return m.m.Get(m.field(name)).String() }
func (m message) bytes(name string) []byte {
	return m.m.Get(m.field(name)).Bytes()
}

// enum returns the name of the field's value, empty for one that is unknown.
func (m message) enum(name string) string {
	f := m.field(name)
	v := f.Enum().Values().ByNumber(m.m.Get(f).Enum())
	if v == nil {
		return ""
	}
	return string(v.Name())
}

// get returns the message in a field to read: one that is not there is empty.
func (m message) get(name string) message { return message{m.m.Get(m.field(name)).Message()} }

// sub returns the message in a field to write.
func (m message) sub(name string) message { return message{m.m.Mutable(m.field(name)).Message()} }

func (m message) list(name string) []message {
	l := m.m.Get(m.field(name)).List()
	out := make([]message, 0, l.Len())
	for i := range l.Len() {
		out = append(out, message{l.Get(i).Message()})
	}
	return out
}

// length returns the number of values of a repeated field.
func (m message) length(name string) int { return m.m.Get(m.field(name)).List().Len() }

func (m message) setUint(name string, v uint64) message {
	f := m.field(name)
	if f.Kind() == protoreflect.Uint32Kind {
		m.m.Set(f, protoreflect.ValueOfUint32(uint32(v)))
	} else {
		m.m.Set(f, protoreflect.ValueOfUint64(v))
	}
	return m
}

func (m message) setInt(name string, v int64) message {
	f := m.field(name)
	switch f.Kind() {
	case protoreflect.Int32Kind:
		m.m.Set(f, protoreflect.ValueOfInt32(int32(v)))
	case protoreflect.EnumKind:
		m.m.Set(f, protoreflect.ValueOfEnum(protoreflect.EnumNumber(v)))
	default:
		m.m.Set(f, protoreflect.ValueOfInt64(v))
	}
	return m
}

func (m message) setText(name, v string) message {
	m.m.Set(m.field(name), protoreflect.ValueOfString(v))
	return m
}

func (m message) setBool(name string, v bool) message {
	m.m.Set(m.field(name), protoreflect.ValueOfBool(v))
	return m
}

func (m message) addText(name, v string) {
	m.m.Mutable(m.field(name)).List().Append(protoreflect.ValueOfString(v))
}

// messageID reads a MessageIdData.
func (m message) messageID() MessageID {
	return MessageID{Ledger: int64(m.uint("ledgerId")), Entry: int64(m.uint("entryId"))}
}

// setMessageID writes one. Negative parts, "before the first", wrap around, as
// Java's longs do.
func (m message) setMessageID(id MessageID, partition int) message {
	m.setUint("ledgerId", uint64(id.Ledger)).setUint("entryId", uint64(id.Entry))
	return m.setInt("partition", int64(partition))
}
