//go:build e2e

package integration_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// goModules returns the plugin movies so many times, each with a label of its
// own in its query: modules made by Go that have nothing in common for a cache.
func goModules(t *testing.T, n int) [][]byte {
	t.Helper()
	movies, err := os.ReadFile(pluginPath("movies"))
	require.NoError(t, err)
	const label = "(u:User {id"
	require.Equal(t, 1, bytes.Count(movies, []byte(label)))
	all := make([][]byte, n)
	for i := range all {
		all[i] = bytes.Replace(movies, []byte(label), fmt.Appendf(nil, "(u:Us%02d {id", i), 1)
	}
	return all
}

// compiledFiles returns when each file of the cache was written.
func (p *program) compiledFiles() map[string]time.Time {
	p.t.Helper()
	written := map[string]time.Time{}
	require.NoError(p.t, filepath.WalkDir(filepath.Join(p.dir, "cache", "wasm"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			written[path] = info.ModTime()
		}
		return err
	}))
	return written
}

// memory returns what the program takes and has taken at most, as Linux tells.
func (p *program) memory() string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	var found []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") || strings.HasPrefix(line, "VmRSS:") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(found, ", ")
}

func TestCase29GoModulesAreUploadedAtOnceAndNotCompiledAgainAtARestart(t *testing.T) {
	modules := goModules(t, sized(4, 20))
	topic := topicOf(t, 1)
	p := serve(t)
	running := func() {
		for i := range modules {
			p.await(fmt.Sprintf("s%d", i), "it runs", inState(graphmill.StateRunning))
		}
	}
	began := time.Now()
	var uploads sync.WaitGroup
	for i, m := range modules {
		uploads.Go(func() {
			status, answer := p.call("PUT", fmt.Sprintf("/api/v1/modules/m%d", i), m, nil)
			assert.Equal(t, 201, status, answer)
		})
	}
	uploads.Wait()
	t.Logf("%d uploads at once: %s, %s", len(modules), time.Since(began).Round(time.Millisecond), p.memory())
	for i := range modules {
		name := fmt.Sprintf("s%d", i)
		p.do("POST", "/streams", map[string]any{"name": name, "topics": []string{topic}, "transform": fmt.Sprintf("m%d", i)}, nil)
		p.do("POST", "/streams/"+name+":start", nil, nil)
	}
	running()
	p.do("GET", "/modules", nil, nil) // waits until the ready ones, too, are compiled
	before := p.compiledFiles()
	require.GreaterOrEqual(t, len(before), len(modules))

	p.terminate()
	began = time.Now()
	p.start()
	running()
	t.Logf("a restart until %d streams run: %s, %s", len(modules), time.Since(began).Round(time.Millisecond), p.memory())
	require.Equal(t, before, p.compiledFiles(), "nothing is compiled again")
}

// Each version of the module writes a label of its own by CREATE, so that the
// graph tells which version each message met, and how often.
func TestCase30KafkaModulesAreSwappedUnderLoad(t *testing.T) {
	versions := 1 + sized(3, 10)
	fickle, err := os.ReadFile(filepath.Join(world.dir, "fickle.wasm"))
	require.NoError(t, err)
	const written = "(:Message {payload"
	require.Equal(t, 1, bytes.Count(fickle, []byte(written)))
	topic := topicOf(t, 1)
	p := serve(t)
	var work *load
	for v := 1; v <= versions; v++ {
		version := bytes.Replace(fickle, []byte(written), fmt.Appendf(nil, "(:Versi%02d {payload", v), 1)
		p.do("PUT", "/modules/swapped", version, nil)
		if v == 1 {
			p.do("POST", "/streams", map[string]any{
				"name": "swap", "topics": []string{topic}, "start_from": "earliest", "transform": "swapped.transform", "batch_size": 500,
			}, nil)
			p.do("POST", "/streams/swap:start", nil, nil)
			work = startLoad(t, onKafka().feed(t, "swap", topic, ""))
		}
		pushed := p.status("swap").Counters.Messages
		p.await("swap", fmt.Sprintf("version %d has been at work for a while", v), func(s graphmill.StreamStatus) bool {
			return s.Module != nil && s.Module.Version == v && s.Counters.Messages > pushed+2000
		})
	}
	n := work.stop()
	s := p.awaitDone("swap", 1)
	require.Zero(t, s.Counters.Failures)

	next := int64(0)
	for v := 1; v <= versions; v++ {
		label := fmt.Sprintf("Versi%02d", v)
		first, last := askOne(t, "MATCH (m:"+label+") RETURN min(m.offset)"), askOne(t, "MATCH (m:"+label+") RETURN max(m.offset)")
		require.Equal(t, next, first, "version %d begins where the one before it has ended", v)
		require.Equal(t, last-first+1, askOne(t, "MATCH (m:"+label+") RETURN count(m)"), "version %d", v)
		require.Equal(t, last-first+1, askOne(t, "MATCH (m:"+label+") RETURN count(DISTINCT m.offset)"), "version %d", v)
		t.Logf("version %d: offsets %d to %d", v, first, last)
		next = last + 1
	}
	require.EqualValues(t, n, next, "nothing is lost or doubled")
}
