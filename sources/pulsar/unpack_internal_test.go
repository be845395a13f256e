package pulsar

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func TestEntryThatIsMoreThanItTellsIsNotUnpackedToTheEnd(t *testing.T) {
	packer, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, packer.Close()) })
	packed := packer.EncodeAll(bytes.Repeat([]byte("a"), 1<<20), nil)

	plain, err := unpack(compressionZSTD, packed, 1<<20)
	require.NoError(t, err)
	require.Len(t, plain, 1<<20)
	_, err = unpack(compressionZSTD, packed, 1<<10)
	require.ErrorIs(t, err, zstd.ErrDecoderSizeExceeded)
}
