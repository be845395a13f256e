package clientcert

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// MaxIterations bounds the work that an encrypted key or keystore may ask for: a
// key comes with a definition, and a million take about a second of a processor.
// OpenSSL's default is 2048; OWASP advises 600,000 for passwords that are stored.
const MaxIterations = 1_000_000

// Identifiers of RFC 8018 (PBES2, PBKDF2), and of AES in CBC mode.
var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidHMAC   = asn1.ObjectIdentifier{1, 2, 840, 113549, 2}        // .7: SHA-1, .9: SHA-256, .10: SHA-384, .11: SHA-512
	oidAES    = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1} // .2: 128, .22: 192, .42: 256, in CBC mode
	aesKeys   = map[int]int{2: 16, 22: 24, 42: 32}                 // bytes, by the last number
	errCipher = errors.New("its encryption is not known; convert it with openssl pkcs8 -topk8 -v2 aes-256-cbc")
)

type pkcsAlgorithm struct {
	ID     asn1.ObjectIdentifier
	Params asn1.RawValue `asn1:"optional"`
}

// decryptKey decrypts a key in the form of PKCS#8 (RFC 5958) with PBES2, PBKDF2
// and AES, as OpenSSL writes it. It is written here because the libraries for it
// panic over parameters that do not fit.
func decryptKey(der []byte, password Password) (crypto.PrivateKey, error) {
	switch {
	case password.Name == "":
		return nil, errors.New("it is encrypted, and there is no setting for its password; write it anew without one (openssl pkey -in KEY -out FILE), where only the server can read it")
	case password.Text == "":
		return nil, fmt.Errorf("it is encrypted; %s is needed", password.Name)
	}
	wrong := fmt.Errorf("%s does not open it", password.Name)
	var sealed struct {
		Algorithm struct {
			ID     asn1.ObjectIdentifier
			Params struct{ KDF, Cipher pkcsAlgorithm }
		}
		Data []byte
	}
	if _, err := asn1.Unmarshal(der, &sealed); err != nil || !sealed.Algorithm.ID.Equal(oidPBES2) {
		return nil, errCipher
	}
	kdf, algorithm := sealed.Algorithm.Params.KDF, sealed.Algorithm.Params.Cipher
	size := aesKeys[lastOf(algorithm.ID, oidAES)]
	if size == 0 {
		return nil, errCipher
	}
	key, err := deriveKey(kdf, password, size)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if _, err := asn1.Unmarshal(algorithm.Params.FullBytes, &iv); err != nil || len(iv) != aes.BlockSize {
		return nil, errCipher
	}
	if len(sealed.Data) == 0 || len(sealed.Data)%aes.BlockSize != 0 {
		return nil, errors.New("it is cut off")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(sealed.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, sealed.Data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, wrong
	}
	decrypted, err := x509.ParsePKCS8PrivateKey(plain[:len(plain)-padding])
	if err != nil {
		return nil, wrong
	}
	return decrypted, nil
}

// deriveKey makes the key of so many bytes from the password.
func deriveKey(kdf pkcsAlgorithm, password Password, size int) ([]byte, error) {
	if !kdf.ID.Equal(oidPBKDF2) {
		return nil, errCipher
	}
	var params struct {
		Salt       []byte
		Iterations int
		KeyLength  int           `asn1:"optional"`
		PRF        pkcsAlgorithm `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(kdf.Params.FullBytes, &params); err != nil {
		return nil, errCipher
	}
	if params.Iterations < 1 || params.Iterations > MaxIterations {
		return nil, fmt.Errorf("its encryption asks for %d iterations, and 1 to %d are taken; convert it with openssl pkcs8 -topk8 -iter 100000", params.Iterations, MaxIterations)
	}
	var h func() hash.Hash
	switch {
	case len(params.PRF.ID) == 0, lastOf(params.PRF.ID, oidHMAC) == 7:
		h = sha1.New
	case lastOf(params.PRF.ID, oidHMAC) == 9:
		h = sha256.New
	case lastOf(params.PRF.ID, oidHMAC) == 10:
		h = sha512.New384
	case lastOf(params.PRF.ID, oidHMAC) == 11:
		h = sha512.New
	default:
		return nil, errCipher
	}
	return pbkdf2.Key(h, password.Text, params.Salt, params.Iterations, size)
}

// lastOf returns the last number of an identifier below another, or -1.
func lastOf(id, parent asn1.ObjectIdentifier) int {
	if len(id) != len(parent)+1 || !id[:len(parent)].Equal(parent) {
		return -1
	}
	return id[len(parent)]
}
