package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestAStormOfCommandsLeavesWhatWasAskedForLast(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	names := []string{"s0", "s1", "s2", "s3", "s4"}
	create := func(name string) error {
		_, err := s.CreateStream(context.Background(), server.CreateRequest{Spec: graphmill.StreamSpec{
			Name: name, Topics: []string{"topic"}, Transform: "obedient", StartFrom: graphmill.StartEarliest, BatchSize: 3, BatchIntervalMS: 5,
		}, Check: rand.IntN(2) == 0})
		return err
	}
	for _, name := range names {
		require.NoError(t, create(name))
	}
	expected := []string{"already_running", "already_stopped", "stopped_meanwhile", "stream_not_found", "stream_exists", "stream_running",
		"start_timeout", "limited_start", "group_active"}
	allowed := func(what string, err error) {
		var e *graphmill.Error
		if err != nil && assert.ErrorAs(t, err, &e, what) {
			assert.Contains(t, expected, e.Code, "%s: %v", what, err)
		}
	}
	over, end := context.WithTimeout(t.Context(), stormTime(t))
	defer end()
	var wg sync.WaitGroup
	wg.Go(func() {
		for over.Err() == nil {
			w.produce("a", "drop", "b")
			pauseFor(over, 5*time.Millisecond)
		}
	})
	for range 8 {
		wg.Go(func() {
			for over.Err() == nil {
				name := names[rand.IntN(len(names))]
				ctx, cancel := context.WithCancel(context.Background())
				if rand.IntN(4) == 0 { // a client that goes away
					ctx, cancel = context.WithTimeout(context.Background(), time.Duration(rand.IntN(30))*time.Millisecond)
				}
				var err error
				command := ""
				switch dice := rand.IntN(12); {
				case dice < 4:
					command = "START"
					_, err = s.StartStream(ctx, name, server.StartRequest{})
				case dice < 6:
					command = "STOP"
					_, err = s.StopStream(ctx, name)
				case dice == 6:
					command = "DROP"
					err = s.DeleteStream(ctx, name, server.DeleteRequest{})
				case dice == 7:
					command = "CREATE"
					err = create(name)
				case dice == 8:
					command = "a limited START"
					_, err = s.StartStream(ctx, name, server.StartRequest{BatchLimit: 1 + rand.IntN(2), Timeout: 50 * time.Millisecond})
				case dice == 9:
					command = "PATCH"
					_, err = s.PatchStream(ctx, name, server.PatchRequest{Patch: fmt.Appendf(nil, `{"batch_size":%d}`, 1+rand.IntN(5))})
				case dice == 10:
					command = "offsets"
					_, err = s.SetStreamOffsets(ctx, name, server.SetOffsetsRequest{To: "earliest"})
				default:
					command = "status"
					_, err = s.StreamStatus(ctx, name)
				}
				gone := ctx.Err() != nil
				cancel()
				if !gone {
					allowed(command, err)
				}
			}
		})
	}
	wg.Wait()

	want := map[string]graphmill.State{}
	for i, name := range names {
		if err := create(name); err != nil {
			requireCode(t, err, "stream_exists")
		}
		want[name] = graphmill.StateStopped
		command := func() error { _, err := s.StopStream(t.Context(), name); return err }
		if i%2 == 0 {
			want[name] = graphmill.StateRunning
			command = func() error { _, err := s.StartStream(t.Context(), name, server.StartRequest{}); return err }
		}
		allowed("the last command", command())
	}
	look := func(s *server.Server) {
		for _, name := range names {
			require.Eventually(t, func() bool {
				info, err := s.Stream(t.Context(), name)
				require.NoError(t, err)
				require.Equal(t, want[name], info.Desired, name)
				return info.State == want[name]
			}, patience, 5*time.Millisecond, name)
		}
	}
	look(s)
	promptly(t, "Close", func() { require.NoError(t, s.Close(context.Background())) })
	look(w.open(nil))
}
