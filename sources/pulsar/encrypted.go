package pulsar

import (
	"errors"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"

	"github.com/graphmill/graphmill"
)

// passEncrypted makes the client hand over encrypted messages as they are.
func passEncrypted() *pulsar.MessageDecryptionInfo {
	return &pulsar.MessageDecryptionInfo{
		KeyReader:                   noKeys{},
		ConsumerCryptoFailureAction: crypto.ConsumerCryptoFailureActionConsume,
	}
}

// unreadableKey is the name of the key to an entry that the client must not see (see
// guard). Its value tells why.
const unreadableKey = "graphmill: unreadable"

// obstacle is the fault of a message that nobody here can read; nil where it can be
// read.
func obstacle(tp graphmill.TopicPartition, m pulsar.Message) *graphmill.Fault {
	locked := m.GetEncryptionContext()
	if locked == nil {
		return nil
	}
	if why, is := locked.Keys[unreadableKey]; is {
		return unreadableAt(tp, m.ID(), string(why.KeyValue))
	}
	at := fmt.Sprintf("%s of %s", placeOf(m.ID()), tp)
	return ends(codeEncrypted, "message "+at+" is encrypted by its producer, and Graphmill has no keys",
		"read a topic that is not encrypted, or move the position behind the message with stream offsets --set", nil)
}

// unreadableAt is the fault of an entry that cannot be read.
func unreadableAt(tp graphmill.TopicPartition, id pulsar.MessageID, why string) *graphmill.Fault {
	return ends(codeUnreadable, fmt.Sprintf("entry %s of %s cannot be read: %s", placeOf(id), tp, why),
		"look at the producer; to go on behind the entry, move the position with stream offsets --set", nil)
}

// discarded ends the source where the client has thrown away what it cannot read. It
// has acknowledged it, too, and asks nobody: that it is known is all that can be had.
func (s *Source) discarded(topic, entry, why string) {
	s.fail(ends(codeUnreadable, fmt.Sprintf("an entry of %s (%s) cannot be read: %s. The client has acknowledged it", topic, entry, why),
		"start the stream to go on behind it; where that must not be, look at the producer first", nil))
}

// noKeys has no keys.
type noKeys struct{}

func (noKeys) PublicKey(string, map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, errNoKeys
}

func (noKeys) PrivateKey(string, map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, errNoKeys
}

var errNoKeys = errors.New("there are no keys here")
