package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

const brokerDefault = -1 // partitions of a new topic: the broker decides

func (a *app) produceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send lines of standard input to a topic of Kafka or Pulsar",
		Long: `Sends each line of standard input as one message, and answers once the broker has
all of them. With --key-separator what stands before the separator is the key;
messages of one key stay in order. With --json each line is an object with payload,
key and headers, as graphmill run takes them; headers are the properties of Pulsar.

An absent topic is created; of Pulsar by the broker, where it is set up so.`,
		Example: `  echo '{"userId": 7}' | graphmill produce clicks
  printf '7:first\n7:second\n' | graphmill produce events --key-separator :
  echo '{"payload": "first", "key": "7", "headers": [["kind", "a"]]}' \
      | graphmill produce events --json

  # to Pulsar, with a token
  echo '{"userId": 7}' | graphmill produce clicks --source pulsar \
      --pulsar-service-url pulsar://127.0.0.1:6650 --credential token=@token.txt`,
		Args: takes("TOPIC"),
	}
	p := &produceFlags{app: a}
	cmd.Flags().StringVar(&p.source, "source", graphmill.SourceNameKafka, "where the topic is: kafka, which Redpanda is too, or pulsar")
	cmd.Flags().StringSliceVar(&p.brokers, "kafka-bootstrap-servers", []string{defaultBroker}, "Kafka: brokers, as host:port (or "+brokersVar+")")
	cmd.Flags().StringVar(&p.serviceURL, "pulsar-service-url", defaultPulsar, "Pulsar: its address, as pulsar://host:port (or "+pulsarVar+")")
	cmd.Flags().StringVar(&p.separator, "key-separator", "", "what parts key and payload")
	cmd.Flags().BoolVar(&p.json, "json", false, "each line is an object with payload, key and headers")
	p.client.add(cmd.Flags())
	cmd.Flags().Int32Var(&p.partitions, "partitions", brokerDefault, "Kafka: partitions of the topic, if it has to be created (default the broker's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := p.check(cmd, args[0]); err != nil {
			return err
		}
		if err := a.loadClientSettings(cmd); err != nil {
			return err
		}
		producer, err := p.open(cmd.Context(), args[0])
		if err != nil {
			return p.notProduced(err)
		}
		defer producer.Close()
		if f, ok := a.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintln(a.err, "each line is a message; Ctrl-D ends")
		}
		sendErr := p.lines(cmd.Context(), producer, a.input(cmd.Context()))
		sent, err := producer.Flush(cmd.Context())
		fmt.Fprintf(a.out, "%s sent to %s\n", count(sent, "message", "messages"), args[0])
		if sendErr != nil {
			err = sendErr
		}
		return p.notProduced(err)
	}
	return cmd
}

// lines sends each line of in. It stops at the first that fails.
func (p *produceFlags) lines(ctx context.Context, to producer, in io.Reader) error {
	lines := bufio.NewReader(in)
	read := p.reader()
	for number := 1; ; {
		text, err := lines.ReadString('\n')
		if text = strings.TrimRight(text, "\r\n"); text != "" {
			m, wrong := read(text)
			if wrong != "" {
				return graphmill.Invalid("", "message %d %s; it and what follows were not sent", number, wrong)
			}
			if err := to.Send(ctx, m.Key, m.Payload, m.Headers); err != nil {
				return err
			}
			number++
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the messages: %w", err)
		}
	}
}

// reader returns what makes a message of a line, or says what is wrong with it.
func (p *produceFlags) reader() func(text string) (m graphmill.Message, wrong string) {
	decode := api.MessageDecoder()
	return func(text string) (m graphmill.Message, wrong string) {
		switch {
		case p.json:
			given, err := decode([]byte(text))
			if err == nil {
				m, err = given.Message(0)
			}
			if err != nil {
				return m, fmt.Sprintf(`is no object such as {"payload": "text", "key": "k"}: %v`, err)
			}
			return m, ""
		case p.separator == "":
			return graphmill.Message{Payload: []byte(text)}, ""
		}
		key, payload, ok := strings.Cut(text, p.separator)
		if !ok {
			return m, fmt.Sprintf("has no %q to part key and payload", p.separator)
		}
		return graphmill.Message{Key: []byte(key), Payload: []byte(payload)}, ""
	}
}
