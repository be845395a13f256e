package statement

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"github.com/graphmill/graphmill"
)

// kind is what values an option has.
type kind int

const (
	kindTopics  kind = iota // a list of names
	kindServers             // a list of host:port
	kindWords               // a list of words of ours, in any case
	kindWord                // a word of ours, in any case
	kindName                // one name of the user's
	kindStart               // earliest, latest, a time
	kindInteger
	kindString
	kindMap // of strings by strings
)

// optionInfo is what there is to know of an option of CREATE and ALTER. The grammar
// says how it is written.
type optionInfo struct {
	keyword string
	field   string // of graphmill.StreamSpec in JSON; empty: not available yet
	kind    kind
	label   string   // what the option is called in Memgraph's errors
	sources []string // that have it; nil: all
	later   []string // words that are not available yet
}

// The kinds of streams, as CREATE names them.
const (
	kafkaStream  = "KAFKA"
	pulsarStream = "PULSAR"
)

var (
	onlyKafka  = []string{kafkaStream}
	onlyPulsar = []string{pulsarStream}
)

// options are all options, in the order in which statements are written.
var options = []optionInfo{
	{keyword: "TOPICS", field: "topics", kind: kindTopics, label: "Topic names should be defined as a string literal or as symbolic names"},
	{keyword: "TOPICS_PATTERN", field: "topics_pattern", kind: kindString, label: "Topics pattern must be a string!", sources: onlyPulsar},
	{keyword: "TRANSFORM", field: "transform", kind: kindName, label: "Transform must be a name!"},
	{keyword: "CONSUMER_GROUP", field: "consumer_group", kind: kindName, label: "Consumer group must be a name!", sources: onlyKafka},
	{keyword: "SUBSCRIPTION", field: "subscription", kind: kindName, label: "Subscription must be a name!", sources: onlyPulsar},
	{keyword: "SUBSCRIPTION_TYPE", field: "subscription_type", kind: kindWord, label: "Subscription type must be a name!", sources: onlyPulsar},
	{keyword: "BATCH_INTERVAL", field: "batch_interval_ms", kind: kindInteger, label: "Batch interval must be an integer literal!"},
	{keyword: "BATCH_SIZE", field: "batch_size", kind: kindInteger, label: "Batch size must be an integer literal!"},
	{keyword: "BATCH_BYTES", field: "batch_bytes", kind: kindInteger, label: "Batch bytes must be an integer literal!"},
	{keyword: "BOOTSTRAP_SERVERS", field: "bootstrap_servers", kind: kindServers, label: "Bootstrap servers should be a string!", sources: onlyKafka},
	{keyword: "SERVICE_URL", field: "service_url", kind: kindString, label: "Service URL must be a string!", sources: onlyPulsar},
	{keyword: "CONFIGS", field: "configs", kind: kindMap, label: "Configs must contain only string keys and values!"},
	{keyword: "CREDENTIALS", field: "credentials", kind: kindMap, label: "Credentials must contain only string keys and values!"},
	{keyword: "START_FROM", field: "start_from", kind: kindStart, label: "Start from must be earliest, latest or a time!"},
	{keyword: "DELIVERY", field: "delivery", kind: kindWord, label: "Delivery must be a name!", later: []string{"exactly_once"}},
	{keyword: "CHECKPOINT_ID", kind: kindName, label: "Checkpoint id must be a name!"},
	{keyword: "ON_FAILURE", field: "on_failure", kind: kindWord, label: "On failure must be a name!", later: []string{"skip", "dead_letter"}},
	{keyword: "DEAD_LETTER_TOPIC", kind: kindName, label: "Dead letter topic must be a name!"},
	{keyword: "ISOLATION_LIMIT", kind: kindInteger, label: "Isolation limit must be an integer literal!"},
	{keyword: "PARALLELISM", kind: kindInteger, label: "Parallelism must be an integer literal!"},
	{keyword: "DATABASE", field: "database", kind: kindName, label: "Database must be a name!"},
	{keyword: "COALESCE", field: "coalesce", kind: kindWord, label: "Coalesce must be on or off!"},
	{keyword: "ALLOW", field: "allow", kind: kindWords, label: "Allow must contain only names!"},
	{keyword: "SETTINGS", field: "settings", kind: kindMap, label: "Settings must contain only string keys and values!"},
	{keyword: "MEMORY_LIMIT", field: "memory_limit", kind: kindInteger, label: "Memory limit must be an integer literal!"},
	{keyword: "TIME_LIMIT", field: "time_limit_ms", kind: kindInteger, label: "Time limit must be an integer literal!"},
	{keyword: "RESPONSE_LIMIT", field: "response_limit", kind: kindInteger, label: "Response limit must be an integer literal!"},
}

// Keyword returns the option that sets a field of graphmill.StreamSpec in JSON; the
// field itself where there is none.
func Keyword(field string) string {
	for _, o := range options {
		if o.field == field && field != "" {
			return o.keyword
		}
	}
	return field
}

// infoOf returns an option by its keyword, in any case as the parser folds it; nil
// for other words. A test holds that the grammar has no option beside.
func infoOf(keyword string) *optionInfo {
	for i := range options {
		if strings.EqualFold(options[i].keyword, keyword) {
			return &options[i]
		}
	}
	return nil
}

func (r *resolver) create(c *create) (Statement, error) {
	source := kafkaStream
	if c.Pulsar {
		source = pulsarStream
	}
	n, err := r.name(c.Name)
	if err != nil {
		return nil, err
	}
	values, err := r.options(c.Options, source)
	if err != nil {
		return nil, err
	}
	for _, needed := range []string{"TOPICS", "TRANSFORM"} {
		_, given := values[infoOf(needed).field]
		if _, pattern := values["topics_pattern"]; needed == "TOPICS" && pattern {
			given = true // in its place
		}
		if !given {
			return nil, r.semantic(c.Name.Pos, "Config %s is required.", needed)
		}
	}
	for field, x := range values {
		if x == nil {
			delete(values, field) // NULL: the default
		}
	}
	var spec graphmill.StreamSpec
	doc, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(doc, &spec)
	}
	if err != nil {
		return nil, r.semantic(c.Name.Pos, "%v", err)
	}
	spec.Name, spec.Source = n, strings.ToLower(source)
	if !c.Pulsar && spec.ConsumerGroup == "" {
		spec.ConsumerGroup = DefaultConsumerGroup
	}
	return &Create{spec}, nil
}

func (r *resolver) alter(a *alter) (Statement, error) {
	n, err := r.name(a.Name)
	if err != nil {
		return nil, err
	}
	values, err := r.options(append([]option{a.First}, a.More...), "")
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(values)
	if err != nil {
		return nil, r.semantic(a.Name.Pos, "%v", err)
	}
	from, err := r.from(a.From)
	return &Alter{Name: n, Patch: patch, From: from}, err
}

func (r *resolver) later(pos lexer.Position, what string) *Error {
	return r.at(pos, CodeNotAvailableYet, "%s is not available yet", what)
}

// options returns the values of options by their fields in JSON. An empty source
// is that of a statement that does not tell it: ALTER.
func (r *resolver) options(given []option, source string) (map[string]any, error) {
	values := map[string]any{}
	var seen []string
	var later *Error // told only where nothing else is wrong
	for _, o := range given {
		keyword, pos := o.head()
		info := infoOf(keyword)
		if slices.Contains(seen, info.keyword) {
			return nil, r.semantic(pos, "%s defined multiple times in the query", info.keyword)
		}
		seen = append(seen, info.keyword)
		if source != "" && info.sources != nil && !slices.Contains(info.sources, source) {
			return nil, r.syntax(pos, "%s is an option of a %s stream, not of a %s stream", info.keyword, capital(info.sources[0]), capital(source))
		}
		x, err := r.optionValue(o, info, source == "")
		if err != nil {
			return nil, err
		}
		word, _ := x.(string)
		switch {
		case info.field == "":
			later = r.later(pos, info.keyword)
		case slices.Contains(info.later, word):
			later = r.later(pos, info.keyword+" "+word)
		}
		values[info.field] = x
	}
	if later != nil {
		return nil, later
	}
	return values, nil
}

func capital(word string) string { return word[:1] + strings.ToLower(word[1:]) }
