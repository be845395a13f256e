package pulsar_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/sources/sourcetest"
)

// Fields of keys in a message's metadata, alone and in a batch.
const (
	metaKeyIsBase64   = 17
	singleKey         = 2
	singleKeyIsBase64 = 6
)

// keyed is a message of a batch with a key, as raw producers write it.
func keyed(key string, isBase64 bool, payload string) []byte {
	meta := fields{}.text(singleKey, key).number(3, uint64(len(payload)))
	if isBase64 {
		meta = meta.number(singleKeyIsBase64, 1)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
	return append(append(b, meta...), payload...)
}

// TestKeysThatAreSentAsBytes reads keys as producers in Java write them that are given
// bytes, or a schema of keys and values: as base64 with a flag.
func TestKeysThatAreSentAsBytes(t *testing.T) {
	alone := func(key string) fields { return fields{}.text(metaKey, key).number(metaKeyIsBase64, 1) }
	batch := append(append(keyed("AP/+", true, "a"), keyed("AP/+", false, "bb")...), keyed("?", true, "ccc")...)
	batch = append(batch, single(1, "d")...)
	tests := map[string]struct {
		metadata fields
		payload  []byte
		keys     []string // of the messages
	}{
		"alone":                         {alone("AP/+"), []byte("x"), []string{"\x00\xff\xfe"}},
		"with padding":                  {alone("a2V5MQ=="), []byte("x"), []string{"key1"}},
		"a flag that is not set":        {fields{}.text(metaKey, "AP/+").number(metaKeyIsBase64, 0), []byte("x"), []string{"AP/+"}},
		"no base64":                     {alone("a key"), []byte("x"), []string{"a key"}},
		"base64 that is cut off":        {alone("a2V5M"), []byte("x"), []string{"a2V5M"}},
		"a line break in it":            {alone("a2V5\nMQ=="), []byte("x"), []string{"a2V5\nMQ=="}},
		"an empty key is none":          {alone(""), []byte("x"), []string{""}},
		"a flag without a key":          {fields{}.number(metaKeyIsBase64, 1), []byte("x"), []string{""}},
		"a message without a payload":   {alone("AP/+"), nil, []string{"\x00\xff\xfe"}},
		"a key of a megabyte":           {alone(strings.Repeat("AP/+", 1<<18)), []byte("x"), []string{strings.Repeat("\x00\xff\xfe", 1<<18)}},
		"in a batch":                    {fields{}.number(metaBatch, 4), batch, []string{"\x00\xff\xfe", "AP/+", "?", ""}},
		"in a batch that is compressed": {fields{}.number(metaBatch, 4).number(metaCompression, 2).number(metaUncompressed, uint64(len(batch))), deflated(batch), []string{"\x00\xff\xfe", "AP/+", "?", ""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerOf(t, startServer(t))
			cfg, topic := b.fromBeginning(1)
			b.raw(topic+"-partition-0").send(test.metadata, test.payload)
			b.produce(topic+"-partition-0", texted("behind"))
			src, _ := b.open(cfg)
			got, _ := sourcetest.Collect(t, src, len(test.keys)+1)
			for i, key := range test.keys {
				require.Equal(t, key, string(got[i].Key))
			}
			if len(test.keys) == 4 {
				require.Equal(t, []string{"a", "bb", "ccc", "d", "behind"}, sourcetest.Payloads(got))
			}
		})
	}
}
