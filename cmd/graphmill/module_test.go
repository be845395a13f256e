package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// loopVersion writes loopModule with a custom section that tells it apart.
func (c *cli) loopVersion(t *testing.T, n byte) string {
	t.Helper()
	file := filepath.Join(c.dir, "loop.wasm")
	require.NoError(t, os.WriteFile(file, append([]byte(loopModule), 0, 3, 1, 'v', n), 0o600))
	return file
}

func TestVersionsAreShownRolledBackAndRemoved(t *testing.T) {
	c := newCLI(t)
	plugins := filepath.Join(c.dir, "ready")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "loop.wasm"), []byte(loopModule), 0o600))
	c.dev(t, "--plugins-dir", plugins)
	for n := range byte(2) {
		require.Contains(t, c.must(t, "module", "push", "loop", c.loopVersion(t, n)), "transformation: loop.transform\n")
	}
	kept := c.must(t, "module", "push", "loop", c.loopVersion(t, 2), "--no-activate")
	require.Contains(t, kept, "not active")
	require.Contains(t, kept, "graphmill module rollback loop 3")
	c.must(t, "stream", "create", "slow", "--topics", "events", "--transform", "loop", "--no-check")

	show := c.must(t, "module", "show", "loop")
	require.Regexp(t, `(?m)^VERSION +ACTIVE +SIZE +SHA256 +PUSHED +TRANSFORMATIONS$`, show)
	require.Regexp(t, `(?m)^ *2 +active +\d+ B +[0-9a-f]{12} +20\d\d-\S+ \S+ +transform$`, show)
	require.Regexp(t, `(?m)^slow +transform +stopped`, show)

	require.Contains(t, c.must(t, "module", "rollback", "loop"), "loop version 1 is active")
	require.Contains(t, c.must(t, "module", "rollback", "loop", "3"), "loop version 3 is active")
	require.Contains(t, c.must(t, "module", "activate", "loop", "2"), "loop version 2 is active")
	var m struct{ Version int }
	require.NoError(t, json.Unmarshal([]byte(c.must(t, "module", "rollback", "loop", "-o", "json")), &m))
	require.Equal(t, 1, m.Version)
	refused := c.run(t, "", "module", "rollback", "loop")
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.err, "no version before version 1")
	require.Contains(t, c.run(t, "", "module", "rollback", "loop", "9").err, "there are: 3, 2, 1")
	for _, args := range [][]string{{"rollback"}, {"rollback", "loop", "two"}, {"rollback", "loop", "0"}, {"rollback", "loop", "1", "2"}, {"rm", "loop", "--version", "x"}, {"rm"}} {
		require.Equal(t, exitUsage, c.run(t, "", append([]string{"module"}, args...)...).status, "%q", args)
	}

	require.Equal(t, "removed loop version 2\n", c.must(t, "module", "rm", "loop", "--version", "2"))
	active := c.run(t, "", "module", "rm", "loop", "--version", "1")
	require.Equal(t, exitFailed, active.status)
	require.Contains(t, active.err, "graphmill module rollback loop VERSION")
	require.Equal(t, "removed loop\nthe ready module loop, which lies beside the program, serves this name now\n",
		c.must(t, "module", "rm", "loop"), "a stream uses it, and is served")
	require.Regexp(t, `(?m)^loop +ready`, c.must(t, "module", "list"))
	for _, args := range [][]string{{"rm", "loop"}, {"rollback", "loop"}} {
		require.Contains(t, c.run(t, "", append([]string{"module"}, args...)...).err, "lies beside the program")
	}
}

func TestStreamsThatHaveFailedAreNamedWhereAVersionMayCureThem(t *testing.T) {
	c := newCLI(t)
	c.dev(t, "--limit-time", "50ms")
	c.must(t, "module", "push", "loop", c.loopVersion(t, 0))
	require.Equal(t, exitDone, c.run(t, "x\n", "produce", "events").status)
	c.must(t, "stream", "create", "slow", "--topics", "events", "--transform", "loop", "--start-from", "earliest", "--batch-interval", "1ms")
	c.must(t, "stream", "start", "slow")
	require.Eventually(t, func() bool { return c.status(t, "slow").Status.State == graphmill.StateFailed }, time.Minute, 50*time.Millisecond)
	const told = "stream slow has failed and takes this version when it is started: graphmill stream start slow\n"
	require.Contains(t, c.must(t, "module", "push", "loop", c.loopVersion(t, 1)), told)
	require.Contains(t, c.must(t, "module", "rollback", "loop"), told)
	require.NotContains(t, c.must(t, "module", "push", "loop", c.loopVersion(t, 2), "--no-activate"), "has failed")
}

func TestVerifyTellsWhatIsWrongWithAFile(t *testing.T) {
	c := newCLI(t, "GRAPHMILL_SERVER=http://127.0.0.1:1")
	write := func(name string, content []byte) string {
		file := filepath.Join(c.dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		return file
	}
	huge := write("huge.wasm", nil)
	require.NoError(t, os.Truncate(huge, 100<<20))
	loop := write("loop.wasm", []byte(loopModule))
	unreadable := filepath.Join(c.dir, "unreadable.wasm")
	require.NoError(t, os.Symlink(unreadable, unreadable))
	for name, tc := range map[string]struct {
		stdin  string
		args   []string
		status int
		err    []string
	}{
		"text":               {"", []string{write("plugin.py", []byte("def transform(messages): pass"))}, exitFailed, []string{"plugin.py: ", "WebAssembly"}},
		"empty":              {"", []string{write("empty.wasm", nil)}, exitFailed, []string{"empty.wasm is empty"}},
		"folder":             {"", []string{c.dir}, exitFailed, []string{"is a folder", "such as", ".wasm"}},
		"100 MB":             {"", []string{huge}, exitFailed, []string{"has 104857600 bytes, the limit is 33554432", "--limit-module-bytes"}},
		"100 MB of zeros":    {"", []string{huge, "--limit-module-bytes", "200MiB"}, exitFailed, []string{"huge.wasm: ", "WebAssembly"}},
		"absent":             {"", []string{"nowhere.wasm"}, exitFailed, []string{"read nowhere.wasm: no such file"}},
		"a link to itself":   {"", []string{unreadable}, exitFailed, []string{"unreadable.wasm: "}},
		"cut short":          {"", []string{write("cut.wasm", []byte(loopModule[:60]))}, exitFailed, []string{"cut.wasm: "}},
		"no module":          {"", []string{write("bare.wasm", []byte("\x00asm\x01\x00\x00\x00"))}, exitFailed, []string{"bare.wasm: ", "graphmill_abi_v1"}},
		"nothing on stdin":   {"", []string{"-"}, exitFailed, []string{"standard input is empty"}},
		"text on stdin":      {"text", []string{"-"}, exitFailed, []string{"WebAssembly"}},
		"a limit":            {"", []string{loop, "--limit-functions", "2"}, exitFailed, []string{"loop.wasm: ", "2"}},
		"a limit that is no": {"", []string{loop, "--limit-max-memory", "5GiB"}, exitUsage, []string{"--limit-max-memory"}},
		"no file":            {"", nil, exitUsage, []string{"takes FILE"}},
		"two files":          {"", []string{loop, loop}, exitUsage, []string{"takes FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.run(t, tc.stdin, append([]string{"module", "verify"}, tc.args...)...)
			require.Equal(t, tc.status, r.status, "%s%s", r.out, r.err)
			require.Empty(t, r.out)
			for _, want := range tc.err {
				require.Contains(t, r.err, want)
			}
			require.Equal(t, 1, strings.Count(r.err, "error: "))
			require.NotContains(t, r.err, "\r", "no progress behind a pipe")
		})
	}

	for _, r := range []result{c.run(t, "", "module", "verify", loop), c.run(t, loopModule, "module", "verify", "-")} {
		require.Equal(t, exitDone, r.status, r.err)
		require.Contains(t, r.out, "can be pushed (166 B, sha256 ")
		require.Contains(t, r.out, "transformation: NAME.transform\n")
		require.Contains(t, r.out, "checked:\n")
		require.Empty(t, r.err)
	}
	var v verified
	require.NoError(t, json.Unmarshal([]byte(c.must(t, "module", "verify", loop, "-o", "json")), &v))
	require.Equal(t, loop, v.File)
	require.Equal(t, []string{"transform"}, v.Transformations)
	require.EqualValues(t, len(loopModule), v.Size)
	require.Len(t, v.SHA256, 64)
	require.NotEmpty(t, v.Checked)
}

// One signal ends a command that waits for a pipe to be written to.
func TestAModuleFromAPipeThatNobodyFillsIsGivenUp(t *testing.T) {
	c := newCLI(t)
	path := filepath.Join(c.dir, "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	for _, command := range [][]string{{"verify", path}, {"push", "m", path}} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, environ: c.env}
		require.Equal(t, exitFailed, a.run(ctx, append([]string{"module"}, command...)), command)
	}
}

func TestAModuleIsReadFromAPipe(t *testing.T) {
	c := newCLI(t)
	path := filepath.Join(c.dir, "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte(loopModule), 0o600) }()
	require.Contains(t, c.must(t, "module", "verify", path), "can be pushed (166 B, ")
	require.NoError(t, <-written)
}

func TestPushOfWhatIsNoModule(t *testing.T) {
	c := newCLI(t)
	c.dev(t)
	huge := filepath.Join(c.dir, "huge.wasm")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, 100<<20))
	for file, want := range map[string]string{
		huge:           "more than 33554432 bytes",
		c.dir:          "is a folder",
		"nowhere.wasm": "nowhere.wasm",
		os.DevNull:     "is empty",
	} {
		r := c.run(t, "", "module", "push", "m", file)
		require.Equal(t, exitFailed, r.status, file)
		require.Contains(t, r.err, want, file)
	}
	require.Contains(t, c.run(t, loopModule, "module", "push", "loop", "-").out, "pushed loop version 1")
	require.NotContains(t, c.must(t, "module", "list"), "\nm ")
}

func TestProgressIsTakenBackOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quick, slow lockedBuffer
		p := newProgress(&quick, "reading")
		time.Sleep(progressAfter / 2)
		p.stop()
		require.Empty(t, quick.String(), "what is done at once needs no line")

		p = newProgress(&slow, "reading a\x1bb")
		time.Sleep(progressAfter + progressEvery/2)
		require.Equal(t, "\r\x1b[Kreading a\\x1bb...", slow.String(), "a name cannot command the terminal")
		p.say(func() string { return "uploading" })
		time.Sleep(progressEvery)
		p.stop()
		require.True(t, strings.HasSuffix(slow.String(), "\r\x1b[Kuploading...\r\x1b[K"), "%q", slow.String())
	})
	var errs bytes.Buffer
	p := (&app{err: &errs}).startProgress("reading")
	p.say(func() string { return "no terminal" })
	p.stop()
	require.Empty(t, errs.String())
}

func TestNumbersAndTheirThings(t *testing.T) {
	require.Equal(t, "0 messages", count(0, "message", "messages"))
	require.Equal(t, "1 message", count(1, "message", "messages"))
	require.Equal(t, "2 batches", count(int64(2), "batch", "batches"))
	require.Equal(t, "1 statement, 2 failures", outcome(1, 2))
	var b bytes.Buffer
	printTransformations(&b, "m", []string{"a", "b"})
	require.Equal(t, "2 transformations:\n  m.a\n  m.b\n", b.String())
	b.Reset()
	printPushed(&b, &api.PushedModule{})
	require.NotContains(t, b.String(), "1 transformations")
}
