package kafka

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/youmark/pkcs8"
)

// sealings are the encryptions that OpenSSL and its like choose.
var sealings = []pkcs8.Opts{
	{Cipher: pkcs8.AES256CBC, KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 16, IterationCount: 2048, HMACHash: crypto.SHA256}},
	{Cipher: pkcs8.AES128CBC, KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: 1, HMACHash: crypto.SHA1}},
	{Cipher: pkcs8.AES192CBC, KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: 2, HMACHash: crypto.SHA256}},
}

func TestEncryptedKeysAreRead(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for _, opts := range sealings {
		der, err := pkcs8.MarshalPrivateKey(key, []byte("password"), &opts)
		require.NoError(t, err)
		got, err := decryptKey(der, hide("password"))
		require.NoError(t, err)
		require.True(t, key.Equal(got))
		_, err = decryptKey(der, hide("wrong"))
		require.ErrorContains(t, err, "does not open it")
		for cut := range der {
			_, err := decryptKey(der[:cut], hide("password"))
			require.Error(t, err)
		}
	}
}

// A key comes with a definition: whatever it is, it is read or refused.
func FuzzParseKey(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f, err)
	for _, opts := range sealings {
		der, err := pkcs8.MarshalPrivateKey(key, []byte("password"), &opts)
		require.NoError(f, err)
		f.Add(der)
	}
	f.Add([]byte{0x30, 0x00})
	f.Fuzz(func(t *testing.T, der []byte) {
		for _, kind := range []string{"ENCRYPTED PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"} {
			text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
			_, _ = parseKey(text, hide("password")) // either will do
		}
	})
}
