package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestPushedBytesAreCheckedAndVersioned(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	push := func(name, contentType string, bytes []byte) (server.PushResult, error) {
		return s.PushModule(t.Context(), server.PushRequest{Name: name, ContentType: contentType, Bytes: bytes})
	}
	_, err := push("a/b", server.ContentTypeWasm, fickle)
	require.Equal(t, "name", requireCode(t, err, "invalid").Field)
	_, err = push("m", "text/plain", fickle)
	require.Equal(t, "content_type", requireCode(t, err, "invalid").Field)
	_, err = push("m", server.ContentTypeWasm, []byte("MERGE (n)"))
	requireCode(t, err, "not_wasm")
	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Empty(t, modules, "what is refused leaves nothing")

	r, err := push("m", server.ContentTypeWasm, fickle)
	require.NoError(t, err)
	require.True(t, r.Created)
	require.Equal(t, []string{"loop", "transform"}, r.Module.Transformations)
	require.NotEmpty(t, r.Checked)
	again, err := push("m", server.ContentTypeWasm, fickle)
	require.NoError(t, err)
	require.False(t, again.Created)
	require.Equal(t, r.Module, again.Module)
}

func TestReadyModulesLieBesideTheProgram(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "fickle.wasm"), fickle, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "broken.wasm"), []byte("no module"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "notes.txt"), []byte("notes"), 0o600))
	s := w.open(func(c *server.Config) { c.PluginsDir = plugins })

	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Len(t, modules, 1, "a broken one is left out")
	require.True(t, modules[0].ReadOnly)
	require.Equal(t, "fickle", modules[0].Name)
	requireCode(t, s.DeleteModule(t.Context(), "fickle"), "module_read_only")

	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
	require.Equal(t, []string{"a"}, w.applied())

	w.push(s)
	modules, err = s.Modules(t.Context())
	require.NoError(t, err)
	require.Len(t, modules, 1)
	require.False(t, modules[0].ReadOnly, "a pushed module hides the ready one")
	require.NoError(t, s.DeleteModule(t.Context(), "fickle"), "in use, but the ready one serves")
}

func TestATransformationRunsOnGivenMessages(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	run := func(payloads ...string) (server.RunResult, error) {
		r := server.RunRequest{Module: "fickle", Function: "transform"}
		for _, p := range payloads {
			r.Messages = append(r.Messages, graphmill.Message{Topic: "t", Partition: -1, Payload: []byte(p)})
		}
		return s.RunTransformation(t.Context(), r)
	}
	r, err := run("a", "fail")
	require.NoError(t, err)
	require.Len(t, r.Output.Statements, 1)
	require.Len(t, r.Output.Failures, 1)
	require.Positive(t, r.Duration)
	require.Positive(t, r.Memory)

	_, err = run("a", "panic")
	e := requireCode(t, err, "transformation_failed")
	require.Contains(t, e.Text, "at message 1")

	_, err = s.RunTransformation(t.Context(), server.RunRequest{Module: "fickle", Function: "absent"})
	e = requireCode(t, err, "function_not_found")
	require.Contains(t, e.Next, "loop, transform")
	_, err = s.RunTransformation(t.Context(), server.RunRequest{Module: "absent", Function: "transform"})
	e = requireCode(t, err, "module_not_found")
	require.Contains(t, e.Next, "fickle")
}
