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
	"github.com/graphmill/graphmill/sources/kafka"
)

const (
	defaultBroker = "127.0.0.1:9092"
	brokersVar    = varPrefix + "KAFKA_BOOTSTRAP_SERVERS"

	brokerDefault = -1 // partitions of a new topic: the broker decides
)

func (a *app) produceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send lines of standard input to a topic",
		Long: `Sends each line of standard input as one message, and answers once the broker has
all of them. With --key-separator what stands before the separator is the key;
messages of one key stay in order. The topic is created if it is absent.`,
		Example: `  echo '{"userId": 7}' | graphmill produce clicks
  printf '7:first\n7:second\n' | graphmill produce events --key-separator :`,
		Args: takes("TOPIC"),
	}
	servers := cmd.Flags().StringSlice("kafka-bootstrap-servers", []string{defaultBroker}, "brokers, as host:port (or "+brokersVar+")")
	separator := cmd.Flags().String("key-separator", "", "what parts key and payload")
	var client clientFlags
	client.add(cmd.Flags())
	partitions := cmd.Flags().Int32("partitions", brokerDefault, "partitions of the topic, if it has to be created (default the broker's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "" {
			return wrongUsage("TOPIC is empty")
		}
		if *partitions < 1 && cmd.Flags().Changed("partitions") {
			return wrongUsage("--partitions %d is not at least 1", *partitions)
		}
		if err := a.loadClientSettings(cmd); err != nil {
			return err
		}
		if len(*servers) == 0 { // a variable may be set, and empty
			*servers = []string{defaultBroker}
		}
		settings, notes, err := client.settings(a)
		if err != nil {
			return asFlagOf(err)
		}
		for _, n := range notes {
			fmt.Fprintf(a.err, "warning: %s\n", n)
		}
		producer, err := kafka.NewProducer(*servers, settings)
		if err != nil {
			return &usageError{text: "--kafka-bootstrap-servers: " + err.Error()}
		}
		defer producer.Close()
		if err := producer.EnsureTopic(cmd.Context(), args[0], *partitions); err != nil {
			return notProduced(err)
		}
		if f, ok := a.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintln(a.err, "each line is a message; Ctrl-D ends")
		}
		sendErr := produceLines(cmd.Context(), producer, args[0], *separator, a.input(cmd.Context()))
		sent, err := producer.Flush(cmd.Context())
		fmt.Fprintf(a.out, "%s sent to %s\n", count(sent, "message", "messages"), args[0])
		if sendErr != nil {
			err = sendErr
		}
		return notProduced(err)
	}
	return cmd
}

// produceLines sends each line of in. It stops at the first that fails.
func produceLines(ctx context.Context, producer *kafka.Producer, topic, separator string, in io.Reader) error {
	lines := bufio.NewReader(in)
	for number := 1; ; {
		text, err := lines.ReadString('\n')
		if text = strings.TrimRight(text, "\r\n"); text != "" {
			key, value, ok := []byte(nil), []byte(text), true
			if separator != "" {
				var k, v string
				k, v, ok = strings.Cut(text, separator)
				key, value = []byte(k), []byte(v)
			}
			if !ok {
				return graphmill.Invalid("", "message %d has no %q to part key and payload; it and what follows were not sent", number, separator)
			}
			if err := producer.Send(ctx, topic, key, value, nil); err != nil {
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

// notProduced adds where the brokers are named to an outage of which no more is
// known.
func notProduced(err error) error {
	var f *graphmill.Fault
	if !errors.As(err, &f) || f.Code != "broker_unreachable" {
		return err
	}
	told := *f
	told.Next = "name the brokers with --kafka-bootstrap-servers or " + brokersVar + "; graphmill dev prints where its own listens"
	return &told
}
