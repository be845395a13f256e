package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// checkLimit bounds each check.
const checkLimit = 5 * time.Second

// Results of a check.
const (
	isOK   = "ok"
	isWarn = "warn" // works, and may not be what is meant
	isFail = "fail" // does not work
)

// finding is what a check has found. No secret stands in it.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Text   string `json:"text"`
	Next   string `json:"next_step,omitempty"`
}

func ok(format string, args ...any) finding {
	return finding{Result: isOK, Text: fmt.Sprintf(format, args...)}
}

func warn(next, format string, args ...any) finding {
	return finding{Result: isWarn, Text: fmt.Sprintf(format, args...), Next: next}
}

func fail(next, format string, args ...any) finding {
	return finding{Result: isFail, Text: fmt.Sprintf(format, args...), Next: next}
}

// failed tells an error with its next step.
func failed(err error) finding {
	text, next := explain(err)
	return fail(next, "%s", text)
}

// check is one of the doctor's questions. It returns before its context's end,
// or little after.
type check struct {
	name string
	ask  func(ctx context.Context) []finding
}

type diagnosis struct {
	Findings []finding `json:"findings"`
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what a server needs, and say what to mend",
		Long: `Takes the settings of graphmill serve, from flags, variables and graphmill.yaml, and
looks at everything that a server with them would need: the settings themselves, the
data directory, the ready modules, the brokers, the database or the ledger, and the
server that runs already, if there is one, with its streams. It changes nothing: a
folder that tells whether another can be made there is removed at once. Each line
says ok, warn or fail, and what to mend; with a fail the exit status is 1.

Brokers are asked without a login, and those of Kafka without TLS, unless --stream
names a stream of the running server, whose brokers are asked with its configs, or
--kafka-config and --kafka-credential, --pulsar-config and --pulsar-credential give
them. Secrets and files of --secrets-dir stand for
themselves; what else is secret in a definition no server tells: give it again.`,
		Example: `  graphmill doctor --graph-uri bolt://127.0.0.1:7687 --graph-user neo4j \
      --graph-password-file password.txt --kafka-bootstrap-servers 127.0.0.1:9092
  graphmill doctor --server http://127.0.0.1:7480 -o json

  graphmill doctor --graph-uri ledger:l --pulsar-service-url pulsar://127.0.0.1:6650 \
      --pulsar-admin-url http://127.0.0.1:8080 --pulsar-credential token=@token.txt

  # can a stream's brokers be reached, with its TLS and its login?
  graphmill doctor --stream ratings --kafka-credential sasl.password=@password.txt`,
		Args: takes(),
	}
	var s serveSettings
	s.add(cmd.Flags())
	s.dev.add(cmd.Flags()) // so that the settings of graphmill dev can be looked at
	cmd.Flags().Lookup("dev-kafka-listen").Hidden = true
	server := cmd.Flags().String("server", "", "address of the server that runs (or "+serverVar+"; default: what --listen says)")
	stream := cmd.Flags().String("stream", "", "a stream of the server that runs, whose brokers are to be asked with its configs")
	var kafka, pulsar clientFlags
	kafka.addNamed(cmd.Flags(), "kafka-", "a setting of Kafka's client by librdkafka's name")
	pulsar.addNamed(cmd.Flags(), "pulsar-", "a setting of Pulsar's client by the name that it has in Pulsar's clients")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &doctor{app: a, settings: &s, stream: *stream, kafka: &kafka, pulsar: &pulsar}
		settings := d.readSettings(cmd)
		d.server = *server // flag, variable or file
		report := diagnosis{Findings: settings}
		table := out.format == "table"
		if table {
			printFindings(a.out, settings)
		}
		for _, c := range d.examine(cmd.Context()) {
			if table && a.onTerminal() {
				fmt.Fprintf(a.err, "\r\x1b[Klooking at: %s", c.name)
			}
			found := <-c.found
			if table {
				if a.onTerminal() {
					fmt.Fprint(a.err, "\r\x1b[K")
				}
				printFindings(a.out, found)
			}
			report.Findings = append(report.Findings, found...)
		}
		if cmd.Context().Err() != nil {
			return cmd.Context().Err()
		}
		if !table {
			if err := out.print(report, nil); err != nil {
				return err
			}
		}
		for _, f := range report.Findings {
			if f.Result == isFail {
				return &silentError{}
			}
		}
		return nil
	}
	return cmd
}

// doctor looks at what the settings name.
type doctor struct {
	app      *app
	settings *serveSettings
	server   string // empty: what --listen says
	stream   string // whose brokers are asked; empty: those of the settings
	kafka    *clientFlags
	pulsar   *clientFlags
}

// examination is a check that is under way.
type examination struct {
	name  string
	found <-chan []finding // gets one value
}

// examine begins all checks at once, and returns them in the order in which they
// are told.
func (d *doctor) examine(ctx context.Context) []examination {
	var all []examination
	for _, c := range d.checks() {
		found := make(chan []finding, 1)
		go func() {
			limited, cancel := context.WithTimeout(ctx, checkLimit)
			defer cancel()
			findings := c.ask(limited)
			for i := range findings {
				findings[i].Check = c.name
			}
			found <- findings
		}()
		all = append(all, examination{c.name, found})
	}
	return all
}

func (d *doctor) checks() []check {
	return []check{
		{"data directory", func(context.Context) []finding { return d.dataDir() }},
		{"files of secrets", func(context.Context) []finding { return d.secretFiles() }},
		{"ready modules", func(context.Context) []finding { return d.plugins() }},
		{"brokers", d.brokers},
		{"statements", d.sink},
		{"server", d.runningServer},
	}
}

func printFindings(w io.Writer, findings []finding) {
	out := plainText{w}
	for _, f := range findings {
		fmt.Fprintf(out, "%-5s %-17s %s\n", f.Result, f.Check, strings.ReplaceAll(f.Text, "\n", " "))
		if f.Next != "" {
			fmt.Fprintf(out, "%-5s %-17s   next: %s\n", "", "", f.Next)
		}
	}
}
