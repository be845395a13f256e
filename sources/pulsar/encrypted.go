package pulsar

import (
	"errors"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

// passEncrypted makes the client hand over encrypted messages as they are.
func passEncrypted() *pulsar.MessageDecryptionInfo {
	return &pulsar.MessageDecryptionInfo{
		KeyReader:                   noKeys{},
		ConsumerCryptoFailureAction: crypto.ConsumerCryptoFailureActionConsume,
	}
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
