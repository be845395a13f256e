package kafka

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/sources/setting/settingtest"
)

//go:generate go test -run TestSettingsReferenceIsCurrent -update .

var update = flag.Bool("update", false, "write the table of docs/kafka.md")

// The tables of settings are made of the one in the code, so they cannot say
// anything else.
func TestSettingsReferenceIsCurrent(t *testing.T) {
	settingtest.RequireReference(t, properties, "../../docs/kafka.md", "go generate ./sources/kafka", *update)
}

func TestEverySettingStandsOnceInTheTable(t *testing.T) {
	documented, err := os.ReadFile("testdata/librdkafka-2.12-names.txt") // of its CONFIGURATION.md
	require.NoError(t, err)
	settingtest.RequireSound(t, properties, strings.Fields(string(documented)), []string{"connections.max.idle.ms"})
}
