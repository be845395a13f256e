package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// clientFlags give CONFIGS and CREDENTIALS of a broker's client.
type clientFlags struct {
	prefix      string   // before the flags' names
	configs     []string // NAME=VALUE
	credentials []string
}

func (f *clientFlags) add(fs *pflag.FlagSet) {
	f.addNamed(fs, "", "a setting of the broker's client by librdkafka's name, of Pulsar by that of its clients")
}

// addNamed adds the flags with a prefix before their names. what says which
// settings they give.
func (f *clientFlags) addNamed(fs *pflag.FlagSet, prefix, what string) {
	f.prefix = prefix
	config := prefix + "config"
	fs.StringArrayVar(&f.configs, config, nil, what+", as NAME=VALUE or NAME=@FILE (the file's content); may be repeated")
	fs.StringArrayVar(&f.credentials, prefix+"credential", nil, "like --"+config+", never shown again; secret:NAME takes the value of the server's secrets. A password on a command line can be read by others: give @FILE or secret:NAME")
}

// given tells whether there are any.
func (f *clientFlags) given() bool { return len(f.configs)+len(f.credentials) > 0 }

// read returns configs and credentials; nil where there are none.
func (f *clientFlags) read() (configs, credentials map[string]string, err error) {
	if configs, err = readEntries(f.prefix+"config", f.configs); err != nil {
		return nil, nil, err
	}
	credentials, err = readEntries(f.prefix+"credential", f.credentials)
	return configs, credentials, err
}

// readEntries reads NAME=VALUE. A value @FILE is the content of a file on this
// machine, without the line's end behind it; @@TEXT is @TEXT. No error holds a
// value.
func readEntries(flag string, pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	entries := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, wrongUsage("--%s is not of the form NAME=VALUE", flag)
		}
		if _, twice := entries[name]; twice {
			return nil, wrongUsage("--%s %s is given twice", flag, name)
		}
		if file, ok := strings.CutPrefix(value, "@"); ok && !strings.HasPrefix(file, "@") {
			content, err := readFile(file)
			if err != nil {
				return nil, err
			}
			value = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
		} else if ok {
			value = file
		}
		entries[name] = value
	}
	return entries, nil
}

// settings reads the flags for a client of Kafka on this machine, which may name any
// file of it, and variables GRAPHMILL_SECRET_NAME.
func (f *clientFlags) settings(a *app) (kafka.ClientSettings, []string, error) {
	configs, credentials, err := f.read()
	if err != nil {
		return kafka.ClientSettings{}, nil, err
	}
	return kafka.ParseConfigs(configs, credentials, localVault{a})
}

// pulsarSettings is settings for a client of Pulsar.
func (f *clientFlags) pulsarSettings(a *app) (pulsar.ClientSettings, []string, error) {
	configs, credentials, err := f.read()
	if err != nil {
		return pulsar.ClientSettings{}, nil, err
	}
	return pulsar.ParseConfigs(configs, credentials, localVault{a})
}

// localVault are the secrets and files of who runs the program.
type localVault struct{ a *app }

// Value implements setting.Vault.
func (v localVault) Value(name string) (string, error) {
	return secret.References{Variable: v.a.lookupEnv}.Value(name)
}

// File implements setting.Vault.
func (v localVault) File(path string) ([]byte, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, graphmill.Invalid("", "%v", err)
	}
	return content, nil
}
