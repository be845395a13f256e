package server_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	_, err := push("a/b", server.ContentTypeWasm, obedient)
	require.Equal(t, "name", requireCode(t, err, "invalid").Field)
	_, err = push("m", "text/plain", obedient)
	require.Equal(t, "content_type", requireCode(t, err, "invalid").Field)
	_, err = push("m", server.ContentTypeWasm, []byte("MERGE (n)"))
	requireCode(t, err, "not_wasm")
	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Empty(t, modules, "what is refused leaves nothing")

	r, err := push("m", server.ContentTypeWasm, obedient)
	require.NoError(t, err)
	require.True(t, r.Created)
	require.Equal(t, []string{"loop", "transform"}, r.Module.Transformations)
	require.NotEmpty(t, r.Checked)
	again, err := push("m", server.ContentTypeWasm, obedient)
	require.NoError(t, err)
	require.False(t, again.Created)
	require.Equal(t, r.Module, again.Module)
}

func TestReadyModulesLieBesideTheProgram(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "obedient.wasm"), obedient, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "broken.wasm"), []byte("no module"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "notes.txt"), []byte("notes"), 0o600))
	s := w.open(func(c *server.Config) { c.PluginsDir = plugins })

	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Len(t, modules, 1, "a broken one is left out")
	require.True(t, modules[0].ReadOnly)
	require.Equal(t, "obedient", modules[0].Name)
	requireCode(t, s.DeleteModule(t.Context(), "obedient"), "module_read_only")

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
	require.NoError(t, s.DeleteModule(t.Context(), "obedient"), "in use, but the ready one serves")
}

func TestATransformationRunsOnGivenMessages(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	run := func(payloads ...string) (server.RunResult, error) {
		r := server.RunRequest{Module: "obedient", Function: "transform"}
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

	_, err = s.RunTransformation(t.Context(), server.RunRequest{Module: "obedient", Function: "absent"})
	e = requireCode(t, err, "function_not_found")
	require.Contains(t, e.Next, "loop, transform")
	_, err = s.RunTransformation(t.Context(), server.RunRequest{Module: "absent", Function: "transform"})
	e = requireCode(t, err, "module_not_found")
	require.Contains(t, e.Next, "obedient")
}

func TestModuleBytesThatAreLostOrDamaged(t *testing.T) {
	for code, spoil := range map[string]func(file string) error{
		"module_bytes_lost":    os.Remove,
		"module_bytes_damaged": func(file string) error { return os.WriteFile(file, obedient[:100], 0o600) },
	} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			w.create(s, nil)
			files, err := filepath.Glob(filepath.Join(w.dir, "modules", "*.wasm"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, spoil(files[0]))

			_, err = s.StartStream(t.Context(), "s", server.StartRequest{})
			e := requireCode(t, err, code)
			require.Equal(t, graphmill.KindConflict, e.Kind)
			require.Contains(t, e.Text, `"obedient"`)
			require.Contains(t, e.Next, "graphmill module push obedient")
			require.Equal(t, code, w.awaitState(s, graphmill.StateFailed).Reason.Code)
			_, err = s.RunTransformation(t.Context(), server.RunRequest{Module: "obedient", Function: "transform"})
			requireCode(t, err, code)

			w.push(s)
			w.start(s)
			w.produce("a")
			w.awaitAcknowledged(s, 1)
		})
	}
}

func TestAModuleThatIsReplacedWhileItIsLoaded(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "obedient.wasm"), obedient, 0o600))
	s := w.open(func(c *server.Config) { c.PluginsDir = plugins })
	ctx, cancel := context.WithCancel(t.Context())
	var loader sync.WaitGroup
	loader.Go(func() {
		for ctx.Err() == nil {
			_, err := s.RunTransformation(context.Background(), server.RunRequest{Module: "obedient", Function: "transform"})
			assert.NoError(t, err, "there is a module of the name at every moment")
		}
	})
	for range 30 {
		w.pushAs(s, "obedient", obedientTwo)
		require.NoError(t, s.DeleteModule(t.Context(), "obedient"))
	}
	cancel()
	loader.Wait()
}

func TestADryRunTellsHowMuchOfItsLogWasDropped(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.Limits.Time = 500 * time.Millisecond })
	w.push(s)
	r := server.RunRequest{Module: "obedient", Function: "transform", Messages: []graphmill.Message{{Payload: []byte("chatty")}}}
	result, err := s.RunTransformation(t.Context(), r)
	require.NoError(t, err)
	require.Greater(t, len(result.Log), 10)
	require.LessOrEqual(t, len(result.Log), 201)
	require.Equal(t, server.LogLine{Level: "info", Text: greeting}, result.Log[0])
	require.Contains(t, result.Log[len(result.Log)-1].Text, "were dropped")

	r.Messages[0].Payload = []byte("flood")
	_, err = s.RunTransformation(t.Context(), r)
	requireCode(t, err, "transformation_failed")
}

func TestFilesBesideTheModulesAreLeftAlone(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	plugins := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(plugins, "folder.wasm"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(plugins, "pipe.wasm"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "huge.wasm"), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(plugins, "huge.wasm"), 1<<40))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "a name.wasm"), obedient, 0o600))
	s := w.open(func(c *server.Config) { c.PluginsDir = plugins })
	promptly(t, "looking through the folder", func() {
		modules, err := s.Modules(t.Context())
		require.NoError(t, err)
		require.Empty(t, modules)
	})
	for _, name := range []string{"folder", "pipe", "huge"} {
		require.Len(t, w.log.with("module="+name), 1)
	}
}
