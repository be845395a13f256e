package pulsar

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/sources/setting/settingtest"
)

//go:generate go test -run TestSettingsReferenceIsCurrent -update .

var update = flag.Bool("update", false, "write the tables of docs/pulsar-settings.md")

// The tables of settings are made of the one in the code, so they cannot say
// anything else.
func TestSettingsReferenceIsCurrent(t *testing.T) {
	settingtest.RequireReference(t, settings, "../../docs/pulsar-settings.md", "go generate ./sources/pulsar", *update)
}

func TestEverySettingStandsOnceInTheTable(t *testing.T) {
	var documented []string
	// The first are the fields of the Java client's ClientConfigurationData and
	// ConsumerConfigurationData, of client.conf, and of the parameters of logins;
	// the others are what is given here without a file.
	for _, file := range []string{"testdata/pulsar-4.0-names.txt", "testdata/graphmill-names.txt"} {
		names, err := os.ReadFile(file)
		require.NoError(t, err)
		documented = append(documented, strings.Fields(string(names))...)
	}
	settingtest.RequireSound(t, settings, documented, nil)
}
