package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill/integration/stack"
)

const (
	topic  = "ratings"
	users  = 2500
	movies = 1000
)

// bench is a broker with the topic, a database, and a server, used by all
// rounds.
type bench struct {
	dir    string
	kafka  *stack.Kafka
	neo4j  *stack.Neo4j
	driver neo4j.DriverWithContext
	limit  string // the hand-written program
	server *exec.Cmd
	url    string
}

// open builds the programs, starts everything and fills the topic.
func open(ctx context.Context, out io.Writer, rows int) (*bench, error) {
	b := &bench{}
	if err := b.prepare(ctx, out, rows); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context, out io.Writer, rows int) (err error) {
	if b.dir, err = os.MkdirTemp("", "graphmill-bench-"); err != nil {
		return err
	}
	fmt.Fprintln(out, "building the hand-written program")
	b.limit = filepath.Join(b.dir, "handwritten")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", b.limit, "./integration/bench/handwritten").CombinedOutput(); err != nil {
		return fmt.Errorf("build the hand-written program: %w\n%s", err, text)
	}
	if b.kafka, err = stack.StartKafka(ctx, stack.KafkaConfig{Log: out}); err != nil {
		return err
	}
	if b.neo4j, err = stack.StartNeo4j(ctx, stack.Neo4jConfig{Log: out}); err != nil {
		return err
	}
	if b.driver, err = neo4j.NewDriverWithContext(b.neo4j.URI(), neo4j.BasicAuth(b.neo4j.User(), b.neo4j.Password(), "")); err != nil {
		return err
	}
	for _, label := range []string{"User", "Movie"} {
		if _, err := b.query(ctx, fmt.Sprintf("CREATE CONSTRAINT FOR (n:%s) REQUIRE n.id IS UNIQUE", label)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "producing %d ratings\n", rows)
	if err := b.produce(ctx, rows); err != nil {
		return fmt.Errorf("produce ratings: %w", err)
	}
	return b.serve(ctx)
}

// produce fills the topic, which has one partition as in reference figures of
// other loaders. Every rating is of another pair of user and movie, so that
// relationships count rows.
func (b *bench) produce(ctx context.Context, rows int) error {
	if rows > users*movies {
		return fmt.Errorf("%d rows are more than the %d pairs there are", rows, users*movies)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		return err
	}
	var first error
	for i := range rows {
		user, nth := i%users, i/users
		movie := (nth*37 + user) % movies
		value, err := json.Marshal(map[string]any{
			"userId": user, "movieId": movie, "rating": float64(i%10+1) / 2, "title": fmt.Sprintf("The Movie No. %d", movie),
		})
		if err != nil {
			return err
		}
		client.Produce(ctx, &kgo.Record{Key: fmt.Append(nil, user), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil && first == nil { // callbacks come one at a time
				first = err
			}
		})
	}
	return errors.Join(client.Flush(ctx), first)
}

// serve starts graphmill with the plugins beside it.
func (b *bench) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	l.Close()
	log, err := os.Create(filepath.Join(b.dir, "graphmill.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	b.url = "http://" + address
	b.server = exec.CommandContext(ctx, filepath.Join("bin", "graphmill"), "serve",
		"--listen", address, "--data-dir", filepath.Join(b.dir, "data"),
		"--kafka-bootstrap-servers", b.kafka.Brokers()[0],
		"--graph-uri", b.neo4j.URI(), "--graph-user", b.neo4j.User(), "--graph-password-file", b.neo4j.PasswordFile(), "--graph-database", "neo4j")
	b.server.Stdout, b.server.Stderr = log, log
	if err := b.server.Start(); err != nil {
		return err
	}
	ready := func() bool {
		resp, err := http.Get(b.url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if err := poll(ctx, time.Minute, ready); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("graphmill does not answer: %w\n%s", err, text)
	}
	return nil
}

// wipe empties the graph, so that every round begins alike.
func (b *bench) wipe(ctx context.Context) error {
	_, err := b.query(ctx, "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS")
	return err
}

// awaitRows returns once at least rows relationships are in the graph. Their
// number is kept by the database, so that asking costs it nothing.
func (b *bench) awaitRows(ctx context.Context, rows int) error {
	var err error
	var n int64
	perr := poll(ctx, 10*time.Minute, func() bool {
		n, err = b.query(ctx, "MATCH ()-[r:RATED]->() RETURN count(r)")
		return err != nil || n >= int64(rows)
	})
	if perr != nil {
		perr = fmt.Errorf("after %d of %d rows: %w", n, rows, perr)
	}
	return errors.Join(err, perr)
}

// query returns the first value of the first row, if that is a number.
func (b *bench) query(ctx context.Context, text string) (int64, error) {
	session := b.driver.NewSession(ctx, neo4j.SessionConfig{DatabaseName: "neo4j"})
	defer session.Close(ctx)
	result, err := session.Run(ctx, text, nil)
	if err != nil {
		return 0, err
	}
	records, err := result.Collect(ctx)
	if err != nil || len(records) == 0 {
		return 0, err
	}
	n, _ := records[0].Values[0].(int64)
	return n, nil
}

// poll asks every 10 ms until done or the limit.
func poll(ctx context.Context, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// close ends what was started.
func (b *bench) close() error {
	var errs []error
	if b.server != nil && b.server.Process != nil {
		_ = b.server.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = b.server.Wait()
	}
	if b.driver != nil {
		errs = append(errs, b.driver.Close(context.Background()))
	}
	if b.neo4j != nil {
		errs = append(errs, b.neo4j.Close())
	}
	if b.kafka != nil {
		errs = append(errs, b.kafka.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}
