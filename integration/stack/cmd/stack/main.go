// Stack starts and stops a real Kafka, a real Pulsar and a real Neo4j, to try
// things by hand:
//
//	go run ./integration/stack/cmd/stack up kafka neo4j --dir /tmp/stack
//	. /tmp/stack/stack.env
//	go run ./integration/stack/cmd/stack down --dir /tmp/stack
//
// What is started goes on after the program has ended. Run without arguments for
// the whole usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/graphmill/graphmill/integration/stack"
)

const usage = `Start and stop a real Kafka, Pulsar and Neo4j, from Maven artifacts.

  stack up kafka|pulsar|neo4j... [--dir DIR] [--token] [--tls] [--batch-index-ack]
                                           start them, go on with the data in DIR if there is some
  stack down [--dir DIR] [--kill] [--remove]
                                           stop them; --kill: with SIGKILL; --remove: delete DIR's data
  stack resolve [kafka|pulsar|neo4j...]    fetch and compile all that a start needs, so that it needs no network

For Pulsar, at each up anew:
  --token            ask clients for a token; the superuser's is in PULSAR_TOKEN and in PULSAR_TOKEN_FILE
  --tls              listen with TLS too: PULSAR_TLS_SERVICE_URL, to be trusted by PULSAR_CA_FILE
  --batch-index-ack  keep acknowledgements of single messages of a batch

DIR is stack-data unless given. up writes DIR/stack.env, to be read by a shell (. DIR/stack.env).
`

// The exit statuses.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout)
	switch {
	case err == nil:
		return statusDone
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "stack: %v\n\n%s", err, usage)
		return statusUsage
	default:
		fmt.Fprintf(stderr, "stack: %v\n", err)
		return statusFailed
	}
}

func dispatch(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: a command is needed", errUsage)
	}
	command, args := args[0], args[1:]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dir := "stack-data"
	var down stack.DownConfig
	pulsar := stack.PulsarConfig{Log: out, Detached: true}
	switch command {
	case "up":
		flags.StringVar(&dir, "dir", dir, "")
		flags.BoolVar(&pulsar.Token, "token", false, "")
		flags.BoolVar(&pulsar.TLS, "tls", false, "")
		flags.BoolVar(&pulsar.BatchIndexAck, "batch-index-ack", false, "")
	case "down":
		flags.StringVar(&dir, "dir", dir, "")
		flags.BoolVar(&down.Kill, "kill", false, "")
		flags.BoolVar(&down.Remove, "remove", false, "")
	case "resolve":
	case "help", "-h", "--help":
		_, err := io.WriteString(out, usage)
		return err
	default:
		return fmt.Errorf("%w: there is no command %q", errUsage, command)
	}
	names, err := parseMixed(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(out, usage)
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errUsage, err)
	}
	for _, name := range names {
		if !slices.Contains(stack.Names(), name) {
			return fmt.Errorf("%w: there is no server %q", errUsage, name)
		}
	}
	switch command {
	case "up":
		if len(names) == 0 {
			return fmt.Errorf("%w: up needs the names of servers", errUsage)
		}
		if (pulsar.Token || pulsar.TLS || pulsar.BatchIndexAck) && !slices.Contains(names, "pulsar") {
			return fmt.Errorf("%w: --token, --tls and --batch-index-ack are for pulsar, which is not among the names", errUsage)
		}
		return up(ctx, dir, names, pulsar, out)
	case "down":
		if len(names) > 0 {
			return fmt.Errorf("%w: down stops all servers of a directory and takes no names", errUsage)
		}
		down.Log = out
		return tearDown(ctx, dir, down)
	default:
		if len(names) == 0 {
			names = stack.Names()
		}
		return stack.Resolve(ctx, out, names...)
	}
}

// parseMixed parses flags that may stand before, between and behind names.
func parseMixed(flags *flag.FlagSet, args []string) (names []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			return names, nil
		}
		names, args = append(names, args[0]), args[1:]
	}
}

const envFile = "stack.env"

// envFileOf is the part of envFile that concerns one server.
func envFileOf(name string) string { return name + ".env" }

// up starts the servers one after another: each needs the whole machine while
// it starts. Those that are up when one fails stay up, and their addresses are
// written all the same.
func up(ctx context.Context, dir string, names []string, pulsar stack.PulsarConfig, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	startErr := startAll(ctx, dir, names, pulsar, out)
	all, err := joinEnv(dir)
	if err != nil || all == "" {
		return errors.Join(startErr, err)
	}
	fmt.Fprintf(out, "their addresses: . %s\nto stop them: stack down --dir %s\n", all, dir)
	return startErr
}

// startAll starts servers until one fails.
func startAll(ctx context.Context, dir string, names []string, pulsar stack.PulsarConfig, out io.Writer) error {
	for _, name := range names {
		home := filepath.Join(dir, name)
		var vars []stack.EnvVar
		switch name {
		case "kafka":
			k, err := stack.StartKafka(ctx, stack.KafkaConfig{Dir: home, Log: out, Detached: true})
			if err != nil {
				return err
			}
			vars = k.Env()
		case "pulsar":
			pulsar.Dir = home
			p, err := stack.StartPulsar(ctx, pulsar)
			if err != nil {
				return err
			}
			vars = p.Env()
		case "neo4j":
			n, err := stack.StartNeo4j(ctx, stack.Neo4jConfig{Dir: home, Log: out, Detached: true})
			if err != nil {
				return err
			}
			vars = n.Env()
		}
		if err := stack.WriteEnv(filepath.Join(dir, envFileOf(name)), vars); err != nil {
			return err
		}
	}
	return nil
}

// joinEnv writes the addresses of all servers of dir into one file, those that
// an earlier up has started too. It returns the file's path, empty where there
// are no servers.
func joinEnv(dir string) (string, error) {
	var all []byte
	for _, name := range stack.Names() {
		one, err := os.ReadFile(filepath.Join(dir, envFileOf(name)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		all = append(all, one...)
	}
	if len(all) == 0 {
		return "", nil
	}
	path := filepath.Join(dir, envFile)
	return path, os.WriteFile(path, all, 0o600)
}

// tearDown stops the servers and removes the files with their addresses.
func tearDown(ctx context.Context, dir string, cfg stack.DownConfig) error {
	if err := stack.Down(ctx, dir, cfg); err != nil {
		return err
	}
	files := []string{envFile}
	for _, name := range stack.Names() {
		files = append(files, envFileOf(name))
	}
	for _, file := range files {
		if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if !cfg.Remove {
		return nil
	}
	// Only if nothing else is in it.
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return nil
}
