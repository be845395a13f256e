package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	yamldoc "go.yaml.in/yaml/v3"

	"github.com/graphmill/graphmill"
)

const (
	settingsFile = "graphmill.yaml" // read where it stands in the working directory
	varPrefix    = "GRAPHMILL_"
	configVar    = varPrefix + "CONFIG"
	secretPrefix = varPrefix + "SECRET_" // values for references, not settings
)

// clientSettings are settings of the commands that work with a server or a broker.
var clientSettings = []string{"server", "token-file", "kafka-bootstrap-servers", "pulsar-service-url"}

// loadSettings fills the flags that the command line has not set, from the
// environment, else from the settings file; what is in neither keeps its
// default. So a setting has one name (--data-dir, GRAPHMILL_DATA_DIR,
// data-dir:), one parser and one list of what is known.
//
// config names the file; empty: graphmill.yaml, if there is one. known are all
// settings there are, those of other commands too, so that serve and dev can
// share an environment and a file. Warnings are for variables that look like
// settings and are none.
func loadSettings(flags *pflag.FlagSet, known []string, config string, environ []string) (warnings []string, err error) {
	fromEnv, warnings, err := readEnvironment(known, environ)
	if err != nil {
		return nil, err
	}
	fromFile, config, err := readSettingsFile(known, config)
	if err != nil {
		return nil, err
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed {
			return
		}
		value, source := "", ""
		switch {
		case fromEnv.Exists(f.Name):
			value, source = fromEnv.String(f.Name), variableOf(f.Name)
		case fromFile.Exists(f.Name):
			source = config + ": " + f.Name
			if value, err = settingText(fromFile.Get(f.Name)); err != nil {
				err = wrongUsage("%s: %s", source, err)
				return
			}
		default:
			return
		}
		if setErr := flags.Set(f.Name, value); setErr != nil {
			err = wrongUsage("%s: %.80q does not do: %s", source, value, rootCause(setErr))
		}
	})
	return warnings, err
}

// loadClientSettings does so for a command that works with a server or a broker:
// it takes those of its settings that the command has, and shares environment
// and file with the server. GRAPHMILL_CONFIG names another file.
func (a *app) loadClientSettings(cmd *cobra.Command) error {
	flags := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	for _, name := range clientSettings {
		if f := cmd.Flags().Lookup(name); f != nil {
			flags.AddFlag(f)
		}
	}
	warnings, err := loadSettings(flags, settingNames(), a.getenv(configVar), a.environ)
	for _, w := range warnings {
		fmt.Fprintf(a.err, "warning: %s\n", w)
	}
	return err
}

func readEnvironment(known, environ []string) (*koanf.Koanf, []string, error) {
	names := map[string]string{} // of variables, to their settings
	for _, k := range known {
		names[variableOf(k)] = k
	}
	var warnings []string
	k := koanf.New(".")
	err := k.Load(env.Provider("", env.Opt{
		Prefix:      varPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			setting, ok := names[name]
			if !ok && name != configVar && !strings.HasPrefix(name, secretPrefix) {
				text := fmt.Sprintf("the variable %s is no setting", name)
				if near := graphmill.Nearest(name, append(slices.Sorted(maps.Keys(names)), configVar)); near != "" {
					text += fmt.Sprintf("; did you mean %s?", near)
				}
				warnings = append(warnings, text)
			}
			return setting, value // "" leaves it out
		},
	}), nil)
	slices.Sort(warnings)
	return k, warnings, err
}

func readSettingsFile(known []string, path string) (*koanf.Koanf, string, error) {
	k := koanf.New(".")
	optional := path == ""
	if optional {
		path = settingsFile
	}
	if err := k.Load(settingsDoc(path), yaml.Parser()); err != nil {
		if optional && errors.Is(err, fs.ErrNotExist) {
			return k, path, nil
		}
		return nil, path, wrongUsage("read the settings of %s: %s", path, rootCause(err))
	}
	for _, key := range k.Keys() {
		if slices.Contains(known, key) {
			continue
		}
		text := fmt.Sprintf("%s: %s is no setting", path, key)
		if near := graphmill.Nearest(key, known); near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		return nil, path, &usageError{text: text, next: "graphmill serve --help lists the settings"}
	}
	return k, path, nil
}

// maxSettingsFile bounds the settings file, in bytes.
const maxSettingsFile = 1 << 20

// settingsDoc is the path of a settings file, for koanf to read.
type settingsDoc string

// ReadBytes returns the file. One with several documents is refused: the parser
// would read the first and pass over the others in silence.
func (path settingsDoc) ReadBytes() ([]byte, error) {
	f, err := os.Open(string(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSettingsFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSettingsFile:
		return nil, fmt.Errorf("it has more than %s", sizeText(maxSettingsFile))
	}
	docs := yamldoc.NewDecoder(bytes.NewReader(text))
	var doc yamldoc.Node
	if err := docs.Decode(&doc); err != nil {
		return text, nil // the parser tells what is wrong, or that there is nothing
	}
	if err := docs.Decode(&doc); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it (a line ---)")
	}
	return text, nil
}

// Read is of no use for files.
func (path settingsDoc) Read() (map[string]any, error) { return nil, errors.ErrUnsupported }

// settingText writes a value of the file as it would stand on a command line.
func settingText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			var err error
			if parts[i], err = settingText(e); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, ","), nil
	case nil:
		return "", errors.New("there is no value")
	}
	return "", fmt.Errorf("%v is no value for a setting", v)
}

// variableOf returns the variable of a setting: GRAPHMILL_DATA_DIR of data-dir.
func variableOf(setting string) string {
	return varPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// rootCause takes off what wraps an error where that tells nothing more.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
