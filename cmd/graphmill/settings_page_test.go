package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const settingsPage = "../../docs/settings.md"

const settingsPageHead = `# Settings

Made from the program's flags (` + "`go generate ./cmd/graphmill`" + `). A setting has one name, and can be given in three ways; the first that is there counts:

1. a flag: ` + "`--data-dir /srv/graphmill`" + `
2. a variable: ` + "`GRAPHMILL_DATA_DIR=/srv/graphmill`" + `
3. a line of the settings file: ` + "`data-dir: /srv/graphmill`" + `

The settings file is ` + "`graphmill.yaml`" + ` of the working directory, or the one that ` + "`--config` (of `serve`, `dev` and `doctor`) or `GRAPHMILL_CONFIG`" + ` names. Servers and commands share file and environment: each takes what is its own. An unknown flag, or an unknown line of the file, is an error that names the nearest known one; an unknown variable that begins with ` + "`GRAPHMILL_`" + ` is a warning.

Durations are written ` + "`500ms`, `30s`, `2m`" + `, sizes in bytes or as ` + "`64KiB`, `16MiB`, `2GiB`" + `, several addresses with commas between them (in the file also as a list).

` + "```yaml" + `
# graphmill.yaml
graph-uri: neo4j://graph:7687
graph-user: loader
graph-password-file: /run/secrets/neo4j
kafka-bootstrap-servers: [broker-1:9092, broker-2:9092]
data-dir: /var/lib/graphmill
token-file: /run/secrets/tokens      # the commands show the first token of it
` + "```" + `
`

const settingsPageTail = `
## Variables that are no settings

| variable | |
|---|---|
| ` + "`GRAPHMILL_CONFIG`" + ` | the settings file |
| ` + "`GRAPHMILL_SECRET_NAME`" + ` | the value of the secret NAME, for ` + "`secret:NAME`" + ` in definitions ([security.md](security.md#where-secrets-are)) |
| ` + "`XDG_STATE_HOME`, else `HOME`" + ` | where the prompt of ` + "`graphmill query`" + ` keeps its history: ` + "`graphmill/history`, `.local/state/graphmill/history`" + ` |
| ` + "`SSL_CERT_FILE`, `SSL_CERT_DIR`" + ` | certificates of authorities in place of the system's |
`

// settingSection are settings that belong together.
type settingSection struct {
	title string
	names []string // or beginnings, such as limit-
}

var settingSections = []settingSection{
	{"The database", []string{"graph-uri", "graph-user", "graph-password-file", "graph-database", "graph-max-connections", "transaction-timeout"}},
	{"Streams", []string{"kafka-bootstrap-servers", "pulsar-service-url", "pulsar-admin-url", "create-timeout", "start-timeout", "drain-timeout", "stream-transaction-conflict-retries", "stream-transaction-retry-interval"}},
	{"Who gets in, and secrets", []string{"listen", "token-file", "insecure-no-auth", "secrets-dir", "secret-key-file"}},
	{"Data and modules", []string{"data-dir", "plugins-dir", "module-cache-size"}},
	{"What it tells of itself", []string{"log-format", "log-level", "metrics-auth"}},
	{"Limits of modules and transformations", []string{"limit-"}},
	{"graphmill dev alone", []string{"dev-kafka-listen"}},
}

// The page of settings is made of the flags themselves, so no setting is missing,
// and none is there that the program does not know.
func TestThePageOfSettingsIsCurrent(t *testing.T) {
	var s serveSettings
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s.add(flags)
	s.dev.add(flags)
	var left []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" {
			left = append(left, f.Name)
		}
	})

	var b bytes.Buffer
	b.WriteString(settingsPageHead + "\n## Of a server\n")
	for _, section := range settingSections {
		var found []*pflag.Flag
		for _, begin := range section.names {
			for _, name := range left {
				if name == begin || strings.HasSuffix(begin, "-") && strings.HasPrefix(name, begin) {
					found = append(found, flags.Lookup(name))
				}
			}
		}
		left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(found, flags.Lookup(name)) })
		writeSettings(&b, "### "+section.title, found)
	}
	require.Empty(t, left, "settings of no section")

	writeSettings(&b, "## Of the commands", clientFlagsOf(t))
	b.WriteString(settingsPageTail)
	if *update {
		require.NoError(t, os.WriteFile(settingsPage, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(settingsPage)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "run: go generate ./cmd/graphmill")
}

// clientFlagsOf returns the flags behind clientSettings, each of the first command
// that has it and works with a server or a broker.
func clientFlagsOf(t *testing.T) []*pflag.Flag {
	t.Helper()
	var found []*pflag.Flag
	for _, name := range clientSettings {
		var f *pflag.Flag
		for _, cmd := range (&app{}).rootCommand().Commands() {
			if f == nil && cmd.GroupID == "client" {
				f = flagOf(cmd, name)
			}
		}
		require.NotNil(t, f, name)
		found = append(found, f)
	}
	return found
}

func flagOf(cmd *cobra.Command, name string) *pflag.Flag {
	if f := cmd.PersistentFlags().Lookup(name); f != nil {
		return f
	}
	return cmd.Flags().Lookup(name)
}

var defaultInUsage = regexp.MustCompile(` \(default:? ([^()]*)\)$`)

func writeSettings(b *bytes.Buffer, title string, flags []*pflag.Flag) {
	fmt.Fprintf(b, "\n%s\n\n| flag | variable | line of the file | value | default | |\n|---|---|---|---|---|---|\n", title)
	for _, f := range flags {
		standard, usage := strings.Trim(f.DefValue, "[]"), f.Usage
		if standard != "" {
			standard = "`" + standard + "`"
		}
		if m := defaultInUsage.FindStringSubmatch(usage); m != nil {
			standard, usage = m[1], strings.TrimSuffix(usage, m[0])
		}
		kind := strings.ReplaceAll(f.Value.Type(), "|", ", ")
		switch kind {
		case "string":
			kind = "text"
		case "stringSlice":
			kind = "addresses"
		}
		usage, _, _ = strings.Cut(usage, " (or "+varPrefix) // the variable has a column
		fmt.Fprintf(b, "| `--%s` | `%s` | `%s:` | %s | %s | %s |\n", f.Name, variableOf(f.Name), f.Name, kind, standard, strings.ReplaceAll(usage, "|", `\|`))
	}
}
