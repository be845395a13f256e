package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// exported is what export writes and apply reads.
type exported struct {
	Modules []exportedModule `json:"modules,omitempty"`
	Streams []exportedStream `json:"streams"`
}

// exportedModule is the active version of a module.
type exportedModule struct {
	Name    string `json:"name"`
	File    string `json:"file,omitempty"`
	SHA256  string `json:"sha256"`
	Version int    `json:"version"` // apply passes over it
}

// exportedStream is a definition without its defaults.
type exportedStream struct {
	graphmill.StreamSpec
	State graphmill.State `json:"state"`
}

// exportStream takes off the defaults. Where start_from follows from
// a setting of the broker's client in a definition that lacks it, it is always written.
func exportStream(s api.Stream) exportedStream {
	spec := graphmill.StreamSpec(s.StreamDefinition)
	short := spec.WithoutDefaults()
	for _, reset := range []string{"auto.offset.reset", "subscriptionInitialPosition"} {
		_, byConfig := spec.Configs[reset]
		_, byCredential := spec.Credentials[reset]
		if byConfig || byCredential {
			short.StartFrom = spec.StartFrom
		}
	}
	return exportedStream{short, s.Desired}
}

// secrets lists what is not exported, as STREAM: credentials.NAME.
func (e *exported) secrets() []string {
	var found []string
	for _, s := range e.Streams {
		for _, option := range []struct {
			name    string
			entries map[string]string
		}{{"configs", s.Configs}, {"credentials", s.Credentials}} {
			for _, name := range slices.Sorted(maps.Keys(option.entries)) {
				if option.entries[name] == graphmill.RedactedValue {
					found = append(found, fmt.Sprintf("%s: %s.%s", s.Name, option.name, name))
				}
			}
		}
	}
	return found
}

func (e *exported) tellSecrets(w io.Writer) {
	found := e.secrets()
	if len(found) == 0 {
		return
	}
	fmt.Fprintf(w, "%s not exported; in place of %s write secret:NAME, or the value:\n  %s\n",
		count(len(found), "secret is", "secrets are"), graphmill.RedactedValue, strings.Join(found, "\n  "))
}

// write writes the definitions; as YAML with a word on what has to be filled in.
func (e *exported) write(w io.Writer, format string) error {
	o := output{w: w, format: format}
	if format != "yaml" {
		return o.print(e, nil)
	}
	doc, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the definitions: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(escapeControls(doc), &node); err != nil {
		return fmt.Errorf("turn the definitions into YAML: %w", err)
	}
	markSecrets(&node)
	return writeNode(w, &node)
}

// markSecrets says at each placeholder what belongs there.
func markSecrets(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == graphmill.RedactedValue {
		n.LineComment = "a secret, not exported: write secret:NAME, or the value"
	}
	for _, c := range n.Content {
		markSecrets(c)
	}
}
