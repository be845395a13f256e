// Handwritten is what a user would write for one topic of ratings without
// Graphmill: typed decoding, one UNWIND by hand, one transaction a batch. It is
// the limit that the benchmark measures Graphmill against, so it leaves out all
// that it can: no retries, no dead letters, no settings.
//
// It prints READY when the partitions are assigned, and ends after --rows
// messages.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/twmb/franz-go/pkg/kgo"
)

const query = `UNWIND $rows AS row
MERGE (u:User {id: row.userId})
MERGE (m:Movie {id: row.movieId}) ON CREATE SET m.title = row.title
MERGE (u)-[r:RATED]->(m) SET r.rating = row.rating`

type rating struct {
	UserID  int64   `json:"userId"`
	MovieID int64   `json:"movieId"`
	Rating  float64 `json:"rating"`
	Title   string  `json:"title"`
}

func main() {
	var o options
	flag.StringVar(&o.brokers, "brokers", "", "bootstrap address")
	flag.StringVar(&o.topic, "topic", "", "topic")
	flag.StringVar(&o.group, "group", "", "consumer group")
	flag.StringVar(&o.uri, "uri", "", "Bolt URI")
	flag.StringVar(&o.user, "user", "", "user of the database")
	flag.IntVar(&o.rows, "rows", 0, "messages to read")
	flag.IntVar(&o.batch, "batch", 1000, "messages of one transaction")
	flag.Parse()
	o.password = os.Getenv("GRAPH_PASSWORD")
	if err := load(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "handwritten:", err)
		os.Exit(1)
	}
}

type options struct {
	brokers, topic, group, uri, user, password string
	rows, batch                                int
}

func load(ctx context.Context, o options) error {
	driver, err := neo4j.NewDriverWithContext(o.uri, neo4j.BasicAuth(o.user, o.password, ""))
	if err != nil {
		return err
	}
	defer driver.Close(ctx)
	assigned := make(chan struct{}, 1)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.brokers), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			select {
			case assigned <- struct{}{}:
			default:
			}
		}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	session := driver.NewSession(ctx, neo4j.SessionConfig{DatabaseName: "neo4j"})
	defer session.Close(ctx)
	<-assigned
	fmt.Println("READY")
	for done := 0; done < o.rows; {
		fetches := client.PollRecords(ctx, o.batch)
		if err := fetches.Err(); err != nil {
			return err
		}
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		rows := make([]any, len(records))
		for i, record := range records {
			var r rating
			if err := json.Unmarshal(record.Value, &r); err != nil {
				return err
			}
			rows[i] = map[string]any{"userId": r.UserID, "movieId": r.MovieID, "rating": r.Rating, "title": r.Title}
		}
		_, err := session.ExecuteWrite(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
			result, err := tx.Run(ctx, query, map[string]any{"rows": rows})
			if err != nil {
				return nil, err
			}
			return result.Consume(ctx)
		})
		if err != nil {
			return err
		}
		if err := client.CommitRecords(ctx, records...); err != nil {
			return err
		}
		done += len(records)
	}
	return nil
}
