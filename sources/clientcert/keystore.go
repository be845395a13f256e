package clientcert

import (
	"crypto/tls"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	"software.sslmate.com/src/go-pkcs12"
)

// What may be wrong with a keystore, beside that it is none.
var (
	ErrTooMuchWork = fmt.Errorf("it asks for more than %d iterations to be opened; write it anew with fewer (openssl pkcs12 -export -iter 100000)", MaxIterations)
	ErrPassword    = errors.New("the password does not open it")
	ErrKeyMismatch = errors.New("the key in it is not the one of the certificate in it")
)

// Keystore reads the certificate, with the intermediate ones, and the key of a
// PKCS#12 file.
func Keystore(content []byte, password string) (*tls.Certificate, error) {
	if tooManyIterations(content) {
		return nil, ErrTooMuchWork
	}
	key, leaf, chain, err := pkcs12.DecodeChain(content, password)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return nil, ErrPassword
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be read as PKCS#12: %w", err)
	}
	cert := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	if !KeyMatches(cert) {
		return nil, ErrKeyMismatch
	}
	return cert, nil
}

// keystoreDepth is how deep a PKCS#12 file nests before its innermost algorithm,
// with room: PFX, content, safe, content, bag, key, algorithm, PBES2, PBKDF2.
const keystoreDepth = 24

// tooManyIterations tells whether reading a PKCS#12 file (RFC 7292) would ask for
// more than MaxIterations. Each place that says how often something is hashed says
// so right after its salt: the MAC, the parameters of PBES1, of PBES2 and of PBMAC1
// (RFC 8018, RFC 9879). It looks at all that can be seen without the password; what
// is behind that has been written by somebody who has it.
func tooManyIterations(der []byte) bool { return asksForTooMuch(der, keystoreDepth) }

// asksForTooMuch looks at elements of ASN.1 that stand one behind the other. What
// is none is for the decoder to tell.
func asksForTooMuch(der []byte, depth int) bool {
	salted := false
	for len(der) > 0 && depth > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return false
		}
		universal := v.Class == asn1.ClassUniversal
		switch {
		case universal && v.Tag == asn1.TagInteger && salted:
			if new(big.Int).SetBytes(v.Bytes).Cmp(big.NewInt(MaxIterations)) > 0 { // a negative one counts as large
				return true
			}
		case v.IsCompound, universal && v.Tag == asn1.TagOctetString && isOne(v.Bytes):
			if asksForTooMuch(v.Bytes, depth-1) {
				return true
			}
		}
		salted = universal && v.Tag == asn1.TagOctetString
		der = rest
	}
	return false
}

// isOne tells whether der is one sequence and nothing else: salts and what is
// encrypted are not.
func isOne(der []byte) bool {
	var v asn1.RawValue
	rest, err := asn1.Unmarshal(der, &v)
	return err == nil && len(rest) == 0 && v.Class == asn1.ClassUniversal && v.Tag == asn1.TagSequence
}
