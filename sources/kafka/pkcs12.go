package kafka

import "encoding/asn1"

// tooManyIterations looks at what comes first when a PKCS#12 file is read (RFC
// 7292): its MAC. What is behind it has been written by somebody with the password.
func tooManyIterations(file []byte) bool {
	var pfx struct {
		Version  int
		AuthSafe asn1.RawValue
		Mac      struct {
			Digest     asn1.RawValue
			Salt       []byte
			Iterations int64 `asn1:"optional,default:1"`
		} `asn1:"optional"`
	}
	_, err := asn1.Unmarshal(file, &pfx) // what is no such file is told by who decodes it
	return err == nil && pfx.Mac.Iterations > maxIterations
}
