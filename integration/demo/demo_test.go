package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newDemo makes a demo on a machine that has only the given programs, shell
// scripts by name.
func newDemo(t *testing.T, programs map[string]string) (*demo, *bytes.Buffer) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	t.Setenv("PATH", bin)
	t.Setenv("JAVA_HOME", "")
	for _, name := range []string{"URI", "USER", "PASSWORD_FILE", "DATABASE"} {
		t.Setenv("GRAPHMILL_GRAPH_"+name, "")
	}
	out := &bytes.Buffer{}
	return &demo{out: out, dir: t.TempDir()}, out
}

func TestGraphIsTheUsersOwnWhereOneIsNamed(t *testing.T) {
	d, out := newDemo(t, nil)
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	t.Setenv("GRAPHMILL_GRAPH_URI", "neo4j+s://graph.example.org")
	t.Setenv("GRAPHMILL_GRAPH_USER", "ann")
	t.Setenv("GRAPHMILL_GRAPH_PASSWORD_FILE", "secret.txt")
	t.Setenv("GRAPHMILL_GRAPH_DATABASE", "movies")
	require.NoError(t, d.startGraph(t.Context()))
	require.False(t, d.graph.own)
	require.Equal(t, []string{"--graph-uri", "neo4j+s://graph.example.org", "--graph-user", "ann",
		"--graph-password-file", filepath.Join(here, "secret.txt"), "--graph-database", "movies"}, d.graph.flags())
	require.Contains(t, out.String(), "since GRAPHMILL_GRAPH_URI is set")
}

func TestGraphIsTheLedgerWhereThereIsNoDatabaseAndTheReasonsAreSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		programs map[string]string
		reason   string
	}{
		"no Docker":                    {nil, "not Neo4j in Docker: docker is not installed"},
		"a Docker without an engine":   {map[string]string{"docker": "echo 'Cannot connect' >&2; exit 1"}, "its engine does not answer"},
		"an image that is not fetched": {map[string]string{"docker": `[ "$1" = info ] || { echo 'pull access denied' >&2; exit 125; }`}, "pull access denied"},
	} {
		t.Run(name, func(t *testing.T) {
			d, out := newDemo(t, tc.programs)
			require.NoError(t, d.startGraph(t.Context()))
			require.True(t, d.graph.isLedger())
			require.Equal(t, []string{"--graph-uri", "ledger:" + filepath.Join(d.dir, "ledger.jsonl")}, d.graph.flags())
			require.Contains(t, out.String(), tc.reason)
			require.Contains(t, out.String(), "not Neo4j by Java and Maven: java is not installed")
			require.NoError(t, d.cleanUp(false))
		})
	}
}

func TestGraphIsNeo4jInDockerWhereThatRuns(t *testing.T) {
	bolt := boltserver.Start(t, boltserver.Options{})
	removed := filepath.Join(t.TempDir(), "removed")
	d, out := newDemo(t, map[string]string{"docker": fmt.Sprintf(`
case $1 in
info) echo 28.2 ;;
run)
  case $* in *"$NEO4J_AUTH"*) echo 'the password is on the command line' >&2; exit 1 ;; esac
  echo 'Unable to find image locally' >&2
  echo c0ffee ;;
port) echo %q ;;
rm) echo "$3" >%q ;;
esac`, bolt.Address(), removed)})
	require.NoError(t, d.startGraph(t.Context()))
	require.Equal(t, bolt.URI(), d.graph.uri)
	require.Contains(t, out.String(), "a real Neo4j in Docker, at "+bolt.URI())
	password, err := os.ReadFile(d.graph.passwordFile)
	require.NoError(t, err)
	require.NotContains(t, out.String(), strings.TrimSpace(string(password)))

	require.NoError(t, d.cleanUp(false))
	b, err := os.ReadFile(removed)
	require.NoError(t, err)
	require.Equal(t, "c0ffee\n", string(b))
}

func TestBrokerIsTheEmbeddedOneWithoutJava(t *testing.T) {
	d, out := newDemo(t, nil)
	require.NoError(t, d.startBroker(t.Context()))
	require.True(t, d.broker.embedded)
	require.Contains(t, out.String(), "java is not installed")
}

func TestRatingsAreOneRelationshipEach(t *testing.T) {
	type pair struct{ user, movie int64 }
	seen, byUser, byMovie, titles := map[pair]bool{}, map[int64]int{}, map[int64]int{}, map[string]int64{}
	for i := range int64(ratings) {
		r := ratingAt(i)
		require.False(t, seen[pair{r.user, r.movie}], "%+v is there twice", r)
		seen[pair{r.user, r.movie}] = true
		byUser[r.user]++
		byMovie[r.movie]++

		key, payload, found := strings.Cut(r.line(), ":")
		require.True(t, found)
		var event struct {
			UserID  int64   `json:"userId"`
			MovieID int64   `json:"movieId"`
			Rating  float64 `json:"rating"`
			Title   string  `json:"title"`
		}
		require.NoError(t, json.Unmarshal([]byte(payload), &event))
		require.Equal(t, fmt.Sprint(event.MovieID), key)
		require.True(t, event.Rating >= 0.5 && event.Rating <= 5, "%v", event.Rating)
		if id, known := titles[event.Title]; known {
			require.Equal(t, id, event.MovieID, "two movies are called %s", event.Title)
		}
		titles[event.Title] = event.MovieID
	}
	require.Len(t, byUser, users)
	require.Len(t, byMovie, movies)
	for user, n := range byUser {
		require.Equal(t, ratingsPerUser, n, "user %d", user)
	}
}

func TestWriteRatingsReportsAndStopsWhereNobodyReads(t *testing.T) {
	var b bytes.Buffer
	var reports []int64
	require.NoError(t, writeRatings(&b, 5000, func(n int64) { reports = append(reports, n) }))
	require.Equal(t, 5000, strings.Count(b.String(), "\n"))
	require.Equal(t, []int64{2000, 4000, 5000}, reports)

	r, w := io.Pipe()
	require.NoError(t, r.Close())
	require.ErrorIs(t, writeRatings(w, ratings, func(int64) {}), io.ErrClosedPipe)
}

func TestCaughtUp(t *testing.T) {
	status := func(messages int64, lags ...int64) graphmill.StreamStatus {
		st := graphmill.StreamStatus{Counters: graphmill.Counters{Messages: messages}}
		for _, lag := range lags {
			st.Partitions = append(st.Partitions, graphmill.PartitionStatus{Lag: lag})
		}
		return st
	}
	require.True(t, caughtUp(status(ratings, 0, 0, 0)))
	require.False(t, caughtUp(status(ratings, 0, 0, 1)))
	require.False(t, caughtUp(status(ratings, 0, 0, -1)), "the lag of a partition is not known")
	require.False(t, caughtUp(status(ratings, 0, 0)), "a partition is not known")
	require.False(t, caughtUp(status(0, 0, 0, 0)), "nothing has come yet")
}

func TestCountOfAnOwnLedgerThatIsWrongFails(t *testing.T) {
	d, out := newDemo(t, nil)
	d.graph = graph{uri: ledgerScheme + filepath.Join(d.dir, "ledger.jsonl"), own: true}
	require.Error(t, d.count(t.Context()), "there is no file")

	line := `{"statements":[{},{}]}` + "\n"
	require.NoError(t, os.WriteFile(d.graph.ledgerFile(), []byte(strings.Repeat(line, 3)), 0o600))
	require.ErrorContains(t, d.count(t.Context()), "the ledger holds 6 statements where 10000 are right")
	require.NoError(t, os.WriteFile(d.graph.ledgerFile(), []byte(strings.Repeat(line, ratings/2)), 0o600))
	require.NoError(t, d.count(t.Context()))
	require.Contains(t, out.String(), "10,000 statements in 5,000 batches")
}

func TestCleanUpEndsTheLastFirstAndKeepsTheLogsOfAFailure(t *testing.T) {
	d, _ := newDemo(t, nil)
	dir := d.dir
	var order []string
	d.onEnd(func() error { order = append(order, "broker"); return nil })
	d.onEnd(func() error { order = append(order, "server"); return errors.New("did not stop") })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "graphmill.log"), nil, 0o600))
	require.ErrorContains(t, d.cleanUp(true), "did not stop")
	require.Equal(t, []string{"server", "broker"}, order)
	require.DirExists(t, dir)
	require.Error(t, d.cleanUp(false))
	require.NoDirExists(t, dir)
}

func TestRunOutsideOfTheRepositoryFailsWithWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	require.Equal(t, 1, run(t.Context(), &out, true))
	require.Contains(t, out.String(), "run make demo there")
}

func TestInterruptedRunSaysSo(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.Equal(t, 130, run(ctx, &out, true))
	require.Contains(t, out.String(), "Interrupted.")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, thousands(n))
	}
}
