package frame

import (
	"maps"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// AppendSettings appends what graphmill_configure is given: a MessagePack map of
// string to string, sorted by key.
func AppendSettings(b []byte, settings map[string]string) []byte {
	b = msgp.AppendMapHeader(b, uint32(len(settings)))
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		b = msgp.AppendString(msgp.AppendString(b, k), settings[k])
	}
	return b
}
