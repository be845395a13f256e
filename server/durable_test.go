package server_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// killed is the data directory as a kill at this moment would leave it.
func (w *world) killed() string {
	w.t.Helper()
	dir := w.t.TempDir()
	from, err := os.Open(filepath.Join(w.dir, "catalog.db"))
	require.NoError(w.t, err)
	defer from.Close()
	to, err := os.Create(filepath.Join(dir, "catalog.db"))
	require.NoError(w.t, err)
	_, err = io.Copy(to, from)
	require.NoError(w.t, err)
	require.NoError(w.t, to.Close())
	require.NoError(w.t, os.CopyFS(filepath.Join(dir, "modules"), os.DirFS(filepath.Join(w.dir, "modules"))))
	return dir
}

func TestWhatWasAskedForOutlivesAKillInTheMiddleOfIt(t *testing.T) {
	t.Run("a STOP that is finishing batches", func(t *testing.T) {
		w, s, release := hanging(t, nil)
		stopped := begun(stop(s))
		w.awaitState(s, graphmill.StateDraining)
		again := w.open(func(c *server.Config) { c.DataDir = w.killed() })
		require.Equal(t, graphmill.StateStopped, w.status(again).State)
		require.Equal(t, graphmill.StateStopped, w.status(again).Desired)
		release()
		require.NoError(t, <-stopped)
	})
	t.Run("a START that waits", func(t *testing.T) {
		w, s, started := waitingForTopic(t)
		again := w.open(func(c *server.Config) { c.DataDir = w.killed() })
		require.Equal(t, graphmill.StateRunning, w.status(again).Desired)
		require.NoError(t, stop(s)())
		<-started
	})
}

func TestAKillInTheMiddleOfALimitedStartOrAChange(t *testing.T) {
	t.Run("a limited START is not gone on with", func(t *testing.T) {
		w, s := limited(t)
		held := make(chan struct{})
		w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held}))
		w.produce("a", "b", "c", "d")
		_, errs := startLimited(t.Context(), s, server.StartRequest{BatchLimit: 2, Timeout: patience})
		w.awaitExecuting(s)
		again := w.open(func(c *server.Config) { c.DataDir = w.killed() })
		require.Equal(t, graphmill.StateStopped, w.status(again).State)
		require.Equal(t, graphmill.StateStopped, w.status(again).Desired)
		close(held)
		require.NoError(t, <-errs)
	})
	t.Run("a change that waits for a batch was not made", func(t *testing.T) {
		w, s, release := hanging(t, nil)
		w.seedTopic("second", "old")
		changed := begun(func() error {
			_, err := patch(s, `{"topics":["topic","second"],"batch_size":1}`, "latest")
			return err
		})
		w.awaitState(s, graphmill.StateDraining)
		dir := w.killed()
		release()
		require.NoError(t, <-changed)
		w.produceRecords(&kgo.Record{Topic: "second", Value: []byte("new")})
		w.await(s, "all is done", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 2 && lag(st) == 0 })
		require.NoError(t, stop(s)())
		w.close(s)

		// The group is further than the catalog: nothing is read again, and the
		// change can be made again.
		again := w.open(func(c *server.Config) { c.DataDir = dir })
		st := w.awaitState(again, graphmill.StateRunning)
		require.Len(t, st.Partitions, 1)
		w.patched(again, `{"topics":["topic","second"]}`, "committed")
		w.produce("c")
		w.await(again, "all is done", func(st graphmill.StreamStatus) bool {
			return len(st.Partitions) == 2 && lag(st) == 0 && st.CurrentBatch == nil
		})
		require.Equal(t, []string{"a", "b", "new", "c"}, w.applied())
	})
}

// inProcessOfItsOwn runs the rest of the calling test in a process of its own,
// and says that it has: what it does to the process would break go test's own
// files.
func inProcessOfItsOwn(t *testing.T) (done bool) {
	t.Helper()
	const mark = "GRAPHMILL_TEST_ALONE"
	if os.Getenv(mark) == t.Name() {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS")
	return true
}

// fullDisk lets no file of this process grow or change until it is mended.
func fullDisk(t *testing.T) (mend func()) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	full := before
	full.Cur = 1
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	mend = sync.OnceFunc(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) })
	t.Cleanup(mend)
	return mend
}

func TestAFullDisk(t *testing.T) {
	if inProcessOfItsOwn(t) {
		return
	}
	t.Run("STOP ends the run and says that it was not stored", func(t *testing.T) {
		w := newLoneWorld(t, 1, boltserver.Options{})
		s := w.open(nil)
		w.push(s)
		w.create(s, nil)
		w.produce("a")
		w.start(s)
		w.awaitAcknowledged(s, 1)
		mend := fullDisk(t)
		_, err := s.StopStream(t.Context(), "s")
		requireCode(t, err, "not_stored")
		require.Len(t, w.log.with("the stop of the stream could not be stored"), 1, "the log tells why")
		st := w.status(s)
		require.Equal(t, graphmill.StateStopped, st.State, "STOP is a cure, so it is done all the same")
		require.Equal(t, graphmill.StateRunning, st.Desired, "what is stored")
		mend()
		_, err = s.StopStream(t.Context(), "s")
		require.NoError(t, err, "it can be stored later")
		w.close(s)
		s = w.open(nil)
		require.Equal(t, graphmill.StateStopped, w.status(s).State)
	})
	t.Run("START starts nothing", func(t *testing.T) {
		w := newLoneWorld(t, 1, boltserver.Options{})
		s := w.open(nil)
		w.push(s)
		w.create(s, nil)
		mend := fullDisk(t)
		_, err := s.StartStream(t.Context(), "s", server.StartRequest{})
		require.Equal(t, graphmill.KindInternal, graphmill.KindOf(err), "%v", err)
		require.Equal(t, graphmill.StateStopped, w.status(s).State)
		mend()
		w.start(s)
	})
	t.Run("DROP drops nothing, and the stream goes on", func(t *testing.T) {
		w := newLoneWorld(t, 1, boltserver.Options{})
		s := w.open(nil)
		w.push(s)
		w.create(s, nil)
		w.start(s)
		mend := fullDisk(t)
		require.Equal(t, graphmill.KindInternal, graphmill.KindOf(s.DeleteStream(t.Context(), "s", server.DeleteRequest{})))
		w.awaitState(s, graphmill.StateRunning)
		mend()
		w.produce("a")
		w.awaitAcknowledged(s, 1)
		require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
		_, err := s.Stream(t.Context(), "s")
		requireCode(t, err, "stream_not_found")
	})
	t.Run("a failure is told although it cannot be stored", func(t *testing.T) {
		w := newLoneWorld(t, 1, boltserver.Options{})
		held := make(chan struct{})
		w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held}))
		s := w.open(nil)
		w.push(s)
		w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 1 })
		w.produce("a", "fail")
		w.start(s)
		w.awaitExecuting(s)
		mend := fullDisk(t)
		close(held)
		w.awaitState(s, graphmill.StateFailed)
		mend()
		require.NoError(t, stop(s)())
		require.Equal(t, graphmill.StateStopped, w.status(s).State)
	})
}

// A server is killed before its stream has carried a message, and started again
// when the broker has forgotten the group's commits and the topic has been given
// another partition. What came meanwhile is read from both.
func TestAKillBeforeTheFirstMessageLosesNothingThoughTheCommitsExpire(t *testing.T) {
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprintf("one position is set by hand in between: %v", moved), func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			w.create(s, func(spec *graphmill.StreamSpec) { spec.StartFrom = graphmill.StartLatest })
			w.produce("before")
			w.start(s)
			dir := w.killed()
			require.NoError(t, stop(s)())
			if moved {
				dir = w.killed() // else the next server starts it at once
			}
			w.close(s)

			forgotten, err := w.admin.DeleteGroups(t.Context(), "graphmill.s")
			require.NoError(t, err)
			require.NoError(t, forgotten.Error())
			_, err = w.admin.CreatePartitions(t.Context(), 1, "topic")
			require.NoError(t, err)
			w.produceRecords(&kgo.Record{Topic: "topic", Partition: 0, Value: []byte("a")}, &kgo.Record{Topic: "topic", Partition: 1, Value: []byte("b")})

			again := w.open(func(c *server.Config) { c.DataDir = dir })
			want := []string{"a", "b"}
			if moved {
				_, err := w.setOffsets(again, "latest", &graphmill.TopicPartition{Topic: "topic"})
				require.NoError(t, err)
				w.start(again)
				want = want[1:]
			}
			w.await(again, "all is done", func(st graphmill.StreamStatus) bool {
				return len(st.Partitions) == 2 && lag(st) == 0 && st.CurrentBatch == nil
			})
			require.ElementsMatch(t, want, w.applied())
		})
	}
}

// A topic that does not exist yet is created, and written to, while the server is
// restarted: it is read from its beginning all the same.
func TestATopicThatIsCreatedWhileTheServerIsAwayIsReadFromItsBeginning(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.StartTimeout = 100 * time.Millisecond })
	w.push(s)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"later"}, Transform: "obedient", StartFrom: graphmill.StartLatest, BatchIntervalMS: 20}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	require.NoError(t, err)
	_, _ = s.StartStream(t.Context(), "s", server.StartRequest{}) // it waits
	w.await(s, "it waits", func(st graphmill.StreamStatus) bool {
		return st.Reason != nil && st.Reason.Code == "topic_absent" && len(st.Partitions) == 1
	})
	dir := w.killed()
	w.close(s)

	_, err = w.admin.CreateTopic(t.Context(), 2, 1, nil, "later")
	require.NoError(t, err)
	w.produceRecords(&kgo.Record{Topic: "later", Partition: 0, Value: []byte("a")}, &kgo.Record{Topic: "later", Partition: 1, Value: []byte("b")})
	again := w.open(func(c *server.Config) { c.DataDir = dir })
	w.await(again, "all is done", func(st graphmill.StreamStatus) bool {
		return len(st.Partitions) == 2 && lag(st) == 0 && st.CurrentBatch == nil
	})
	require.ElementsMatch(t, []string{"a", "b"}, w.applied())
}
