package clientcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"
)

func password(text string) Password { return Password{Name: "ssl.key.password", Text: text} }

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
		got, err := decryptKey(der, password("password"))
		require.NoError(t, err)
		require.True(t, key.Equal(got))
		_, err = decryptKey(der, password("wrong"))
		require.ErrorContains(t, err, "does not open it")
		for cut := range der {
			_, err := decryptKey(der[:cut], password("password"))
			require.Error(t, err)
		}
	}
}

// asking returns der with each of the counts of 65536 in it replaced in turn.
func asking(t *testing.T, der []byte, iterations int) (changed [][]byte) {
	t.Helper()
	count := []byte{asn1.TagInteger, 3, 1, 0, 0}
	for at := 0; ; at += len(count) {
		i := bytes.Index(der[at:], count)
		if i < 0 {
			return changed
		}
		at += i
		other := bytes.Clone(der)
		copy(other[at+2:], []byte{byte(iterations >> 16), byte(iterations >> 8), byte(iterations)})
		changed = append(changed, other)
	}
}

// A key may ask for as much work as a number can say. It is refused before any of
// it is done.
func TestKeysThatAskForTooMuchWorkAreRefused(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := pkcs8.MarshalPrivateKey(key, []byte("password"), &pkcs8.Opts{
		Cipher: pkcs8.AES256CBC, KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: 65536, HMACHash: crypto.SHA256},
	})
	require.NoError(t, err)
	_, err = decryptKey(asking(t, der, 1_000_001)[0], password("password"))
	require.ErrorContains(t, err, "asks for 1000001 iterations, and 1 to 1000000 are taken")
	_, err = decryptKey(asking(t, der, 1_000_000)[0], password("password"))
	require.ErrorContains(t, err, "does not open it", "it is tried")
}

func TestKeystoresThatAskForTooMuchWorkAreRefused(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1 << 60), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	for name, encoder := range map[string]*pkcs12.Encoder{
		"of old": pkcs12.LegacyRC2, "of today": pkcs12.Modern2023, "with PBMAC1": pkcs12.Modern2026,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := encoder.WithIterations(65536).Encode(key, leaf, nil, "password")
			require.NoError(t, err)
			require.False(t, tooManyIterations(file))
			require.Len(t, asking(t, file, 1), 3, "of the MAC, of the certificates and of the key")
			for i, much := range asking(t, file, 1_000_001) {
				require.True(t, tooManyIterations(much), "place %d", i)
			}
			for i, enough := range asking(t, file, 1_000_000) {
				require.False(t, tooManyIterations(enough), "place %d", i)
			}
		})
	}
}

// A key comes with a definition: whatever it is, it is read or refused.
func FuzzKey(f *testing.F) {
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
			_, _ = Key(text, password("password")) // either will do
		}
	})
}
