//go:build e2e

package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestKafkaServesIsKilledGoesOnAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	k, err := StartKafka(t.Context(), KafkaConfig{Log: os.Stderr, Settings: map[string]string{"num.partitions": "2"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })

	client := kafkaClient(t, kgo.SeedBrokers(k.Brokers()...), kgo.ConsumeTopics("numbers"))
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopic(t.Context(), -1, 1, nil, "numbers")
	require.NoError(t, err)
	require.NoError(t, created.Err)
	require.EqualValues(t, 2, created.NumPartitions, "the setting was taken")
	for i := range 100 {
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "numbers", Value: fmt.Append(nil, i)}).FirstErr())
	}
	require.Len(t, consume(t, client, 100), 100)
	compressed := kafkaClient(t, kgo.SeedBrokers(k.Brokers()...), kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	_, err = admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"compression.type": kadm.StringPtr("gzip")}, "compressed")
	require.NoError(t, err)
	require.NoError(t, compressed.ProduceSync(t.Context(), &kgo.Record{Topic: "compressed", Value: make([]byte, 1000)}).FirstErr(),
		"for which the broker unpacks a native library")
	unpacked, err := filepath.Glob(filepath.Join(k.Dir(), tmpDir, "snappy*"))
	require.NoError(t, err)
	require.NotEmpty(t, unpacked, "the kill leaves it, so it has to lie in the server's directory")

	t.Run("listeners", func(t *testing.T) { testListeners(t, k) })

	pid := k.PID()
	require.NoError(t, k.Kill())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.NoError(t, k.Restart(t.Context()))
	again := kafkaClient(t, kgo.SeedBrokers(k.Brokers()...), kgo.ConsumeTopics("numbers"))
	require.Len(t, consume(t, again, 100), 100, "what was there before the kill")

	pid = k.PID()
	require.NoError(t, k.Close())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	requireEmptyDir(t, tmp)
}

func testListeners(t *testing.T, k *Kafka) {
	ca, err := os.ReadFile(k.CAFile())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	scramAuth := scram.Auth{User: KafkaScramUser.User, Pass: KafkaScramUser.Password}
	for name, opts := range map[string][]kgo.Opt{
		"PLAIN":         {kgo.SeedBrokers(k.SASLBrokers()...), kgo.SASL(plain.Auth{User: KafkaPlainUser.User, Pass: KafkaPlainUser.Password}.AsMechanism())},
		"SCRAM-SHA-256": {kgo.SeedBrokers(k.SASLBrokers()...), kgo.SASL(scramAuth.AsSha256Mechanism())},
		"SCRAM-SHA-512": {kgo.SeedBrokers(k.SASLBrokers()...), kgo.SASL(scramAuth.AsSha512Mechanism())},
		"TLS":           {kgo.SeedBrokers(k.TLSBrokers()...), kgo.DialTLSConfig(&tls.Config{RootCAs: roots})},
	} {
		client := kafkaClient(t, opts...)
		topics, err := kadm.NewClient(client).ListTopics(t.Context())
		require.NoError(t, err, name)
		require.True(t, topics.Has("numbers"), name)
	}
	wrong := kafkaClient(t, kgo.SeedBrokers(k.SASLBrokers()...), kgo.SASL(plain.Auth{User: KafkaPlainUser.User, Pass: "wrong"}.AsMechanism()))
	require.ErrorContains(t, wrong.Ping(t.Context()), "SASL_AUTHENTICATION_FAILED")
}

func TestNeo4jServesIsKilledGoesOnAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	n, err := StartNeo4j(t.Context(), Neo4jConfig{Log: os.Stderr, Settings: map[string]string{"db.transaction.timeout": "17m"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })

	require.EqualValues(t, 1, ask(t, n, "CREATE (p:Person {name: 'Ann'}) RETURN count(p)"))
	require.Equal(t, "17m", ask(t, n, "SHOW SETTINGS 'db.transaction.timeout' YIELD value"))
	wrong, err := neo4j.NewDriverWithContext(n.URI(), neo4j.BasicAuth(n.User(), "wrong", ""))
	require.NoError(t, err)
	require.ErrorContains(t, wrong.VerifyConnectivity(t.Context()), "Unauthorized")
	require.NoError(t, wrong.Close(t.Context()))

	pid := n.PID()
	require.NoError(t, n.Kill())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.NoError(t, n.Restart(t.Context()))
	require.Equal(t, "Ann", ask(t, n, "MATCH (p:Person) RETURN p.name"), "what was committed before the kill")

	require.NoError(t, n.Stop(t.Context()))
	require.NoError(t, n.Restart(t.Context()))
	require.Equal(t, "Ann", ask(t, n, "MATCH (p:Person) RETURN p.name"))

	pid = n.PID()
	require.NoError(t, n.Close())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	requireEmptyDir(t, tmp)
}

func TestNeo4jThatCannotStartShowsWhy(t *testing.T) {
	_, err := StartNeo4j(t.Context(), Neo4jConfig{Settings: map[string]string{"db.no_such_setting": "1"}})
	require.ErrorContains(t, err, "neo4j ended while it was starting (exit status 1)")
	require.ErrorContains(t, err, "No declared setting with name: db.no_such_setting")
}

// helperVariable makes this test program the one that is killed.
const helperVariable = "GRAPHMILL_STACK_TEST_HELPER"

func TestServersEndWithTheProgramThatStartedThem(t *testing.T) {
	if name := os.Getenv(helperVariable); name != "" {
		startAndWait(t, name)
		return
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			helper := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
			helper.Env = append(os.Environ(), helperVariable+"="+name, "TMPDIR="+tmp)
			helper.Stderr = os.Stderr
			out, err := helper.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, helper.Start())
			t.Cleanup(func() { _ = helper.Process.Kill() }) // it is dead where the test passes

			var pid int
			_, err = fmt.Fscanf(out, "pid %d\n", &pid)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, 0))
			require.NoError(t, helper.Process.Kill())
			_ = helper.Wait() // killed
			require.Eventually(t, func() bool { return !isServer(pid, "graphmill.stack.", tmp) }, 30*time.Second, 50*time.Millisecond, "the JVM has not noticed")
			requireEmptyDir(t, tmp)
		})
	}
}

// startAndWait starts a server in a temporary directory, says its pid and waits
// to be killed.
func startAndWait(t *testing.T, name string) {
	var pid int
	switch name {
	case nameKafka:
		k, err := StartKafka(t.Context(), KafkaConfig{})
		require.NoError(t, err)
		pid = k.PID()
	case namePulsar:
		p, err := StartPulsar(t.Context(), PulsarConfig{})
		require.NoError(t, err)
		pid = p.PID()
	case nameNeo4j:
		n, err := StartNeo4j(t.Context(), Neo4jConfig{})
		require.NoError(t, err)
		pid = n.PID()
	}
	fmt.Printf("pid %d\n", pid)
	<-t.Context().Done()
}

func kafkaClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// consume reads n records.
func consume(t *testing.T, client *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		records = append(records, fetches.Records()...)
	}
	return records
}

// ask runs a query that answers one value.
func ask(t *testing.T, n *Neo4j, query string) any {
	t.Helper()
	ctx := t.Context()
	driver, err := neo4j.NewDriverWithContext(n.URI(), neo4j.BasicAuth(n.User(), n.Password(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, driver.Close(ctx)) }()
	result, err := neo4j.ExecuteQuery(ctx, driver, query, nil, neo4j.EagerResultTransformer)
	require.NoError(t, err)
	require.Len(t, result.Records, 1)
	require.Len(t, result.Records[0].Values, 1)
	return result.Records[0].Values[0]
}

func requireEmptyDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
