package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill/integration/stack"
)

// toGraph is a Kafka with the topic, a database, and a server, used by all rounds.
type toGraph struct {
	dir    string
	kafka  *stack.Kafka
	neo4j  *stack.Neo4j
	driver neo4j.DriverWithContext
	limit  string // the hand-written program
	server *program
}

// openGraph builds the hand-written program, starts everything and fills the topic.
func openGraph(ctx context.Context, out io.Writer, rows int) (*toGraph, error) {
	b := &toGraph{}
	if err := b.prepare(ctx, out, rows); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *toGraph) prepare(ctx context.Context, out io.Writer, rows int) (err error) {
	if err := enough(rows); err != nil {
		return err
	}
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
	b.server, err = serve(ctx, b.dir, "--kafka-bootstrap-servers", b.kafka.Brokers()[0],
		"--graph-uri", b.neo4j.URI(), "--graph-user", b.neo4j.User(), "--graph-password-file", b.neo4j.PasswordFile(), "--graph-database", "neo4j")
	return err
}

// produce fills the topic, which has one partition as in reference figures of
// other loaders.
func (b *toGraph) produce(ctx context.Context, rows int) error {
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
		r := ratingOf(i)
		value, err := json.Marshal(r)
		if err != nil {
			return err
		}
		client.Produce(ctx, &kgo.Record{Key: fmt.Append(nil, r.User), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil && first == nil { // callbacks come one at a time
				first = err
			}
		})
	}
	return errors.Join(client.Flush(ctx), first)
}

// wipe empties the graph, so that every round begins alike.
func (b *toGraph) wipe(ctx context.Context) error {
	_, err := b.query(ctx, "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS")
	return err
}

// awaitRows returns once at least rows relationships are in the graph. Their
// number is kept by the database, so that asking costs it nothing.
func (b *toGraph) awaitRows(ctx context.Context, rows int) error {
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
func (b *toGraph) query(ctx context.Context, text string) (int64, error) {
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

// close ends what was started.
func (b *toGraph) close() error {
	var errs []error
	b.server.close()
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
