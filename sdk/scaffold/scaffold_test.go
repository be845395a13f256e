package scaffold

import (
	"encoding/json"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

const realSDK = "../go"

// TestPluginTransformsItsSampleMessages does what whoever asked for a plugin does
// next. It is one test, since compiling takes seconds.
func TestPluginTransformsItsSampleMessages(t *testing.T) {
	// A path that go.mod and the shell have to quote.
	dir := filepath.Join(t.TempDir(), "my plugins", "people-plugin")
	plugin, err := New(Config{Language: "go", Dir: dir, SDKDir: realSDK})
	require.NoError(t, err)
	require.Equal(t, "people-plugin", plugin.Name)
	require.ElementsMatch(t, plugin.Files, filesIn(t, dir))
	for _, name := range plugin.Files {
		text := readFile(t, dir, name)
		require.NotContains(t, text, "{{", name)
		require.NotContains(t, text, "<no value>", name)
		if filepath.Ext(name) == ".go" {
			formatted, err := format.Source([]byte(text))
			require.NoError(t, err, name)
			require.Equal(t, string(formatted), text, "%s is not formatted", name)
		}
	}

	build := exec.Command("make")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GOTOOLCHAIN=local")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Regexp(t, `(?m)^ok\s+example\.com/people-plugin`, string(text))
	ignored := strings.TrimPrefix(strings.TrimSpace(readFile(t, dir, ".gitignore")), "*")
	require.ElementsMatch(t, append([]string{"people-plugin" + ignored}, plugin.Files...), filesIn(t, dir), "what is built is not ignored by git")

	host, err := wasmhost.New(t.Context(), wasmhost.Config{Limits: wasmhost.Limits{CompileTime: 10 * time.Minute}}) // the race detector makes it slow
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close(t.Context())) }()
	wasm := []byte(readFile(t, dir, "people-plugin.wasm"))
	_, err = host.Check(t.Context(), wasm)
	require.NoError(t, err)
	m, err := host.Load(t.Context(), wasm)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	instance, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: graphmill.DefaultFunction})
	require.NoError(t, err)
	defer func() { require.NoError(t, instance.Close(t.Context())) }()
	out, err := instance.Transform(t.Context(), graphmill.SourceKafka, sampleMessages(t, readFile(t, dir, "messages.jsonl")))
	require.NoError(t, err)

	require.Len(t, out.Statements, 2)
	for i, want := range []map[string]any{
		{"userId": int64(7), "name": "Ada", "city": "London"},
		{"userId": int64(8), "name": "Grace", "city": nil},
	} {
		s := out.Statements[i]
		require.Equal(t, "MERGE (u:User {id: $userId}) SET u.name = $name, u.city = $city", s.Query.Text)
		require.Equal(t, i, s.Message)
		require.NotNil(t, s.Values, "by position")
		require.Equal(t, want, s.Parameters())
	}
	require.Len(t, out.Failures, 1)
	require.Equal(t, 2, out.Failures[0].Message)
	require.Contains(t, out.Failures[0].Text, "userId")
}

func sampleMessages(t *testing.T, lines string) []graphmill.Message {
	t.Helper()
	var messages []graphmill.Message
	for line := range strings.Lines(lines) {
		var m struct{ Topic, Key, Payload string }
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		messages = append(messages, graphmill.Message{Topic: m.Topic, Key: []byte(m.Key), Payload: []byte(m.Payload), BrokerTime: -1})
	}
	return messages
}

func TestPluginIsNamedAfterItsDirectory(t *testing.T) {
	for base, want := range map[string]string{
		"people-plugin":          "people-plugin",
		"v1.2_X":                 "v1.2_X",
		"my people":              "my-people",
		"größe":                  "gr--e",
		".hidden":                "hidden",
		"--x..":                  "x",
		"...":                    "plugin",
		"日本":                     "plugin",
		"a\xffb":                 "a-b",
		"aux":                    "aux",
		"v1":                     "v1",
		"v2":                     "v2",
		strings.Repeat("n", 300): strings.Repeat("n", graphmill.MaxNameLength),
	} {
		name := nameOf(base)
		require.Equal(t, want, name)
		require.NoError(t, graphmill.ValidateName("", name))
		require.NoError(t, module.CheckPath(goModulePath(name)))
	}
}

func TestSDKIsNamedByARelativePathInAndBesideTheClone(t *testing.T) {
	for _, test := range []struct{ about, dir, sdk, want string }{
		{"in the clone", "/src/graphmill/mine", "/src/graphmill/sdk/go", "../sdk/go"},
		{"deep in the clone", "/src/graphmill/a/b", "/src/graphmill/sdk/go", "../../sdk/go"},
		{"in the SDK", "/src/graphmill/sdk/go/x", "/src/graphmill/sdk/go", ".."},
		{"beside the clone", "/src/mine", "/src/graphmill/sdk/go", "../graphmill/sdk/go"},
		{"deeper beside the clone", "/src/a/mine", "/src/graphmill/sdk/go", "/src/graphmill/sdk/go"},
		{"a name that begins like the clone's", "/src/graphmill2/mine", "/src/graphmill/sdk/go", "/src/graphmill/sdk/go"},
		{"above the clone", "/mine", "/src/graphmill/sdk/go", "/src/graphmill/sdk/go"},
		{"elsewhere", "/home/x/mine", "/src/graphmill/sdk/go", "/src/graphmill/sdk/go"},
		{"an SDK outside of a clone", "/opt/mine", "/opt/sdk-go", "/opt/sdk-go"},
	} {
		got := replacement(test.dir, test.sdk)
		require.Equal(t, test.want, got, test.about)
		require.True(t, modfile.IsDirectoryPath(got), test.about)
	}
}

func TestSDKIsFoundUpwardsFromTheFirstPlaceInAClone(t *testing.T) {
	root := t.TempDir()
	clone := fakeClone(t, filepath.Join(root, "clone"))
	deep := makeDir(t, root, "clone/a/b")
	outside := makeDir(t, root, "outside")
	// Another project that keeps its SDK at the same place, within a clone.
	other := makeDir(t, root, "clone/other/x")
	writeFile(t, "module example.com/sdk\n\ngo 1.24\n", root, "clone/other/sdk/go/go.mod")

	for _, from := range [][]string{{clone}, {deep}, {outside, deep}, {other}, {filepath.Join(deep, "absent")}} {
		sdk, err := FindSDK("go", from...)
		require.NoError(t, err, from)
		require.Equal(t, filepath.Join(clone, "sdk", "go"), sdk, from)
	}

	_, err := FindSDK("go", outside, root)
	require.Equal(t, graphmill.KindNotFound, graphmill.KindOf(err))
	require.ErrorContains(t, err, outside+", nor "+root)
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Next, "--sdk DIR")

	_, err = FindSDK("rust", clone)
	require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
}

func TestRefusedPluginWritesNothing(t *testing.T) {
	root := t.TempDir()
	sdk := filepath.Join(fakeClone(t, filepath.Join(root, "clone")), "sdk", "go")
	writeFile(t, "mine", root, "full/notes.txt")
	writeFile(t, "module example.com/other\n\ngo 1.24\n", root, "other/go.mod")
	writeFile(t, "module (\n", root, "broken/go.mod")
	in := func(name string) string { return filepath.Join(root, name) }

	for _, test := range []struct {
		about string
		cfg   Config
		kind  graphmill.Kind
		text  string
	}{
		{"an unknown language", Config{Language: "rust", Dir: in("p"), SDKDir: sdk}, graphmill.KindInvalid, `in "rust", only in: go`},
		{"a mistyped language", Config{Language: "Go", Dir: in("p"), SDKDir: sdk}, graphmill.KindInvalid, `did you mean "go"?`},
		{"no directory", Config{Language: "go", SDKDir: sdk}, graphmill.KindInvalid, "a directory is needed"},
		{"a directory with a file", Config{Language: "go", Dir: in("full"), SDKDir: sdk}, graphmill.KindConflict, "holds notes.txt"},
		{"a file", Config{Language: "go", Dir: in("full/notes.txt"), SDKDir: sdk}, graphmill.KindInvalid, "is not a directory"},
		{"a directory below a file", Config{Language: "go", Dir: in("full/notes.txt/p"), SDKDir: sdk}, graphmill.KindInternal, "not a directory"},
		{"a wrong name", Config{Language: "go", Dir: in("p"), SDKDir: sdk, Name: "a b"}, graphmill.KindInvalid, "name: "},
		{"no SDK", Config{Language: "go", Dir: in("p")}, graphmill.KindInvalid, "sdk: "},
		{"an SDK that is not there", Config{Language: "go", Dir: in("p"), SDKDir: in("nowhere")}, graphmill.KindInvalid, "is not in " + in("nowhere")},
		{"another module as SDK", Config{Language: "go", Dir: in("p"), SDKDir: in("other")}, graphmill.KindInvalid, "is not in " + in("other")},
		{"a broken go.mod as SDK", Config{Language: "go", Dir: in("p"), SDKDir: in("broken")}, graphmill.KindInvalid, "is not in " + in("broken")},
	} {
		t.Run(test.about, func(t *testing.T) {
			before := filesIn(t, root)
			_, err := New(test.cfg)
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.kind, graphmill.KindOf(err))
			require.Equal(t, before, filesIn(t, root))
			require.NoDirExists(t, in("p"))
		})
	}
}

func TestPluginIsWrittenIntoAnEmptyDirectory(t *testing.T) {
	root := t.TempDir()
	clone := fakeClone(t, filepath.Join(root, "clone"))
	t.Chdir(makeDir(t, root, "clone/people"))
	plugin, err := New(Config{Language: "go", Dir: ".", SDKDir: filepath.Join(clone, "sdk", "go")})
	require.NoError(t, err)
	require.Equal(t, "people", plugin.Name)
	require.FileExists(t, "main.go")
	mod, err := modfile.Parse("go.mod", []byte(readFile(t, "go.mod")), nil)
	require.NoError(t, err)
	require.Equal(t, "1.21", mod.Go.Version, "the SDK's")
	require.Equal(t, "../sdk/go", mod.Replace[0].New.Path)
}

func TestWhatWasWrittenIsRemovedWhenWritingFails(t *testing.T) {
	root := t.TempDir()
	files := []file{{"a", []byte("1")}, {"b", []byte("2")}, {"a", []byte("again: refused")}}

	require.ErrorIs(t, write(filepath.Join(root, "x", "y"), files), fs.ErrExist)
	require.NoDirExists(t, filepath.Join(root, "x"))

	existing := makeDir(t, root, "existing")
	require.ErrorIs(t, write(existing, files), fs.ErrExist)
	require.DirExists(t, existing, "it was there before")
	require.Empty(t, filesIn(t, existing))

	writeFile(t, "theirs", existing, "b")
	require.ErrorIs(t, write(existing, files), fs.ErrExist)
	require.Equal(t, []string{"b"}, filesIn(t, existing))
	require.Equal(t, "theirs", readFile(t, existing, "b"))
}

// fakeClone makes what is looked for in a clone, with a version of Go of its own.
func fakeClone(t *testing.T, dir string) string {
	t.Helper()
	writeFile(t, "module "+goSDKPath+"\n\ngo 1.21\n", dir, "sdk", "go", "go.mod")
	return dir
}

func makeDir(t *testing.T, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func writeFile(t *testing.T, text string, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	makeDir(t, filepath.Dir(file))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

// filesIn returns all files below a directory, relative to it.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	files := []string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, rel)
		return err
	}))
	return files
}
