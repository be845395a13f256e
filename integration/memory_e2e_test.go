//go:build e2e

package integration_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// residentMemory returns the program's RSS in bytes, as Linux tells it.
func (p *program) residentMemory() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			require.NoError(p.t, err)
			return kB << 10
		}
	}
	require.FailNow(p.t, "the system does not tell RSS")
	return 0
}

// gauge returns the value of a metric of a stream.
func (p *program) gauge(name, stream string) int64 {
	p.t.Helper()
	resp, err := http.Get("http://" + p.listen + "/metrics")
	require.NoError(p.t, err)
	defer resp.Body.Close()
	series := fmt.Sprintf("%s{stream=%q} ", name, stream)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series); ok {
			number, err := strconv.ParseFloat(value, 64)
			require.NoError(p.t, err)
			return int64(number)
		}
	}
	require.FailNow(p.t, "there is no "+series)
	return 0
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// produceRatings sends n ratings for the plugin movies to one partition.
func produceRatings(t *testing.T, topic string, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	defer cl.Close()
	failed := make(chan error, 1)
	for i := range n {
		value := fmt.Appendf(nil, `{"userId":%d,"movieId":%d,"rating":%d.5}`, i%10_007, i%1_009, i%5)
		cl.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	require.NoError(t, cl.Flush(t.Context()))
	select {
	case err := <-failed:
		require.NoError(t, err)
	default:
	}
}

// Row 24 of the cases: neither the instance of a Go module nor the program grows
// with the messages that have come through.
func TestCase24KafkaMemoryIsFlatOverMillionsOfMessages(t *testing.T) {
	n := sized(200_000, 5_000_000)
	const samples = 50
	topic := topicOf(t, 1)
	produceRatings(t, topic, n)
	p := serve(t, "--graph-uri", "ledger:"+filepath.Join(t.TempDir(), "ledger.jsonl"))
	p.do("POST", "/streams", map[string]any{"name": "many", "topics": []string{topic}, "start_from": "earliest", "transform": "movies.transform"}, nil)
	began := time.Now()
	p.do("POST", "/streams/many:start", nil, nil)
	type sample struct{ messages, rss, linear int64 }
	var taken []sample
	for i := range samples {
		due := int64(n / samples * (i + 1))
		s := p.await("many", "more messages are through", func(s graphmill.StreamStatus) bool { return s.Counters.Messages >= due })
		taken = append(taken, sample{s.Counters.Messages, p.residentMemory(), p.gauge("graphmill_transform_memory_bytes", "many")})
	}
	t.Logf("%d messages took %s", n, time.Since(began).Round(time.Millisecond))
	for i := 0; i < samples; i += samples / 10 {
		t.Logf("%9d messages: RSS %s, linear memory %s", taken[i].messages, mebibytes(taken[i].rss), mebibytes(taken[i].linear))
	}
	most := func(of []sample) (m sample) {
		for _, s := range of {
			m.rss, m.linear = max(m.rss, s.rss), max(m.linear, s.linear)
		}
		return m
	}
	middle, last := most(taken[samples/3:2*samples/3]), most(taken[2*samples/3:])
	t.Logf("at most, middle third: RSS %s, linear memory %s; last third: RSS %s, linear memory %s",
		mebibytes(middle.rss), mebibytes(middle.linear), mebibytes(last.rss), mebibytes(last.linear))
	require.LessOrEqual(t, last.rss, middle.rss*11/10, "RSS")
	require.LessOrEqual(t, last.linear, middle.linear+1<<20, "linear memory: a step of the guest's heap, at most")
	p.awaitDone("many", 1)
}

// What a stream costs while it has nothing to do. Broker and database are other
// processes.
func TestKafkaStreamsThatWaitForMessagesTakeLittleMemory(t *testing.T) {
	n := sized(20, 200)
	const most = 8 << 20 // bytes a stream
	topic := topicOf(t, 1)
	produceRatings(t, topic, 1)
	p := serve(t)
	idle := p.residentMemory()
	rss := make([]int64, n)
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		p.do("POST", "/streams", map[string]any{"name": name, "topics": []string{topic}, "start_from": "earliest", "transform": "movies.transform"}, nil)
		p.do("POST", "/streams/"+name+":start", nil, nil)
		p.await(name, "it has carried its message", func(s graphmill.StreamStatus) bool { return s.Counters.Messages == 1 })
		rss[i] = p.residentMemory()
	}
	each := (rss[n-1] - rss[0]) / int64(n-1)
	t.Logf("RSS without a stream %s, with 1 %s, with %d %s: %s a stream; linear memory of an instance %s",
		mebibytes(idle), mebibytes(rss[0]), n, mebibytes(rss[n-1]), mebibytes(each), mebibytes(p.gauge("graphmill_transform_memory_bytes", "s0")))
	require.Less(t, each, int64(most))
}
