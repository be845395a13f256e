package server_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// runningOn makes and starts a stream for each module, on the world's topic.
func (w *world) runningOn(s *server.Server, modules ...string) {
	w.t.Helper()
	for _, m := range modules {
		w.create(s, func(spec *graphmill.StreamSpec) { spec.Name, spec.Transform = "on-"+m, m })
		_, err := s.StartStream(w.t.Context(), "on-"+m, server.StartRequest{})
		require.NoError(w.t, err)
	}
}

// awaitStates waits until each stream is in its state.
func (w *world) awaitStates(s *server.Server, states map[string]graphmill.State) {
	w.t.Helper()
	var now map[string]graphmill.State
	require.Eventually(w.t, func() bool {
		now = map[string]graphmill.State{}
		streams, err := s.Streams(w.t.Context())
		require.NoError(w.t, err)
		for _, st := range streams {
			now[st.Spec.Name] = st.State
		}
		return assert.ObjectsAreEqual(states, now)
	}, patience, 10*time.Millisecond, "wanted %v, have %v", &states, &now)
}

// compiled returns when each file of the cache of compiled modules was written.
func compiled(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	written := map[string]time.Time{}
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "cache", "wasm"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		written[path] = info.ModTime()
		return err
	}))
	return written
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return all
}

func TestCase29ARestartCompilesNothingAgain(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	modules := names("m", 20)
	states := map[string]graphmill.State{}
	for i, m := range modules {
		w.pushAs(s, m, vigilantVersion(i))
		states["on-"+m] = graphmill.StateRunning
	}
	w.runningOn(s, modules...)
	before := compiled(t, w.dir)
	require.GreaterOrEqual(t, len(before), 20)

	w.close(s)
	s = w.open(nil)
	w.awaitStates(s, states)
	require.Equal(t, before, compiled(t, w.dir))

	// Without its cache a server compiles, and says nothing of it.
	w.close(s)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "cache")))
	s = w.open(nil)
	w.awaitStates(s, states)
	require.Len(t, compiled(t, w.dir), len(before))
	w.produce("a")
	require.Eventually(t, func() bool { return len(w.applied()) == len(modules) }, patience, 10*time.Millisecond)
}

func TestModulesThatAreGoneOrDamagedAtARestartAreTold(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	for i, m := range []string{"gone", "cut", "changed", "sound"} {
		w.pushAs(s, m, vigilantVersion(i))
	}
	w.runningOn(s, "gone", "cut", "changed", "sound")
	file := func(module string) string {
		versions, err := s.ModuleVersions(t.Context(), module)
		require.NoError(t, err)
		return filepath.Join(w.dir, "modules", versions[0].SHA256+".wasm")
	}
	gone, cut, changed := file("gone"), file("cut"), file("changed")
	w.close(s)
	require.NoError(t, os.Remove(gone))
	require.NoError(t, os.Truncate(cut, 100))
	bytes, err := os.ReadFile(changed)
	require.NoError(t, err)
	bytes[len(bytes)-1] ^= 1
	require.NoError(t, os.WriteFile(changed, bytes, 0o600))

	s = w.open(nil)
	for _, m := range []string{"gone", "cut"} {
		told := w.log.with("module=" + m + " ")
		told = told[len(told)-1:]
		require.Contains(t, told[0], "gone from the data directory, or damaged")
		require.Contains(t, told[0], "graphmill module push "+m+" FILE")
	}
	w.awaitStates(s, map[string]graphmill.State{
		"on-gone": graphmill.StateFailed, "on-cut": graphmill.StateFailed, "on-changed": graphmill.StateFailed, "on-sound": graphmill.StateRunning,
	})
	for m, code := range map[string]string{"gone": "module_bytes_lost", "cut": "module_bytes_damaged", "changed": "module_bytes_damaged"} {
		info, err := s.Stream(t.Context(), "on-"+m)
		require.NoError(t, err)
		require.Equal(t, code, info.Reason.Code)
		require.Contains(t, info.Reason.NextStep, "graphmill module push "+m+" FILE; then: graphmill stream start on-"+m)
	}
}

func TestAFolderOfModulesThatIsGoneAtARestart(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.create(s, nil)
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 1)
	w.close(s)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "modules")))

	s = w.open(nil)
	failed := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "module_bytes_lost", failed.Reason.Code)
	require.Len(t, w.log.with("put the folder modules back from a backup, or push the same file again: graphmill module push obedient FILE"), 1)
	w.produce("b")

	// The advice is good.
	again := w.pushAs(s, "obedient", vigilantVersion(1))
	require.False(t, again.Created)
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"a", "b"}, w.applied())
}

func TestCase40ABrokenModuleEntryLeavesTheOthersAlone(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "broken", vigilantVersion(1))
	w.pushAs(s, "sound", vigilantVersion(2))
	w.runningOn(s, "broken", "sound")
	w.close(s)
	db, err := bbolt.Open(filepath.Join(w.dir, "catalog.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("modules")).Put([]byte("broken"), []byte(`{"active":1,`))
	}))
	require.NoError(t, db.Close())

	// A ready module of the name must not do the work of the broken one.
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "broken.wasm"), obedient, 0o600))
	s = w.open(func(c *server.Config) { c.PluginsDir = plugins })
	require.Len(t, w.log.with("an entry of the catalog cannot be read"), 1)
	w.awaitStates(s, map[string]graphmill.State{"on-broken": graphmill.StateFailed, "on-sound": graphmill.StateRunning})
	info, err := s.Stream(t.Context(), "on-broken")
	require.NoError(t, err)
	require.Equal(t, "entry_broken", info.Reason.Code)
	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Len(t, modules, 1)
	require.Equal(t, "sound", modules[0].Name)
	_, err = s.RollbackModule(t.Context(), "broken", 1)
	requireCode(t, err, "entry_broken")

	require.NoError(t, s.DeleteModule(t.Context(), "broken"), "as its reason advises, although a stream uses it")
	w.pushAs(s, "broken", vigilantVersion(1))
	_, err = s.StartStream(t.Context(), "on-broken", server.StartRequest{})
	require.NoError(t, err)
}

// expected makes sure that an error is nil or one that a user can meet here.
func expected(t *testing.T, err error, codes ...string) {
	t.Helper()
	var e *graphmill.Error
	if err != nil && assert.True(t, errors.As(err, &e), "%v", err) {
		assert.Contains(t, codes, e.Code, "%v", err)
	}
}

func TestRemovingAModuleRacesWithAllElse(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	var all sync.WaitGroup
	repeat := func(f func(i int)) {
		all.Go(func() {
			for i := range 40 {
				f(i)
			}
		})
	}
	ctx := t.Context()
	repeat(func(i int) {
		_, err := s.PushModule(ctx, server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: vigilantVersion(i % 3), NoActivate: i%2 == 0})
		expected(t, err)
	})
	repeat(func(i int) {
		expected(t, s.DeleteModule(ctx, "obedient"), "module_not_found", "module_in_use")
	})
	repeat(func(i int) {
		expected(t, s.DeleteModuleVersion(ctx, "obedient", 1+i%3), "module_not_found", "version_not_found", "version_active", "module_in_use")
	})
	repeat(func(i int) {
		_, err := s.RollbackModule(ctx, "obedient", i%3)
		expected(t, err, "module_not_found", "version_not_found", "no_earlier_version")
	})
	repeat(func(i int) {
		_, err := s.RunTransformation(ctx, server.RunRequest{Module: "obedient", Function: "transform"})
		expected(t, err, "module_not_found")
	})
	repeat(func(i int) {
		spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient", StartFrom: graphmill.StartEarliest, BatchIntervalMS: 5}
		_, err := s.CreateStream(ctx, server.CreateRequest{Spec: spec, Check: false})
		expected(t, err)
		_, err = s.StartStream(ctx, "s", server.StartRequest{})
		expected(t, err, "module_not_found")
		expected(t, s.DeleteStream(ctx, "s", server.DeleteRequest{}))
	})
	all.Wait()

	// What is left is whole: each version has its bytes, and no file is left over.
	files, err := os.ReadDir(filepath.Join(w.dir, "modules"))
	require.NoError(t, err)
	sums := map[string]bool{}
	versions, err := s.ModuleVersions(ctx, "obedient")
	if err != nil {
		requireCode(t, err, "module_not_found")
	}
	for _, m := range versions {
		sums[m.SHA256+".wasm"] = true
	}
	require.Len(t, files, len(sums))
	for _, f := range files {
		require.True(t, sums[f.Name()], f.Name())
	}
	w.pushAs(s, "obedient", vigilantVersion(7))
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
}

// machineCode is how much memory of this process holds code made at run time, in
// bytes: pieces that lie side by side may be listed as one. wazero gives it back
// when Go's collector comes by.
func machineCode(t *testing.T) (size int) {
	t.Helper()
	runtime.GC()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); len(fields) == 5 && strings.Contains(fields[1], "x") { // no file behind it
			var from, to int
			_, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to)
			require.NoError(t, err)
			size += to - from
		}
	}
	return size
}

func TestStreamsOfOneModuleShareItsMachineCode(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks at /proc")
	}
	if inProcessOfItsOwn(t) {
		return
	}
	w := newLoneWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	has := func(size int, why string) {
		t.Helper()
		require.Eventually(t, func() bool { return machineCode(t) == size }, patience, 10*time.Millisecond, why)
	}
	none := machineCode(t)
	w.pushAs(s, "obedient", vigilantVersion(1))
	has(none, "a push keeps none")
	streams := names("s", 20)
	for _, name := range streams {
		w.create(s, func(spec *graphmill.StreamSpec) { spec.Name = name })
	}
	startAll := func(names []string) {
		for _, name := range names {
			_, err := s.StartStream(t.Context(), name, server.StartRequest{})
			require.NoError(t, err)
		}
	}
	startAll(streams[:1])
	ofOne := machineCode(t)
	require.Greater(t, ofOne, none)
	startAll(streams[1:])
	has(ofOne, "twenty streams have what one has")
	for range 2 {
		for _, name := range streams {
			_, err := s.StopStream(t.Context(), name)
			require.NoError(t, err)
		}
		has(none, "the last one gives it back")
		startAll(streams)
		has(ofOne, "however often they start")
	}
}
