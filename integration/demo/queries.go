package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

// queryLimit bounds one question to the database.
const queryLimit = time.Minute

// count asks where the statements went what is there now. In a database of this
// run alone the numbers are known, and others are a failure.
func (d *demo) count(ctx context.Context) error {
	if d.graph.isLedger() {
		return d.countLedger()
	}
	driver, err := d.graph.open()
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }() // reads only
	for _, q := range []struct {
		query string
		want  int64
	}{
		{"MATCH (u:User) RETURN count(u)", users},
		{"MATCH (m:Movie) RETURN count(m)", movies},
		{"MATCH (:User)-[r:RATED]->(:Movie) RETURN count(r)", ratings},
	} {
		rows, err := d.graph.ask(ctx, driver, q.query)
		if err != nil {
			return err
		}
		n, _ := rows[0][0].(int64) // count answers an integer
		d.say("  %-52s %s", q.query, thousands(n))
		if d.graph.own && n != q.want {
			return fmt.Errorf("the database holds %d where %d are right: %s", n, q.want, q.query)
		}
	}
	best := "MATCH (m:Movie)<-[r:RATED]-() RETURN m.title, round(avg(r.rating), 2) AS stars, count(r) ORDER BY stars DESC, m.title LIMIT 3"
	rows, err := d.graph.ask(ctx, driver, best)
	if err != nil {
		return err
	}
	d.say("  %s", best)
	for _, row := range rows {
		d.say("    %-24v %v of 5 by %v users", row[0], row[1], row[2])
	}
	return nil
}

// addConstraints gives a database of this run alone what MERGE looks nodes up by:
// without an index it would read all users and movies for each rating.
func (d *demo) addConstraints(ctx context.Context) error {
	if d.graph.isLedger() || !d.graph.own {
		return nil
	}
	driver, err := d.graph.open()
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }() // each query has been answered
	for _, query := range []string{
		"CREATE CONSTRAINT FOR (u:User) REQUIRE u.id IS UNIQUE",
		"CREATE CONSTRAINT FOR (m:Movie) REQUIRE m.id IS UNIQUE",
	} {
		if _, err := d.graph.ask(ctx, driver, query); err != nil {
			return err
		}
		d.say("  %s", query)
	}
	return nil
}

func (g graph) open() (neo4j.DriverWithContext, error) {
	auth := neo4j.NoAuth()
	if g.user != "" {
		password, err := os.ReadFile(g.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("read the password of the database: %w", err)
		}
		auth = neo4j.BasicAuth(g.user, strings.TrimRight(string(password), "\r\n"), "")
	}
	driver, err := neo4j.NewDriverWithContext(g.uri, auth)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return driver, nil
}

func (g graph) ask(ctx context.Context, driver neo4j.DriverWithContext, query string) ([][]any, error) {
	limited, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	result, err := neo4j.ExecuteQuery(limited, driver, query, nil, neo4j.EagerResultTransformer,
		neo4j.ExecuteQueryWithDatabase(g.database))
	if err != nil {
		return nil, fmt.Errorf("ask the database %s: %w", query, err)
	}
	rows := make([][]any, len(result.Records))
	for i, r := range result.Records {
		rows[i] = r.Values
	}
	return rows, nil
}

// awaitBolt waits until the database answers.
func (g graph) awaitBolt(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	driver, err := g.open()
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }() // it has nothing to lose
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		err := driver.VerifyConnectivity(limited)
		if err == nil {
			return nil
		}
		select {
		case <-limited.Done():
			return errors.Join(fmt.Errorf("the database does not answer within %s: %w", limit, err), ctx.Err())
		case <-poll.C:
		}
	}
}

// countLedger counts the statements in the ledger's lines, one a batch.
func (d *demo) countLedger() error {
	file, err := os.Open(d.graph.ledgerFile())
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { _ = file.Close() }() // read only
	var batches, statements int64
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var batch struct {
			Statements []json.RawMessage `json:"statements"`
		}
		if err := json.Unmarshal(line, &batch); err != nil {
			return fmt.Errorf("read line %d of the ledger: %w", batches+1, err)
		}
		batches++
		statements += int64(len(batch.Statements))
	}
	d.say("  %s statements in %s batches, one line each, in %s", thousands(statements), thousands(batches), d.graph.ledgerFile())
	if d.graph.own && statements != ratings {
		return fmt.Errorf("the ledger holds %d statements where %d are right", statements, ratings)
	}
	return nil
}
