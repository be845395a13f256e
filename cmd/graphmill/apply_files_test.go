package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// folder makes a folder of files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// readFolder reads the definitions of a folder, and returns what is told of those
// that are broken, without the folder's name.
func readFolder(t *testing.T, dir string) (*definitions, string) {
	t.Helper()
	return readFolderWithin(t, t.Context(), dir)
}

func readFolderWithin(t *testing.T, ctx context.Context, dir string) (*definitions, string) {
	t.Helper()
	var told bytes.Buffer
	a := &app{in: strings.NewReader(""), err: &told}
	d, err := a.readDefinitions(ctx, []string{dir})
	require.NoError(t, err)
	t.Cleanup(d.close)
	for _, b := range d.broken {
		for _, err := range b.errs {
			text, next := explain(err)
			_, _ = fmt.Fprintln(&told, text, next)
		}
	}
	return d, strings.ReplaceAll(told.String(), dir+string(filepath.Separator), "")
}

func (d *definitions) names() string {
	var names []string
	for _, m := range d.modules {
		names = append(names, "module "+m.name)
	}
	for _, s := range d.streams {
		names = append(names, s.spec.Name)
	}
	return strings.Join(names, " ")
}

const good = "streams: [{name: good, topics: [t], transform: m}]\n"

func TestCase40WhatIsBrokenInAFileIsToldWithItsLine(t *testing.T) {
	const stream = "streams:\n- name: s\n  topics: [t]\n  transform: m\n"
	for name, c := range map[string]struct{ file, text, told string }{
		"unknown option":             {"a.yaml", stream + "  bach_size: 7\n", `a.yaml:5: stream s: the key "bach_size" is not known there; did you mean batch_size?`},
		"unknown list":               {"a.yaml", "stream: []\n", `a.yaml:1: the key "stream" is not known there; did you mean streams?`},
		"unknown key of a module":    {"a.yaml", "modules:\n- name: m\n  path: m.wasm\n", `a.yaml:3: module m: the key "path" is not known there these are: name, file`},
		"two options":                {"a.yaml", stream + "  batchsize: 7\n  batch_size: many\n", "a.yaml:6: stream s: batch_size is an integer"},
		"no YAML":                    {"a.yaml", stream + "  allow: [schema\n", "a.yaml:5: it is no YAML: did not find"},
		"no node":                    {"a.yaml", stream + "  allow: [schema, ]]\n", "a.yaml:5: it is no YAML"},
		"far into a list":            {"a.yaml", "streams:\n" + strings.Repeat("- {name: s, topics: [t], transform: m}\n", 50) + "  - x\n", "a.yaml:52: it is no YAML"},
		"a quote without its end":    {"a.yaml", stream + "  database: \"x\n  coalesce: on\n", "a.yaml:5: it is no YAML"},
		"a colon too much":           {"a.yaml", stream + "  allow: a: b\n", "a.yaml:5: it is no YAML: mapping values"},
		"a tab":                      {"a.yaml", "streams:\n\t- name: s\n", "a.yaml:2: it is no YAML"},
		"a second document":          {"a.yaml", stream + "---\nstreams:\n- {name: t}\n", "a.yaml:7: stream t: topics: at least one topic is needed"},
		"a list":                     {"a.yaml", "- name: s\n", "a.yaml:1: a document is a map of streams and modules"},
		"a text":                     {"a.yaml", "hello\n", "a.yaml:1: a document is a map"},
		"streams of no list":         {"a.yaml", "streams: {name: s}\n", "a.yaml:1: streams: streams is a list"},
		"a stream of no map":         {"a.yaml", "streams: [s]\n", "a.yaml:1: stream: a stream is a map of its options"},
		"no name":                    {"a.yaml", "streams:\n- topics: [t]\n  transform: m\n", "a.yaml:2: stream : name: a name is needed"},
		"a bad name":                 {"a.yaml", "streams:\n- topics: [t]\n  transform: m\n  name: a b\n", "a.yaml:4: stream a b: name: "},
		"a key twice":                {"a.yaml", stream + "  name: t\n", `a.yaml:5: stream: the key "name" stands there twice`},
		"a hundred unknown options":  {"a.yaml", stream + manyKeys(100), "a.yaml:2: stream s: and 80 things more are wrong"},
		"a number that is none":      {"a.yaml", stream + "  batch_size: 1.5\n", "a.yaml:5: stream s: batch_size is an integer"},
		"a number too large":         {"a.yaml", stream + "  batch_size: 99999999999999999999\n", "a.yaml:5: stream s: batch_size is an integer"},
		"zero":                       {"a.yaml", stream + "  batch_size: 0\n", "a.yaml:5: stream s: batch_size is at least 1; leave it out"},
		"a number out of range":      {"a.yaml", stream + "  coalesce: on\n  batch_size: 9000000\n", "a.yaml:6: stream s: batch_size: 9000000 is outside"},
		"topics of no list":          {"a.yaml", "streams:\n- name: s\n  topics: t\n", "a.yaml:3: stream s: topics is a list, such as [a, b]"},
		"a list in a list":           {"a.yaml", "streams:\n- name: s\n  topics: [[t]]\n", "a.yaml:3: stream s: topics: each item is a text"},
		"an unknown state":           {"a.yaml", stream + "  state: paused\n", "a.yaml:5: stream s: state is running or stopped"},
		"a map that is a text":       {"a.yaml", stream + "  credentials: hunter2\n", "a.yaml:5: stream s: credentials is a map of texts"},
		"a map in a map":             {"a.yaml", stream + "  credentials:\n    sasl.password: {a: hunter2}\n", "a.yaml:6: stream s: credentials.sasl.password is a text"},
		"an entry without a value":   {"a.yaml", stream + "  settings:\n    a:\n", "a.yaml:6: stream s: settings.a has no value"},
		"what export does not tell":  {"a.yaml", stream + "  credentials:\n    sasl.username: u\n    sasl.password: '********'\n", `a.yaml:7: stream s: credentials: the value of "sasl.password" is ********`},
		"an alias of nothing":        {"a.yaml", stream + "  credentials: {sasl.password: *hunter2}\n", "a.yaml:5: an alias stands there (*NAME) for which there is no anchor; a text that begins with '*' has to stand in quotes"},
		"a map merged into itself":   {"a.yaml", "streams:\n- &a\n  name: s\n  <<: *a\n", "a.yaml:2: stream: maps are merged (<<) into each other"},
		"a merge of a text":          {"a.yaml", stream + "  <<: x\n", "a.yaml:5: stream: behind '<<' stands"},
		"aliases of aliases":         {"a.yaml", laughs("streams:\n- ", "  "), "the file has more than 200000 values"},
		"a list within itself":       {"a.yaml", "streams: &a [*a]\n", "a.yaml:1: stream: a stream is a map"},
		"a tag":                      {"a.yaml", "streams:\n- {name: s, topics: [t], transform: m, settings: {a: !!binary aHVudGVyMg==}}\n", "a.yaml:2: stream s: settings.a is a text"},
		"a module without a file":    {"a.yaml", "modules: [{name: m}]\n", "a.yaml:1: module m: it needs file"},
		"empty":                      {"a.yaml", "", "a.yaml: it is empty"},
		"white space":                {"a.cypher", " \n\t\n", "a.cypher: it is empty"},
		"a comment":                  {"a.yaml", "# nothing\n", "a.yaml: no definition is in it"},
		"a comment of statements":    {"a.cypher", "// nothing\n", "a.cypher: no statement is in it"},
		"no text":                    {"a.yaml", "\x00\xff\xfe", "a.yaml: it is no text in UTF-8"},
		"control characters":         {"a.yml", "streams:\x01", "a.yml:1: it is no YAML: control characters"},
		"huge":                       {"a.yaml", strings.Repeat("# hunter2\n", 420_000), "a.yaml: it has more than 4096 KiB"},
		"a statement that is none":   {"a.cypher", "CREATE KAFKA STREAM a TOPICS t TRANSFORM m;\n\nCREATE KAFKA STREM b;", `a.cypher:3: found "STREM"`},
		"another statement":          {"a.cypher", "\nDROP STREAM s;\n", "a.cypher:2: DROP STREAM: apply takes CREATE KAFKA STREAM, CREATE PULSAR STREAM and START STREAM"},
		"a parameter":                {"a.cypher", "CREATE KAFKA STREAM a TOPICS $t TRANSFORM m;\n", "a.cypher:1: Parameter $t not provided."},
		"an option that is not yet":  {"a.cypher", "CREATE KAFKA STREAM a TOPICS t TRANSFORM m\n  PARALLELISM 2;\n", "a.cypher:2: PARALLELISM is not available yet"},
		"a start of what is not":     {"a.cypher", "CREATE KAFKA STREAM a TOPICS t TRANSFORM m;\nSTART STREAM b;\n", "a.cypher:2: START STREAM b: the stream is not created in this file before it"},
		"a start with a limit":       {"a.cypher", "CREATE KAFKA STREAM a TOPICS t TRANSFORM m;\nSTART STREAM a BATCH_LIMIT 1;\n", "a.cypher:2: START STREAM a: apply takes no BATCH_LIMIT"},
		"a start of all":             {"a.cypher", "START ALL STREAMS;\n", "a.cypher:1: START ALL STREAMS: apply takes"},
		"a definition out of range":  {"a.cypher", "CREATE KAFKA STREAM a TOPICS t TRANSFORM m BATCH_SIZE 9000000;\n", "a.cypher:1: stream a: batch_size: 9000000 is outside"},
		"what is defined elsewhere":  {"a.yaml", "streams: [{name: good, topics: [t], transform: m}]\n", "a.yaml:1"},
		"a module with a wrong name": {"a b.wasm", "x", `a b.wasm: module: name: the name "a b" holds ' '`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{c.file: c.text, "b.yaml": good})
			d, told := readFolder(t, dir)
			require.Contains(t, told, c.told)
			require.NotContains(t, told, "hunter2")
			if name != "what is defined elsewhere" {
				require.Contains(t, d.names(), "good", "the others are applied")
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

// laughs is a document whose aliases stand for more than a billion values.
func laughs(before, indent string) string {
	var b strings.Builder
	b.WriteString(before + "&a0 {name: s}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "- &a%d {<<: [%s]}\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.String()
}

func TestAStreamThatTwoFilesDefineIsToldWithBothPlaces(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.yaml":   good,
		"b.cypher": "CREATE KAFKA STREAM other TOPICS t TRANSFORM m;\nCREATE KAFKA STREAM good TOPICS t TRANSFORM m;\n",
		"c.yaml":   "modules:\n- {name: m, file: x.wasm}\n- {name: m, file: y.wasm}\n" + good,
	})
	d, told := readFolder(t, dir)
	require.Equal(t, "other", d.names(), "which is meant is not known")
	require.Contains(t, told, "b.cypher:2: stream good: it is defined twice, at a.yaml:1 too")
	require.Contains(t, told, "c.yaml:3: module m: it is defined twice, at c.yaml:2 too")
	require.Contains(t, told, "c.yaml:4: stream good: it is defined twice")
	require.Len(t, d.streamsNamed, 2)
}

func TestFoldersAreReadWithoutWhatIsNoDefinition(t *testing.T) {
	dir := folder(t, map[string]string{
		"b.yaml": "modules: [{name: named, file: ./file.wasm}]\n", "a.yml": good, "README.md": "# hunter2", ".#a.yml": "x: y",
		settingsFile: "server: x\n", "file.wasm": "x", "movies.wasm": "x",
	})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "more.yaml"), 0o700))
	d, told := readFolder(t, dir)
	require.Equal(t, "module named module movies good", d.names(), "a file that a definition names is no module of its own")
	require.Equal(t, settingsFile+" is a file of settings, and holds no definitions: it is left out\n", told)
}

func TestLinksAndPipesInAFolder(t *testing.T) {
	outside := folder(t, map[string]string{"secret.yaml": good, "m.wasm": "x"})
	dir := folder(t, map[string]string{"real": good, "modules.yaml": "modules:\n- {name: m, file: " + filepath.Join(outside, "m.wasm") + "}\n- {name: n, file: ../n.wasm}\n- {name: o, file: link.wasm}\n"})
	for name, to := range map[string]string{"inside.yaml": "real", "out.yaml": filepath.Join(outside, "secret.yaml"), "loop.yaml": "loop.yaml", "dangling.yaml": "nowhere", "link.wasm": filepath.Join(outside, "m.wasm")} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	d, told := readFolder(t, dir)
	for _, want := range []string{
		"out.yaml: it lies, or its link leads, outside of the folder", "link.wasm: it lies, or its link leads, outside", "loop.yaml: too many levels of symbolic links",
		"dangling.yaml: no such file", "pipe.yaml: it is no regular file",
	} {
		require.Contains(t, told, want)
	}
	require.Equal(t, "module m module n module o good", d.names())
	for _, m := range d.modules {
		_, _, err := m.sum()
		require.ErrorContains(t, err, "outside of the folder", m.name)
	}
}

func TestWhatYAMLMeans(t *testing.T) {
	dir := folder(t, map[string]string{"a.yaml": `
streams:
  - &base
    name: 7
    topics: [a, "b"]
    transform: m.f
    coalesce: off
    batch_size: 0x10
    start_from: 2026-01-31T12:00:00Z
    database: ~
    settings: {limit: 1.10, flag: yes, text: "null"}
    configs: {session.timeout.ms: 6000}
    state: stopped
---
streams:
  - name: t
    topics: [a]
    transform: m.f
    state:
---
modules:
`, "b.yaml": "streams:\n- &a {name: u, topics: [t], transform: m, state: running, settings: {a: 'b'}}\n- {<<: *a, name: v, state: stopped}\n- {<<: [{batch_size: 1, name: x}, *a], name: w}\n"})
	d, told := readFolder(t, dir)
	require.Empty(t, told)
	require.Equal(t, "7 t u v w", d.names())
	require.Equal(t, graphmill.StreamSpec{
		Name: "7", Topics: []string{"a", "b"}, Transform: "m.f", Coalesce: "off", BatchSize: 16, StartFrom: "2026-01-31T12:00:00Z",
		Settings: map[string]string{"limit": "1.10", "flag": "yes", "text": "null"}, Configs: map[string]string{"session.timeout.ms": "6000"},
	}, d.streams[0].spec)
	require.Equal(t, graphmill.StateStopped, d.streams[0].state)
	require.Equal(t, graphmill.State(""), d.streams[1].state)
	require.Equal(t, graphmill.StateStopped, d.streams[3].state, "what a map says itself goes before what is merged into it")
	require.Equal(t, map[string]string{"a": "b"}, d.streams[4].spec.Settings)
	require.Equal(t, 1, d.streams[4].spec.BatchSize)
}

func TestStatementsOfAFileAreDefinitions(t *testing.T) {
	dir := folder(t, map[string]string{"a.cypher": "// ours; or Memgraph's\nCREATE KAFKA STREAM a TOPICS t TRANSFORM m.f BATCH_SIZE 7;\nCREATE KAFKA STREAM b TOPICS 't;u' TRANSFORM m\n  CREDENTIALS {'sasl.password': 'secret:x'};\nSTART STREAM b"})
	d, told := readFolder(t, dir)
	require.Contains(t, told, "a.cypher:3: stream b: topics: ", "a semicolon in a string ends nothing")
	require.Equal(t, "a", d.names())
	require.Equal(t, "mg_consumer", d.streams[0].spec.ConsumerGroup, "as the statement has it")
	require.Equal(t, graphmill.State(""), d.streams[0].state)

	d, told = readFolder(t, folder(t, map[string]string{"a.cypher": "CREATE KAFKA STREAM b TOPICS t TRANSFORM m; START STREAM b;"}))
	require.Empty(t, told)
	require.Equal(t, graphmill.StateRunning, d.streams[0].state)
}

func TestEveryOptionCanStandInAFile(t *testing.T) {
	var spec graphmill.StreamSpec
	for name, field := range optionFields(&spec) {
		switch field := field.(type) {
		case *string:
			*field = "x"
		case *int:
			*field = 7
		case *int64:
			*field = 7
		case *[]string:
			*field = []string{"x"}
		case *map[string]string:
			*field = map[string]string{"a": "b"}
		default:
			require.Fail(t, "an option that YAML cannot give", "%s: %T", name, field)
		}
	}
	options, err := optionsOf(spec)
	require.NoError(t, err)
	require.Len(t, options, len(optionNames))
	for name := range options {
		require.Contains(t, optionNames, name, "REST and YAML name options alike")
	}
}

func TestTheExamplesOfTheDocumentationAreRight(t *testing.T) {
	text, err := os.ReadFile("../../docs/apply.md")
	require.NoError(t, err)
	files := map[string]string{}
	for i, block := range regexp.MustCompile("(?s)```(yaml|cypher)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[fmt.Sprintf("%d.%s", i, block[1])] = block[2]
	}
	d, told := readFolder(t, folder(t, files))
	require.Empty(t, told)
	require.Equal(t, "module movies ratings clicks ratings-eu ratings-us views", d.names())
}

func TestStandardInputIsYAMLOrStatements(t *testing.T) {
	const create = "CREATE KAFKA STREAM good TOPICS t TRANSFORM m.f;\n"
	for _, text := range []string{good, "# yaml\n" + good, create, strings.ToLower(create), "\n // moved\n" + create, "/* moved */ " + create, "CREATE\n  KAFKA STREAM good TOPICS t TRANSFORM m.f;"} {
		a := &app{in: strings.NewReader(text), err: io.Discard}
		d, err := a.readDefinitions(t.Context(), []string{"-"})
		require.NoError(t, err)
		require.Empty(t, d.broken, text)
		require.Equal(t, "good", d.names(), text)
		d.close()
	}
}

func TestAModuleFileIsNoModuleOfItsOwnWhereItsDefinitionIsBroken(t *testing.T) {
	for name, yaml := range map[string]string{
		"a key that is not known":   "modules: [{name: movies, file: one.wasm, sha_256: 00}]\n",
		"a bad name":                "modules: [{name: a b, file: one.wasm}]\n",
		"no name":                   "modules: [{file: ./one.wasm}]\n",
		"the second of two":         "modules: [{name: m, file: other.wasm}, {name: m, file: one.wasm}]\n",
		"a file that is no YAML":    "modules: [{name: movies, file: one.wasm, sha256: 00}]\nstreams: [\n",
		"a file of no text":         "modules: [{name: movies, file: [one.wasm]}]\n",
		"a list of another name":    "module: [{name: movies, file: one.wasm}]\n",
		"modules of no list":        "modules: {name: movies, file: one.wasm}\n",
		"a document that is a list": "[{modules: {name: movies, file: one.wasm}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d, told := readFolder(t, folder(t, map[string]string{"a.yaml": yaml, "one.wasm": "x", "other.wasm": "x"}))
			require.NotContains(t, d.names(), "module one", told)
			require.NotEmpty(t, d.broken)
		})
	}
	d, told := readFolder(t, folder(t, map[string]string{"a.yaml": good + "modules: [{name: m, file: x.wasm, path: x}]\n", "b.cypher": "CREATE", "c.yaml": " ", "one.wasm": "x", "x.wasm": "x"}))
	require.Equal(t, "module one good", d.names(), told)
}
