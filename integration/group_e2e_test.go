//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Servers of one group share a stream, each with a data directory of its own.
// What happens to one of them is the other ones' work, no more.
func TestKafkaThreeServersShareAStreamThroughRestartsKillsAndFreezes(t *testing.T) {
	const (
		batch = 500
		name  = "shared"
		group = "graphmill." + name
	)
	random := chance(t)
	topic, label := topicOf(t, 6), labelOf(t)
	def := traceStream(name, topic, label)
	def["batch_size"], def["configs"] = batch, sharedSession
	servers := []*program{serve(t), serve(t), serve(t)}
	for _, p := range servers {
		p.do("POST", "/streams", def, nil)
		p.do("POST", "/streams/"+name+":start", nil, nil)
	}
	awaitMembers(t, group, len(servers), 6)
	requireNoSteps := watchOffsets(t, group, topic)
	work := startLoad(t, topic, group)
	// underWay returns once something more has been done, by all of them together.
	underWay := func() {
		t.Helper()
		awaitAcknowledged(t, group, topic, acknowledgedBy(t, admin(t), group, topic)+1+random.Int64N(4*batch))
	}

	for range sized(1, 3) {
		for _, p := range servers {
			underWay()
			p.terminate()
			underWay()
			p.start()
			awaitMembers(t, group, len(servers), 6)
		}
	}
	underWay()
	require.Zero(t, repeatsIn(t, label), "a rolling restart repeats nothing")

	kills := sized(1, 6)
	for range kills {
		underWay()
		p := servers[random.IntN(len(servers))]
		p.kill()
		p.start()
		awaitMembers(t, group, len(servers), 6)
	}
	afterKills := repeatsIn(t, label)
	t.Logf("%d kills: %d applications were repeats, with batches of %d", kills, afterKills, batch)
	require.LessOrEqual(t, afterKills, int64(kills*batch))

	freezes := sized(1, 6)
	for range freezes {
		underWay()
		p := servers[random.IntN(len(servers))]
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		thawed := time.After(10 * time.Second) // of a session of 6 s
		awaitMembers(t, group, len(servers)-1, 6)
		<-thawed
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		awaitMembers(t, group, len(servers), 6)
	}
	// What follows outlasts the last freeze: each user gets a later event.
	underWay()
	n := work.stop()
	awaitAllAcknowledged(t, group, topic, n)
	repeats := requireAllApplied(t, label, n)
	t.Logf("%d messages; %d freezes: %d applications were repeats", n, freezes, repeats-afterKills)
	require.LessOrEqual(t, repeats-afterKills, int64(freezes*batch), "a frozen server repeats the one batch that it had in hand, at most")
	requireNoSteps()
}

// awaitMembers waits until a group is stable, has so many members, and all
// partitions are assigned.
func awaitMembers(t *testing.T, group string, members, partitions int) {
	t.Helper()
	cl := admin(t)
	deadline := time.After(patience)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		groups, err := cl.DescribeGroups(t.Context(), group)
		require.NoError(t, err)
		g := groups[group]
		assigned := 0
		for _, p := range g.AssignedPartitions() {
			assigned += len(p)
		}
		if g.State == "Stable" && len(g.Members) == members && assigned == partitions {
			return
		}
		select {
		case <-look.C:
		case <-deadline:
			require.FailNow(t, "the group does not come to rest", "it is %s with %d members and %d partitions; %d and %d are wanted", g.State, len(g.Members), assigned, members, partitions)
		}
	}
}

// watchOffsets looks at what a group has acknowledged, again and again. The
// function that it returns ends that, and requires that no offset ever went
// back: nobody has acknowledged for a partition that others had taken further.
func watchOffsets(t *testing.T, group, topic string) (requireNoSteps func()) {
	t.Helper()
	cl, err := kadm.NewOptClient(kgo.SeedBrokers(world.kafka.Brokers()...))
	require.NoError(t, err)
	ctx, quit := context.WithCancel(t.Context())
	var steps []string
	looks := 0
	var watching sync.WaitGroup
	watching.Go(func() {
		defer cl.Close()
		at := map[int32]int64{}
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for ctx.Err() == nil {
			select {
			case <-look.C:
			case <-ctx.Done():
			}
			offsets, err := cl.FetchOffsets(ctx, group)
			if err != nil {
				continue
			}
			looks++
			for p, o := range offsets[topic] {
				if o.At < at[p] {
					steps = append(steps, fmt.Sprintf("partition %d from %d to %d", p, at[p], o.At))
				}
				at[p] = o.At
			}
		}
	})
	t.Cleanup(func() { quit(); watching.Wait() })
	return func() {
		t.Helper()
		quit()
		watching.Wait()
		t.Logf("looked at the offsets %d times", looks)
		require.Empty(t, steps, "offsets that went back")
	}
}
