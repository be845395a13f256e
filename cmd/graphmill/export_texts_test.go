package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

func TestWhateverStandsInASettingIsReadAsItWasExported(t *testing.T) {
	for _, text := range []string{
		"\tMERGE (u:User)\n\tSET u.seen = 1\n", "\t\n", " \tMERGE\n", "\n\tMERGE\n  SET", "  MERGE\nSET", "a\n\tb",
		"<<", "a << b", "*a", "&a", "---\n...", "--- x\n", "null", "~", "007", "# no comment", "'\"\\",
		"\x7f", "\u0080", "\u0085#\n", "\u2028x", "\ufeffMERGE", "\ufffe", "\U0001f600", "\r\nMERGE\r\n",
	} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			spec := graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m", Settings: map[string]string{"query": text, "key of " + text: ""}}
			for _, format := range []string{"yaml", "json"} {
				var out bytes.Buffer
				e := exported{Streams: []exportedStream{exportStream(api.Stream{StreamDefinition: api.StreamDefinition(spec.WithDefaults())})}}
				require.NoError(t, e.write(&out, format))
				d := newDefinitions()
				(&definitionFile{d: d, shown: "it"}).readYAML(t.Context(), out.String())
				require.Empty(t, d.broken, out.String())
				require.Len(t, d.streams, 1)
				require.Equal(t, spec.Settings, d.streams[0].spec.Settings, out.String())
			}
		})
	}
}
