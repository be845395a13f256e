package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// createFlags are the options of a definition as flags: the same names, with
// hyphens.
type createFlags struct {
	spec          graphmill.StreamSpec
	batchBytes    byteCount
	batchInterval time.Duration
	settings      settingFlags
	client        clientFlags
	memoryLimit   byteCount
	timeLimit     time.Duration
	responseLimit byteCount
	noCheck       bool

	edit bool // they change a stream that there is
}

func (a *app) streamCreateCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME --topics TOPIC[,TOPIC...] --transform MODULE.FUNCTION",
		Short: "Create a stream; it is stopped at first",
		Long: `Creates a stream. Nothing is read before it is started. A broker that is not
reached or a topic that is absent refuses it, unless --no-check is given.`,
		Example: `  # through a module of one's own
  graphmill stream create ratings --topics ratings --transform movies.transform

  # without code: the JSON of each message becomes the parameters of a query
  graphmill stream create clicks --topics clicks --transform cypher.event \
      --setting query='MERGE (u:User {id: $event.userId})'

  # a broker with TLS and a login, whose password the server has as a secret
  graphmill stream create ratings --topics ratings --transform movies \
      --config security.protocol=sasl_ssl --config sasl.mechanism=SCRAM-SHA-512 \
      --config ssl.ca.pem=@ca.pem --credential sasl.username=loader \
      --credential sasl.password=secret:kafka-password

  # Pulsar, with a token; all topics of a namespace that begin with ratings
  graphmill stream create ratings --source pulsar --service-url pulsar://pulsar:6650 \
      --topics-pattern 'persistent://shop/events/ratings.*' --transform movies \
      --credential token=secret:pulsar-token

  # from the beginning of the topic, in larger batches
  graphmill stream create ratings --topics ratings --transform movies \
      --start-from earliest --batch-size 10000 --batch-interval 500ms`,
		Args: takes("NAME"),
	}
	var f createFlags
	f.add(cmd)
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := f.definition(cmd.Flags(), args[0])
		if err != nil {
			return err
		}
		check := !f.noCheck
		var s api.Stream
		progress := a.startProgress("looking for broker and topics")
		err = c.call(cmd.Context(), http.MethodPost, apiPath("streams"),
			api.CreateStream{StreamDefinition: api.StreamDefinition(spec), Check: &check}, &s)
		progress.stop()
		if err != nil {
			return err
		}
		for _, w := range s.Warnings {
			fmt.Fprintf(a.err, "warning: %s\n", w)
		}
		return out.print(s, func(w io.Writer) error {
			fmt.Fprintf(w, "created %s: %s through %s\n", s.Name, topicsText(&s.StreamDefinition, ", "), s.Transform)
			if len(s.Warnings) == 0 { // they tell it of a group that has positions
				fmt.Fprintf(w, "it begins:            %s\n", beginning(s.Source, s.StartFrom))
			}
			fmt.Fprintf(w, "see what it would do: graphmill stream check %s\n", s.Name)
			fmt.Fprintf(w, "start it:             graphmill stream start %s\n", s.Name)
			return nil
		})
	}
	return cmd
}

// beginning says where a new stream begins to read.
func beginning(source, startFrom string) string {
	switch startFrom {
	case graphmill.StartEarliest:
		return "with the first message of the topics"
	case "", graphmill.StartLatest:
		if source == graphmill.SourceNamePulsar {
			return "with what is sent from now on, which its subscription keeps; with all that is there: --start-from earliest"
		}
		return "with what is produced after its first start; with all that is there: --start-from earliest"
	}
	return "with what is of " + startFrom + " or later"
}

func (f *createFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&f.spec.Topics, "topics", nil, "topics to read, separated by commas; of Pulsar NAME or persistent://TENANT/NAMESPACE/NAME")
	fs.StringVar(&f.spec.Transform, "transform", "", "transformation, as MODULE.FUNCTION")
	f.settings.add(fs)
	fs.StringVar(&f.spec.StartFrom, "start-from", "", "where to begin where no position is known: earliest, latest, or a time in RFC 3339 (default latest)")
	fs.IntVar(&f.spec.BatchSize, "batch-size", 0, fmt.Sprintf("messages that close a batch (default %d)", graphmill.DefaultBatchSize))
	fs.Var(&f.batchBytes, "batch-bytes", fmt.Sprintf("bytes that close a batch (default %d MiB)", graphmill.DefaultBatchBytes>>20))
	fs.DurationVar(&f.batchInterval, "batch-interval", 0, fmt.Sprintf("time that closes a batch (default %dms)", graphmill.DefaultBatchInterval))
	if !f.edit {
		fs.StringVar(&f.spec.Source, "source", "", "what to read: kafka, which Redpanda is too, or pulsar (default kafka)")
	}
	fs.StringSliceVar(&f.spec.BootstrapServers, "bootstrap-servers", nil, "Kafka: brokers, as host:port (default those of the server's settings)")
	fs.StringVar(&f.spec.ConsumerGroup, "consumer-group", "", "Kafka: consumer group (default graphmill.NAME)")
	fs.StringVar(&f.spec.ServiceURL, "service-url", "", "Pulsar: its address, as pulsar://host:port, more hosts behind commas (default that of the server's settings)")
	fs.StringVar(&f.spec.TopicsPattern, "topics-pattern", "", "Pulsar: a regular expression of topics in place of --topics, as EXPRESSION or persistent://TENANT/NAMESPACE/EXPRESSION; later topics are found, too")
	fs.StringVar(&f.spec.Subscription, "subscription", "", "Pulsar: subscription (default NAME)")
	fs.StringVar(&f.spec.SubscriptionType, "subscription-type", "", "Pulsar: failover lets several servers share the partitions, exclusive one alone (default failover)")
	f.client.add(fs)
	fs.StringVar(&f.spec.Database, "database", "", "database of the graph server (default that of the server's settings)")
	fs.StringVar(&f.spec.Delivery, "delivery", "", "what a crash may do: at_least_once (default at_least_once)")
	fs.StringVar(&f.spec.OnFailure, "on-failure", "", "what a batch that cannot be applied does: stop (default stop)")
	fs.StringVar(&f.spec.Coalesce, "coalesce", "", "send runs of equal query texts as one statement: on, off (default on)")
	fs.StringSliceVar(&f.spec.Allow, "allow", nil, "what statements may do beside reading and writing data: schema, load_csv")
	fs.Var(&f.memoryLimit, "memory-limit", "linear memory of the transformation (default the server's)")
	fs.DurationVar(&f.timeLimit, "time-limit", 0, "time of the transformation for one batch (default the server's)")
	fs.Var(&f.responseLimit, "response-limit", "answer of the transformation for one batch (default half of the memory)")
	fs.BoolVar(&f.noCheck, "no-check", false, "take it unseen: broker or topic may be absent, a transformation may refuse a running stream's settings")
}

// definition puts the flags together and checks what can be checked without a
// server, so that a slip is told at once and by the flag's name.
func (f *createFlags) definition(flags *pflag.FlagSet, name string) (graphmill.StreamSpec, error) {
	spec, err := f.options(flags)
	if err != nil {
		return spec, err
	}
	spec.Name = name
	full := spec.WithDefaults()
	if err := full.Validate(); err != nil {
		return spec, asFlag(err)
	}
	return spec, nil
}

// options puts the flags together.
func (f *createFlags) options(flags *pflag.FlagSet) (graphmill.StreamSpec, error) {
	spec := f.spec
	for _, list := range []*[]string{&spec.Topics, &spec.BootstrapServers, &spec.Allow} {
		for i := range *list {
			(*list)[i] = strings.TrimSpace((*list)[i])
		}
	}
	for _, n := range []string{"batch-size", "batch-bytes", "batch-interval", "memory-limit", "time-limit", "response-limit"} {
		switch flags.Lookup(n).Value.String() {
		case "0", "0s": // in a definition that is the default; said aloud it is a slip
			if flags.Changed(n) {
				return spec, wrongUsage("--%s: it is more than 0; leave it out for the default", n)
			}
		}
	}
	if err := f.noneEmpty(flags); err != nil {
		return spec, err
	}
	spec.BatchBytes = int64(f.batchBytes)
	spec.MemoryLimit = int64(f.memoryLimit)
	spec.ResponseLimit = int64(f.responseLimit)
	for _, d := range []struct {
		flag  string
		value time.Duration
		ms    *int64
	}{
		{"batch-interval", f.batchInterval, &spec.BatchIntervalMS},
		{"time-limit", f.timeLimit, &spec.TimeLimitMS},
	} {
		if d.value%time.Millisecond != 0 {
			return spec, wrongUsage("--%s %s is no whole number of milliseconds", d.flag, d.value)
		}
		*d.ms = d.value.Milliseconds()
	}
	var err error
	if spec.Settings, err = f.settings.read(); err != nil {
		return spec, err
	}
	spec.Configs, spec.Credentials, err = f.client.read()
	return spec, err
}

// noneEmpty refuses an option that is given and empty, as by a variable of a script
// that is not set. A transformation is needed anyway.
func (f *createFlags) noneEmpty(flags *pflag.FlagSet) error {
	var empty *usageError
	flags.Visit(func(flag *pflag.Flag) {
		if empty != nil || optionOf(flag.Name) == "" || flag.Name == "transform" || flag.Value.Type() != "string" || flag.Value.String() != "" {
			return
		}
		empty = &usageError{text: "--" + flag.Name + " is given, and empty", next: "leave it out for the default"}
		if f.edit {
			empty.next = "for the default: --unset " + flag.Name
		}
	})
	if empty != nil {
		return empty
	}
	return nil
}

// asFlag tells an error about a field as one about its flag.
func asFlag(err error) error {
	var e *graphmill.Error
	if !errors.As(err, &e) {
		return err
	}
	usage := &usageError{text: e.Text, next: e.Next}
	switch e.Field {
	case "":
	case "name":
		usage.text = "NAME: " + e.Text
	case "configs", "credentials": // their flags give one entry each
		usage.text = fmt.Sprintf("--%s: %s", strings.TrimSuffix(e.Field, "s"), e.Text)
	default:
		flag := strings.NewReplacer("limits.", "limit-", "_", "-").Replace(strings.TrimSuffix(e.Field, "_ms"))
		usage.text = fmt.Sprintf("--%s: %s", flag, e.Text)
	}
	return usage
}

// settingFlags give SETTINGS of a transformation.
type settingFlags struct {
	pairs []string // NAME=VALUE
	file  string
}

func (f *settingFlags) add(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.pairs, "setting", nil, "a setting of the transformation, as NAME=VALUE; may be repeated")
	fs.StringVar(&f.file, "settings-file", "", "settings of the transformation as a YAML or JSON map; --setting goes before")
}

func (f *settingFlags) read() (map[string]string, error) {
	settings := map[string]string{}
	if f.file != "" {
		doc, err := readFile(f.file)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(doc, &settings); err != nil {
			return nil, fmt.Errorf("read %s as a map of settings: %w", f.file, err)
		}
	}
	for _, kv := range f.pairs {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, wrongUsage("--setting %q is not of the form NAME=VALUE", kv)
		}
		settings[k] = v
	}
	if len(settings) == 0 {
		return nil, nil
	}
	return settings, nil
}
