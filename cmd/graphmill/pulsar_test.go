package main

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pulsarserver"
)

// sendRatings sends so many ratings to a topic of Pulsar, each as an entry.
func sendRatings(t *testing.T, s *pulsarserver.Server, topic string, n int) {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: s.URL(), Logger: plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	defer client.Close()
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true, SendTimeout: -1})
	require.NoError(t, err)
	defer p.Close()
	for range n {
		_, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte(rating)})
		require.NoError(t, err)
	}
}

// devWithPulsar starts graphmill dev beside a Pulsar with a topic of two partitions,
// parted, and one that has none, plain.
func devWithPulsar(t *testing.T, c *cli) (*process, *pulsarserver.Server) {
	t.Helper()
	s := pulsarserver.Start(t, pulsarserver.Options{NoAutoCreate: true})
	require.NoError(t, s.CreateTopic("parted", 2))
	require.NoError(t, s.CreateTopic("plain", 0))
	p := c.dev(t, "--pulsar-service-url", s.URL(), "--pulsar-admin-url", s.AdminURL())
	c.must(t, "module", "push", "movies", moviesFile)
	return p, s
}

func TestAPulsarStreamFromCreateToDrop(t *testing.T) {
	c := newCLI(t)
	p, s := devWithPulsar(t, c)
	create := []string{
		"stream", "create", "ratings", "--source", "pulsar", "--topics", "parted,persistent://public/default/plain", "--transform", "movies",
		"--subscription", "loaders", "--subscription-type", "exclusive", "--batch-interval", "20ms",
	}
	created := c.must(t, create...)
	require.Contains(t, created, "created ratings: ")
	require.Contains(t, created, "it begins:            with what is sent from now on, which its subscription keeps")
	sendRatings(t, s, "plain", 3) // before the start: its subscription is there
	require.Equal(t, "ratings: running\n", c.must(t, "stream", "start", "ratings"))
	c.awaitMessages(t, "ratings", 3)

	show := c.must(t, "stream", "show", "ratings")
	require.Contains(t, show, "subscription:    loaders (exclusive), from latest where no position is known\n")
	require.Regexp(t, `persistent://public/default/plain +\S* *\d+:3:0 `, show)
	require.Contains(t, show, "persistent://public/default/parted/1 ")
	require.Contains(t, show, "the broker's own backlog\n")
	require.Regexp(t, `ratings +\S* *pulsar `, c.must(t, "stream", "list"))
	require.Contains(t, c.run(t, "", "stream", "offsets", "ratings", "--set", "earliest").err, "graphmill stream stop ratings")

	require.Equal(t, "ratings: stopped\n", c.must(t, "stream", "stop", "ratings"))
	offsets := c.must(t, "stream", "offsets", "ratings")
	require.Contains(t, offsets, "subscription loaders: 0 members\n")
	at := regexp.MustCompile(`persistent://public/default/plain +\S* *(\d+):3:0 `).FindStringSubmatch(offsets)
	require.NotNil(t, at, offsets)
	moved := c.must(t, "stream", "offsets", "ratings", "--set", at[1]+":1:0", "--partition", "persistent://public/default/plain")
	require.Regexp(t, `persistent://public/default/plain +\S* *`+at[1]+`:3:0 +\S* *`+at[1]+`:1:0 `, moved)
	plain := []string{"--partition", "persistent://public/default/plain"}
	for _, wrong := range []struct {
		args []string
		next string
	}{
		{[]string{"--set", "1200"}, "a message id such as 12:5:0"}, // an offset of Kafka
		{[]string{"--set", "1:2:3:4:5"}, ""},
		{append(plain, "--set", at[1]+":1:7"), "for what is behind it: " + at[1] + ":2:0"},
		{append(plain, "--set", at[1]+":1:4:0"), "and its partition is named by --partition"},
		{[]string{"--set", at[1] + ":1:0", "--partition", "persistent://public/default/parted/7"}, ""},
		{[]string{"--set", at[1] + ":1:0", "--partition", "persistent://public/default/elsewhere"}, ""},
	} {
		r := c.run(t, "", append([]string{"stream", "offsets", "ratings"}, wrong.args...)...)
		require.Equal(t, exitFailed, r.status, "%v: %s%s", wrong, r.out, r.err)
		require.Contains(t, r.err, wrong.next)
	}
	checked := c.run(t, "", "stream", "check", "ratings", "--from", at[1]+":1:0")
	require.Equal(t, exitFailed, checked.status)
	require.Contains(t, checked.err, "give the time at which the message was published")
	edited := c.run(t, "", "stream", "edit", "ratings", "--topics-pattern", "p.*", "--from", "latest")
	require.Equal(t, exitFailed, edited.status)
	require.Contains(t, edited.err, "--unset topics")
	c.must(t, "stream", "offsets", "ratings", "--set", "earliest", "--partition", "persistent://public/default/parted/1")
	c.must(t, "stream", "start", "ratings")
	c.awaitMessages(t, "ratings", 2)

	kept := c.run(t, "", "stream", "drop", "ratings")
	require.Equal(t, "dropped ratings\n", kept.out)
	require.Contains(t, kept.err, `note: the subscription "loaders" stays with Pulsar`)
	require.Len(t, s.Subscriptions(), 3)
	c.must(t, create...)
	ended := c.run(t, "", "stream", "drop", "ratings", "--unsubscribe")
	require.Equal(t, result{out: "dropped ratings\n"}, ended)
	require.Empty(t, s.Subscriptions())
	p.stop(t)
}

func TestWhatAPulsarStreamDoesNotTakeIsRefused(t *testing.T) {
	c := newCLI(t)
	p, s := devWithPulsar(t, c)
	for name, tc := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"brokers of Kafka":            {[]string{"--source", "pulsar", "--topics", "t", "--bootstrap-servers", "h:1"}, exitUsage, "--bootstrap-servers"},
		"a consumer group":            {[]string{"--source", "pulsar", "--topics", "t", "--consumer-group", "g"}, exitUsage, "--consumer-group"},
		"the group of Kafka's client": {[]string{"--source", "pulsar", "--topics", "t", "--config", "group.id=g"}, exitFailed, "here it is SUBSCRIPTION (--subscription"},
		"an escape in a topic":        {[]string{"--source", "pulsar", "--topics", "t\x1b[1m"}, exitUsage, "unprintable character"},
		"an empty subscription":       {[]string{"--source", "pulsar", "--topics", "t", "--subscription="}, exitUsage, "--subscription is given, and empty"},
		"a Pulsar topic, of Kafka":    {[]string{"--topics", "persistent://public/default/t"}, exitUsage, "--source pulsar"},
		"the admin REST as address":   {[]string{"--source", "pulsar", "--topics", "t", "--service-url", "http://h:8080"}, exitUsage, "--pulsar-admin-url"},
		"a setting of Kafka's client": {[]string{"--source", "pulsar", "--topics", "t", "--credential", "sasl.password=hunter2"}, exitFailed, "sasl.password"},
		"a service URL, of Kafka":     {[]string{"--topics", "t", "--service-url", s.URL()}, exitUsage, "--service-url"},
		"a subscription, of Kafka":    {[]string{"--topics", "t", "--subscription", "s"}, exitUsage, "--subscription"},
		"a pattern, of Kafka":         {[]string{"--topics-pattern", "t.*"}, exitUsage, "--topics-pattern"},
		"topics and a pattern":        {[]string{"--source", "pulsar", "--topics", "t", "--topics-pattern", "t.*"}, exitUsage, "--topics-pattern"},
		"a shared subscription":       {[]string{"--source", "pulsar", "--topics", "t", "--subscription-type", "shared"}, exitUsage, "use failover"},
		"one partition":               {[]string{"--source", "pulsar", "--topics", "parted-partition-0"}, exitUsage, "is one partition of a topic"},
		"another source":              {[]string{"--source", "pulsr", "--topics", "t"}, exitUsage, "--source"},
		"a password in the address":   {[]string{"--source", "pulsar", "--topics", "t", "--service-url", "pulsar://u:hunter2@h:6650"}, exitUsage, "--service-url"},
		"a topic that is absent":      {[]string{"--source", "pulsar", "--topics", "absent"}, exitFailed, "--no-check"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.run(t, "", append([]string{"stream", "create", "s", "--transform", "movies"}, tc.args...)...)
			require.Equal(t, tc.status, r.status, "%s%s", r.out, r.err)
			require.Contains(t, r.err, tc.says)
			require.NotContains(t, r.err, "hunter2")
		})
	}
	require.Contains(t, c.must(t, "stream", "list"), "no streams")
	p.stop(t)
}

func TestPulsarStreamsAreAppliedAndExported(t *testing.T) {
	c := newCLI(t)
	p, s := devWithPulsar(t, c)
	c.write(t, "deploy/streams.yaml", `
streams:
- name: full
  source: pulsar
  topics_pattern: persistent://public/default/par.*
  transform: movies
  subscription: loaders
  subscription_type: exclusive
  service_url: `+s.URL()+`
  start_from: earliest
  configs: {operationTimeoutMs: 20000}
- {name: plain, source: pulsar, topics: [plain], transform: movies, state: running}
`)
	c.write(t, "deploy/old.cypher", "CREATE PULSAR STREAM old TOPICS plain TRANSFORM movies.transform SERVICE_URL '"+s.URL()+"' SUBSCRIPTION 'of-old';\n")
	applied := c.run(t, "", "apply", "-f", "deploy")
	require.Contains(t, applied.out, "3 created, 0 changed, 0 unchanged\n", applied.err)
	before := c.definitions(t)
	require.Contains(t, c.must(t, "apply", "-f", "deploy"), "nothing to change\n")
	require.Equal(t, before, c.definitions(t))

	for _, format := range []string{"yaml", "json"} {
		exported := c.must(t, "export", "-o", format, "full", "plain", "old")
		require.NotContains(t, exported, "consumer_group")
		r := c.run(t, exported, "apply", "-f", "-")
		require.Contains(t, r.out, "nothing to change\n", r.err)
		if format == "yaml" {
			require.Contains(t, exported, "  - name: plain\n    source: pulsar\n    topics:\n      - plain\n    transform: movies\n    state: running\n", "nothing that is the default")
			there := newCLI(t)
			other := there.dev(t, "--pulsar-service-url", s.URL())
			there.must(t, "module", "push", "movies", moviesFile)
			stopped := strings.ReplaceAll(exported, "state: running", "state: stopped")
			r := there.run(t, stopped, "apply", "-f", "-")
			require.Contains(t, r.out, "3 created", r.err)
			require.Equal(t, stopped, there.must(t, "export", "full", "plain", "old"))
			other.stop(t)
		}
	}
	p.stop(t)
}
