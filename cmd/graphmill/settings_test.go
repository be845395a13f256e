package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// load reads settings as serve does.
func load(t *testing.T, file string, environ []string, args ...string) (serveSettings, []string, error) {
	t.Helper()
	var s serveSettings
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.add(fs)
	require.NoError(t, fs.Parse(args))
	config := ""
	if file != "" {
		config = filepath.Join(t.TempDir(), "settings.yaml")
		require.NoError(t, os.WriteFile(config, []byte(file), 0o600))
	}
	warnings, err := loadSettings(fs, settingNames(), config, environ)
	return s, warnings, err
}

func TestSettingsComeFromFlagsThenVariablesThenFileThenDefaults(t *testing.T) {
	s, warnings, err := load(t, "listen: 127.0.0.1:1\ndata-dir: /file\ndrain-timeout: 3s\nkafka-bootstrap-servers: [a:1, b:2]\nstream-transaction-retry-interval: 250\nlimit-memory: 2MiB\nmodule-cache-size: 100MiB\n",
		[]string{"GRAPHMILL_LISTEN=127.0.0.1:2", "GRAPHMILL_DATA_DIR=/env", "HOME=/x"},
		"--listen", "127.0.0.1:3")
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, "127.0.0.1:3", s.listen)
	require.Equal(t, "/env", s.dataDir)
	require.Equal(t, 3*time.Second, s.drainTimeout)
	require.Equal(t, []string{"a:1", "b:2"}, s.kafkaServers)
	require.Equal(t, millis(250*time.Millisecond), s.retryInterval, "a bare integer is milliseconds")
	engine := (&app{}).engineConfig(&s, nil, "", nil)
	require.EqualValues(t, 2<<20, engine.Limits.Memory)
	require.EqualValues(t, 100<<20, engine.CacheSize)
	require.Equal(t, 10*time.Second, s.createTimeout)
}

func TestWrongSettingsNameTheirSource(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"unknown key":        {file: "data_dri: x", want: "settings.yaml: data_dri is no setting; did you mean data-dir?"},
		"unlike any key":     {file: "colour: blue", want: "settings.yaml: colour is no setting"},
		"nested key":         {file: "graph:\n  uri: x", want: "graph.uri is no setting; did you mean graph-uri?"},
		"no duration":        {file: "drain-timeout: soon", want: `settings.yaml: drain-timeout: "soon" does not do`},
		"no value":           {file: "listen:", want: "listen: there is no value"},
		"a map":              {file: "listen: [{a: 1}]", want: "listen: map[a:1] is no value for a setting"},
		"key twice":          {file: "listen: a:1\nlisten: b:1", want: "already defined"},
		"two documents":      {file: "listen: a:1\n---\ntoken-file: x", want: "more than one document"},
		"huge":               {file: "listen: " + strings.Repeat("x", 2<<20), want: "it has more than"},
		"a long value":       {file: "log-level: " + strings.Repeat("x", 5000), want: `log-level: "` + strings.Repeat("x", 80) + `" does not do`},
		"endless aliases":    {file: aliases(), want: "excessive aliasing"},
		"broken YAML":        {file: "listen: [", want: "settings.yaml: yaml"},
		"variable":           {environ: []string{"GRAPHMILL_LOG_LEVEL=loud"}, want: `GRAPHMILL_LOG_LEVEL: "loud" does not do: it is one of info, debug, warn, error`},
		"negative in memory": {environ: []string{"GRAPHMILL_LIMIT_MEMORY=-1"}, want: "GRAPHMILL_LIMIT_MEMORY"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, c.file, c.environ)
			require.ErrorContains(t, err, c.want)
			require.ErrorAs(t, err, new(*usageError))
		})
	}
}

// aliases is a text of a few lines that stands for 9^10 values.
func aliases() string {
	text, before := "a: &a [x,x,x,x,x,x,x,x,x]\n", "a"
	for _, name := range strings.Split("bcdefghijk", "") {
		text += name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 9), ",") + "]\n"
		before = name
	}
	return text
}

func TestADoorThatIsGivenAndEmptyIsRefused(t *testing.T) {
	for _, name := range []string{"token-file", "secret-key-file", "secrets-dir"} {
		for source, c := range map[string]struct {
			file          string
			environ, args []string
		}{
			"flag":     {args: []string{"--" + name + "="}},
			"variable": {environ: []string{variableOf(name) + "="}},
			"file":     {file: name + `: ""`},
		} {
			t.Run(name+" by "+source, func(t *testing.T) {
				cli := newCLI(t, c.environ...)
				args := []string{"serve", "--graph-uri", "ledger:l.jsonl", "--listen", "127.0.0.1:0"}
				if c.file != "" {
					require.NoError(t, os.WriteFile(filepath.Join(cli.dir, settingsFile), []byte(c.file), 0o600))
				}
				r := cli.run(t, "", append(args, c.args...)...)
				require.Equal(t, exitUsage, r.status, "%s%s", r.out, r.err)
				require.Contains(t, r.err, "--"+name)
				require.Contains(t, r.err, "is given and empty")
			})
		}
	}
}

func TestAFolderOfSecretsThatIsNotThereIsToldAtStart(t *testing.T) {
	dir := t.TempDir()
	for folder, told := range map[string]bool{"": false, dir: false, filepath.Join(dir, "absent"): true} {
		var log strings.Builder
		s := serveSettings{secretsDir: folder}
		s.warnOfSecrets(slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, told, strings.Contains(log.String(), "the folder of secrets cannot be read"), folder)
	}
}

func TestUnknownVariableIsAWarning(t *testing.T) {
	_, warnings, err := load(t, "", []string{
		"GRAPHMILL_LISTNE=x", "GRAPHMILL_SERVER=x", "GRAPHMILL_CONFIG=x", "GRAPHMILL_SECRET_TOKEN=x",
		"GRAPHMILL_DEV_KAFKA_LISTEN=x", "GRAPHMILLION=1",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"the variable GRAPHMILL_LISTNE is no setting; did you mean GRAPHMILL_LISTEN?"}, warnings)
}

func TestMissingSettingsFileIsAnErrorOnlyWhereItIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	_, err := loadSettings(fs, settingNames(), "", nil)
	require.NoError(t, err)
	_, err = loadSettings(fs, settingNames(), "nowhere.yaml", nil)
	require.ErrorContains(t, err, "nowhere.yaml")
}

func TestEverySettingIsTakenFromItsVariable(t *testing.T) {
	require.Contains(t, settingNames(), "dev-kafka-listen")
	require.NotContains(t, settingNames(), "config", "it says where settings are, and is none")
	require.Equal(t, "GRAPHMILL_STREAM_TRANSACTION_RETRY_INTERVAL", variableOf("stream-transaction-retry-interval"))
}

func TestServingBeyondLoopbackNeedsAWord(t *testing.T) {
	for address, local := range map[string]bool{
		"127.0.0.1:7480":   true,
		"127.9.9.9:1":      true,
		"localhost:7480":   true,
		"[::1]:7480":       true,
		":7480":            false,
		"0.0.0.0:7480":     false,
		"[::]:7480":        false,
		"10.0.0.1:7480":    false,
		"example.com:7480": false,
	} {
		err := checkExposure("listen", address, false)
		require.Equal(t, local, err == nil, address)
		require.NoError(t, checkExposure("listen", address, true))
	}
	require.Error(t, checkExposure("listen", "7480", true))
}

func TestByteCountsAndMillis(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1048576": 1 << 20, "64KiB": 64 << 10, "1MiB": 1 << 20, "2GiB": 2 << 30, "10B": 10} {
		var b byteCount
		require.NoError(t, b.Set(text), text)
		require.EqualValues(t, want, b, text)
		var again byteCount
		require.NoError(t, again.Set(b.String()))
		require.Equal(t, b, again, "what is shown can be typed")
	}
	for _, text := range []string{"", "-1", "1MB", "1.5MiB", "x", "9999999999999GiB"} {
		require.Error(t, new(byteCount).Set(text), text)
	}
	for text, want := range map[string]time.Duration{"500": 500 * time.Millisecond, "2s": 2 * time.Second, "0": 0} {
		var m millis
		require.NoError(t, m.Set(text), text)
		require.EqualValues(t, want, m, text)
	}
	for _, text := range []string{"", "-5", "-5s", "soon"} {
		require.Error(t, new(millis).Set(text), text)
	}
}

func TestSettingsThatWouldMeanSomethingElseAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--create-timeout=-5s":                        "--create-timeout",
		"--start-timeout=0s":                          "--start-timeout",
		"--drain-timeout=0s":                          "--drain-timeout",
		"--stream-transaction-retry-interval=0":       "--stream-transaction-retry-interval",
		"--stream-transaction-conflict-retries=-3":    "--stream-transaction-conflict-retries",
		"--module-cache-size=0":                       "--module-cache-size 0 is no size",
		"--data-dir=":                                 "--data-dir",
		"--kafka-bootstrap-servers=a:1,,b:1":          "--kafka-bootstrap-servers: an address",
		"--kafka-bootstrap-servers=ann:hunter2@h:1":   "--kafka-bootstrap-servers: an address",
		"--kafka-bootstrap-servers=h:0":               "--kafka-bootstrap-servers: an address",
		"--kafka-bootstrap-servers=h:port":            "--kafka-bootstrap-servers: an address",
		"--kafka-bootstrap-servers=kafka://h:9092":    "--kafka-bootstrap-servers: an address",
		"--kafka-bootstrap-servers=h,[::1]:9092":      "",
		"--stream-transaction-conflict-retries=0":     "",
		"--kafka-bootstrap-servers=kafka.example:909": "",
	} {
		var s serveSettings
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.add(fs)
		require.NoError(t, fs.Parse([]string{args}))
		err := s.check()
		if want == "" {
			require.NoError(t, err, args)
			continue
		}
		require.ErrorContains(t, err, want, args)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
