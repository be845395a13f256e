package statement

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pages"
)

//go:generate go test -run Current$ -update .

var update = flag.Bool("update", false, "write the table of docs/statements.md")

const statementsPage = "../../docs/statements.md"

// optionDoc is what the table of options cannot tell of an option.
type optionDoc struct {
	value    string // what is written behind it, where its kind does not tell
	most     int64  // the largest integer; 0: the server says
	standard string // where the definition's own default does not tell
	means    string
}

var optionDocs = map[string]optionDoc{
	"TOPICS":            {standard: "needed", means: "what is read; of Pulsar a name in `public/default`, or as string `persistent://TENANT/NAMESPACE/NAME`"},
	"TOPICS_PATTERN":    {value: "string `EXPRESSION` or `persistent://TENANT/NAMESPACE/EXPRESSION`", standard: "none", means: "a [regular expression of topics](pulsar.md#topics) in place of TOPICS"},
	"TRANSFORM":         {value: "`MODULE.FUNCTION`", standard: "needed", means: "what makes statements of messages; cut at its last point; without one, the function `transform` of the module"},
	"CONSUMER_GROUP":    {standard: "`" + DefaultConsumerGroup + "`", means: "the group whose positions count; of streams that are made otherwise than by a statement it is `graphmill.NAME`"},
	"SUBSCRIPTION":      {standard: "the stream's name", means: "the [subscription](pulsar.md#the-subscription), whose position counts"},
	"SUBSCRIPTION_TYPE": {value: "`failover`, `exclusive`", standard: "`failover`", means: "whether [other servers](pulsar.md#several-servers) may share its partitions"},
	"BATCH_INTERVAL":    {most: graphmill.MaxBatchInterval, means: "milliseconds after which a batch is closed"},
	"BATCH_SIZE":        {most: graphmill.MaxBatchSize, means: "messages at which a batch is closed"},
	"BATCH_BYTES":       {most: graphmill.MaxBatchBytes, means: "bytes (payload, key, headers) at which a batch is closed"},
	"BOOTSTRAP_SERVERS": {standard: "`--kafka-bootstrap-servers`", means: "brokers"},
	"SERVICE_URL":       {value: "string `pulsar://HOST:PORT` or `pulsar+ssl://HOST:PORT`, more hosts behind commas", standard: "`--pulsar-service-url`", means: "the broker"},
	"CONFIGS":           {standard: "none", means: "settings of the broker's client, by [librdkafka's names](kafka.md), or by those of [Pulsar's clients](pulsar-settings.md)"},
	"CREDENTIALS":       {standard: "none", means: "the same, and no value is ever shown; `secret:NAME` names one that is [kept elsewhere](security.md#where-secrets-are)"},
	"START_FROM":        {means: "where reading begins where [no position is known](streams.md#where-a-stream-begins); else `auto.offset.reset`, of Pulsar `subscriptionInitialPosition`, of CONFIGS"},
	"DELIVERY":          {value: "`" + graphmill.DeliveryAtLeastOnce + "`", means: "how often a message's effect may be in the graph"},
	"CHECKPOINT_ID":     {standard: "the stream's name", means: "the key of its checkpoints, for `exactly_once`"},
	"ON_FAILURE":        {value: "`" + graphmill.OnFailureStop + "`", means: "what a message does that cannot be applied: the stream stops before it"},
	"DEAD_LETTER_TOPIC": {standard: "none", means: "where else dead letters go"},
	"ISOLATION_LIMIT":   {value: "integer", standard: "20", means: "messages in a row that may fail alone"},
	"PARALLELISM":       {value: "integer", standard: "1", means: "lanes over disjoint partitions"},
	"DATABASE":          {standard: "`--graph-database`", means: "the database that the statements go to"},
	"COALESCE":          {value: "`" + graphmill.CoalesceOn + "`, `" + graphmill.CoalesceOff + "`", means: "whether runs of equal statements are [sent as one](streams.md#how-statements-are-executed)"},
	"ALLOW":             {value: "`" + graphmill.AllowSchema + "`, `" + graphmill.AllowLoadCSV + "`, or both", standard: "nothing", means: "what statements may do [beside reading and writing data](database.md#what-a-streams-statements-may-do)"},
	"SETTINGS":          {standard: "none", means: "settings of the transformation"},
	"MEMORY_LIMIT":      {value: "integer, up to `--limit-max-memory`", standard: "`--limit-memory`", means: "bytes of memory of the transformation"},
	"TIME_LIMIT":        {value: "integer, up to `--limit-max-time`", standard: "`--limit-time`", means: "milliseconds that the transformation may take for a batch"},
	"RESPONSE_LIMIT":    {value: "integer, up to `--limit-max-memory`", standard: "`--limit-response`", means: "bytes of its answer for a batch"},
}

var kindDocs = map[kind]string{
	kindTopics:  "names, or a string with commas between them",
	kindServers: "strings `HOST:PORT`, or one with commas between them",
	kindWords:   "words",
	kindWord:    "word",
	kindName:    "name",
	kindStart:   "`earliest`, `latest`, a time (RFC 3339)",
	kindInteger: "integer",
	kindString:  "string",
	kindMap:     "map of strings",
}

// The table of options is made of the one that the parser has, so it cannot say
// anything else.
func TestOptionsOnThePageOfStatementsAreCurrent(t *testing.T) {
	standard, err := json.Marshal(graphmill.StreamSpec{Name: "NAME"}.WithDefaults())
	require.NoError(t, err)
	defaults := members(standard)
	var b strings.Builder
	b.WriteString("\n| option | value | default | of | means |\n|---|---|---|---|---|\n")
	for _, o := range options {
		doc, ok := optionDocs[o.keyword]
		require.True(t, ok, "%s is not documented", o.keyword)
		if own, ok := defaults[o.field]; ok && doc.standard == "" {
			doc.standard = "`" + strings.Trim(string(own), `"`) + "`"
		}
		value := cmp.Or(doc.value, kindDocs[o.kind])
		if doc.most > 0 {
			value += fmt.Sprintf(", 1 to %d", doc.most)
		}
		means := doc.means
		if o.field == "" {
			means += ". *Not available yet*"
		}
		if len(o.later) > 0 {
			means += ". *Not available yet*: `" + strings.Join(o.later, "`, `") + "`"
		}
		of := "both"
		if o.sources != nil {
			of = capital(o.sources[0])
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", o.keyword, value, doc.standard, of, means)
	}
	fmt.Fprintf(&b, "\nA statement has %d MiB and %d words and signs at most, and lists and maps %d deep within one another.\n\n", MaxBytes>>20, maxTokens, maxNesting)
	pages.Hold(t, statementsPage, "options", "./api/statement", b.String(), *update)
}

// The bounds that the page tells are those that definitions are held to.
func TestBoundsOnThePageOfStatements(t *testing.T) {
	for _, o := range options {
		most := optionDocs[o.keyword].most
		if most == 0 {
			continue
		}
		for n, ok := range map[int64]bool{1: true, most: true, most + 1: false} {
			s, err := Parse(fmt.Sprintf("CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f %s %d", o.keyword, n), nil)
			require.NoError(t, err)
			spec := s.(*Create).Spec.WithDefaults()
			require.Equal(t, ok, spec.Validate() == nil, "%s %d", o.keyword, n)
		}
	}
}

// Every word in capitals of the page's syntax is one of the grammar, and every one
// of the grammar is in it or in the table of options.
func TestKeywordsOnThePageOfStatements(t *testing.T) {
	syntax := strings.Join(pages.Blocks(t, statementsPage, "ebnf"), "\n")
	told := regexp.MustCompile(`\b[A-Z][A-Z_]+\b`).FindAllString(syntax, -1)
	slices.Sort(told)
	require.Equal(t, slices.DeleteFunc(slices.Clone(keywords()), func(k string) bool { return kindOf(k) >= 0 }), slices.Compact(told))
}

// Examples on the pages are read by the parser; those that are told to be wrong
// are not.
func TestExamplesOnThePages(t *testing.T) {
	params := map[string]any{
		"name": "ratings", "n": int64(10), "topics": []any{"a", "b"}, "password": "secret:kafka", "configs": map[string]any{},
	}
	for _, file := range []string{statementsPage, "../../docs/coming-from-memgraph.md", "../../README.md"} {
		for kind, right := range map[string]bool{"cypher": true, "cypher wrong": false} {
			for _, block := range pages.Blocks(t, file, kind) {
				pieces := Split(block)
				require.NotEmpty(t, pieces, block)
				for _, p := range pieces {
					_, err := Parse(p.Text, params)
					require.Equal(t, right, err == nil, "%s: %s: %v", file, p.Text, err)
					require.True(t, p.Ended, "%s: %s: there is no ';' behind it", file, p.Text)
				}
			}
		}
	}
}
