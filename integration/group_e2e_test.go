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

func TestKafkaThreeServersShareAStreamThroughRestartsKillsAndFreezes(t *testing.T) {
	const batch = 500
	b := onKafka()
	topic := b.topic(t, 6)
	requireNoSteps := watchOffsets(t, "graphmill."+sharedStream, topic)
	serversShareAStream(t, b, topic, sharing{servers: 3, partitions: 6, batch: batch, atDeath: batch})
	requireNoSteps()
}

// sharing is a test of servers that share a stream: how many there are, and how many
// messages may be repeated where one is restarted in order, and where one is killed
// or frozen.
type sharing struct{ servers, partitions, batch, inOrder, atDeath int }

const sharedStream = "shared"

// serversShareAStream has servers read a topic together, each with a data directory of
// its own. What happens to one of them is the other ones' work, no more.
func serversShareAStream(t *testing.T, b broker, topic string, of sharing) {
	const name = sharedStream
	random := chance(t)
	label := labelOf(t)
	def := b.stream(name, topic, label)
	def["batch_size"] = of.batch
	servers := make([]*program, of.servers)
	for i := range servers {
		servers[i] = b.serve(t)
		servers[i].do("POST", "/streams", def, nil)
		servers[i].do("POST", "/streams/"+name+":start", nil, nil)
	}
	awaitShared := func(servers int) { b.awaitShared(t, name, topic, servers, of.partitions) }
	awaitShared(len(servers))
	work, progress := startLoad(t, b.feed(t, name, topic, label)), b.feed(t, name, topic, label)
	defer progress.close()
	// underWay returns once something more has been done, by all of them together.
	underWay := func() {
		t.Helper()
		awaitDone(t, progress, doneOf(t, progress)+1+random.Int64N(int64(4*of.batch)))
	}

	rounds := sized(1, 3)
	for range rounds {
		for _, p := range servers {
			underWay()
			p.terminate()
			underWay()
			p.start()
			awaitShared(len(servers))
		}
	}
	underWay()
	afterRestarts := repeatsIn(t, label)
	t.Logf("%d rolling restarts: %d applications were repeats", rounds, afterRestarts)
	require.LessOrEqual(t, afterRestarts, int64(rounds*len(servers)*of.inOrder))

	kills := sized(1, 6)
	for range kills {
		underWay()
		p := servers[random.IntN(len(servers))]
		p.kill()
		p.start()
		awaitShared(len(servers))
	}
	afterKills := repeatsIn(t, label)
	t.Logf("%d kills: %d applications were repeats, with batches of %d", kills, afterKills-afterRestarts, of.batch)
	require.LessOrEqual(t, afterKills-afterRestarts, int64(kills*of.atDeath))

	freezes := sized(1, 6)
	for range freezes {
		underWay()
		p := servers[random.IntN(len(servers))]
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		frozen := time.Now()
		thaws := time.After(10 * time.Second) // of a session of 6 s
		awaitShared(len(servers) - 1)
		t.Logf("a frozen server is given up after %v", time.Since(frozen))
		underWay()
		<-thaws
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		thawed := time.Now()
		awaitShared(len(servers))
		t.Logf("one that is thawed is back after %v", time.Since(thawed))
	}
	// What follows outlasts the last freeze: each user gets a later event.
	underWay()
	n := work.stop()
	awaitAllAcknowledged(t, b, name, topic)
	repeats := requireAllApplied(t, label, n)
	t.Logf("%d messages; %d freezes: %d applications were repeats", n, freezes, repeats-afterKills)
	require.LessOrEqual(t, repeats-afterKills, int64(freezes*of.atDeath), "what a frozen server had in hand, at most")
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
