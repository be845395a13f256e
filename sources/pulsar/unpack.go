package pulsar

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// CompressionType of the protocol.
const (
	compressionNone = iota
	compressionLZ4
	compressionZLIB
	compressionZSTD
	compressionSnappy
)

// zstdDecoder is safe for concurrent use by DecodeAll, which fills the room that it is
// given and makes no more.
var zstdDecoder, _ = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(mostUnpacked), zstd.WithDecoderConcurrency(1)) // no error with these options

// unpack undoes a compression. It takes no more memory than size, what the producer
// tells of it, and that is bounded: a few kilobytes can be made to be gigabytes.
func unpack(compression uint64, b []byte, size int) (plain []byte, err error) {
	if size > mostUnpacked {
		return nil, fmt.Errorf("it is %d bytes when it is unpacked, and %d are the most", size, mostUnpacked)
	}
	switch compression {
	case compressionLZ4:
		plain = make([]byte, size)
		var n int
		n, err = lz4.UncompressBlock(b, plain)
		plain = plain[:max(0, n)]
	case compressionZLIB:
		plain, err = inflate(b, size)
	case compressionZSTD:
		plain, err = zstdDecoder.DecodeAll(b, make([]byte, 0, size))
	case compressionSnappy:
		var n int
		if n, err = snappy.DecodedLen(b); err == nil && n == size {
			plain, err = snappy.Decode(nil, b)
		}
	default:
		return nil, fmt.Errorf("it is packed in a way that nobody here knows (%d)", compression)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("it cannot be unpacked: %w", err)
	case len(plain) != size:
		return nil, fmt.Errorf("it is not the %d bytes that it tells when it is unpacked", size)
	}
	return plain, nil
}

func inflate(b []byte, size int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	plain := make([]byte, size)
	_, err = io.ReadFull(r, plain)
	return plain, err
}
