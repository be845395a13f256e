package graphmill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearestNamesWhatWasMeant(t *testing.T) {
	known := []string{"data-dir", "listen", "log-level", "log-format", "batch_size"}
	for given, want := range map[string]string{
		"data-dri":  "data-dir",
		"datadir":   "data-dir",
		"data_dir":  "data-dir",
		"Listen":    "listen",
		"batchsize": "batch_size",
		"log-levle": "log-level",
		"colour":    "",
		"x":         "",
		"":          "",
	} {
		require.Equal(t, want, Nearest(given, known), "given %q", given)
	}
}
