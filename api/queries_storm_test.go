package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/api"
)

// storm executes statements, each of them as often as it is told and all at once,
// and returns the answers by statement.
func (w *world) storm(t *testing.T, times int, texts ...string) map[string][]map[string]any {
	t.Helper()
	var (
		mu       sync.Mutex
		answers  = map[string][]map[string]any{}
		work     sync.WaitGroup
		together = make(chan struct{})
	)
	for _, text := range texts {
		for range times {
			work.Go(func() {
				<-together
				status, _, answer := send(t, w.base, request{method: "POST", path: "/api/v1/query", contentType: jsonType, body: `{"statement":` + jsonText(t, text) + `}`})
				answer["http"] = status
				mu.Lock()
				defer mu.Unlock()
				answers[text] = append(answers[text], answer)
			})
		}
	}
	close(together)
	work.Wait()
	return answers
}

// codeOf is the code of an answer; done: it is no error.
func codeOf(answer map[string]any) any {
	if answer["http"] == http.StatusOK {
		return "done"
	}
	return answer["code"]
}

// codes counts answers by their code.
func codes(answers []map[string]any) map[any]int {
	counted := map[any]int{}
	for _, a := range answers {
		counted[codeOf(a)]++
	}
	return counted
}

func TestCreatedTwiceAtOnce(t *testing.T) {
	w := newWorld(t)
	w.do(t, 201, "PUT", "/modules/seen", seenModule)
	require.NoError(t, w.broker.CreateTopic("events", 1, nil))
	for range 5 {
		require.Equal(t, map[any]int{"done": 1, "stream_exists": 9}, codes(w.storm(t, 10, createS)[createS]))
		require.Equal(t, map[any]int{"done": 1, "stream_not_found": 9}, codes(w.storm(t, 10, "DROP STREAM s")["DROP STREAM s"]))
	}
}

func TestManyChecksAtOnce(t *testing.T) {
	w := withStream(t)
	w.produce(t, "events", "a")
	counted := codes(w.storm(t, 100, "CHECK STREAM s")["CHECK STREAM s"])
	require.Positive(t, counted["done"])
	require.Equal(t, 100, counted["done"]+counted["already_running"], "each has the stream alone, or is refused: %v", counted)
	require.False(t, w.isRunning(t))
	require.Zero(t, w.sink.count())
}

// Whatever comes at once, each statement has one of the answers that it may have,
// and in the end the stream does as the last one says.
func TestStatementsInAStorm(t *testing.T) {
	w := withStream(t, quick)
	w.produce(t, "events", "a", "b", "c")
	allowed := map[string][]any{
		"START STREAM s": {"done", "already_running", "stream_not_found", "stopped_meanwhile", "stream_busy"},
		"START STREAM s BATCH_LIMIT 1 TIMEOUT 200": {"done", "already_running", "stream_not_found", "stopped_meanwhile", "stream_busy", "start_timeout"},
		"STOP STREAM s":                            {"done", "already_stopped", "stream_not_found"},
		"CHECK STREAM s TIMEOUT 200":               {"done", "already_running", "stream_not_found", "check_timeout", "broker_unreachable"}, // not so soon, on a busy machine
		"ALTER STREAM s SET BATCH_SIZE 5":          {"done", "stream_not_found", "limited_start", "stopped_meanwhile"},
		"ALTER STREAM s SET BATCH_SIZE 6":          {"done", "stream_not_found", "limited_start", "stopped_meanwhile"},
		"DROP STREAM s":                            {"done", "stream_not_found"},
		createS:                                    {"done", "stream_exists"},
		"START ALL STREAMS":                        {"done"},
		"STOP ALL STREAMS":                         {"done"},
		"SHOW STREAMS":                             {"done"},
		"CALL mg.stream_status('s')":               {"done", "stream_not_found"},
		"CALL mg.kafka_stream_info('s')":           {"done", "stream_not_found"},
		"CALL mg.kafka_set_stream_offset('s', -1)": {"done", "stream_not_found", "stream_running", "group_active"},
		"SHOW CREATE STREAM s":                     {"done", "stream_not_found"},
	}
	var texts []string
	for text := range allowed {
		texts = append(texts, text)
	}
	for range 3 {
		for text, answers := range w.storm(t, 3, texts...) {
			for _, a := range answers {
				require.Contains(t, allowed[text], codeOf(a), "%s: %v", text, a)
			}
		}
	}
	w.storm(t, 1, "STOP STREAM s", createS)
	w.storm(t, 1, "STOP STREAM s")
	require.False(t, w.isRunning(t))
	w.query(t, 200, "START STREAM s")
	require.True(t, w.isRunning(t))
	w.query(t, 200, "DROP STREAM s")
}

// A client that goes away lets the stream go.
func TestAClientThatGoesAway(t *testing.T) {
	w := withStream(t)
	gone := func(text string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", w.base+"/api/v1/query", strings.NewReader(`{"statement":`+jsonText(t, text)+`}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", jsonType)
		ended := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			ended <- err
		}()
		require.Eventually(t, func() bool { return w.isRunning(t) }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Eventually(t, func() bool { return !w.isRunning(t) }, time.Minute, time.Millisecond, text)
	}
	gone("CHECK STREAM s TIMEOUT 600000")
	gone("START STREAM s BATCH_LIMIT 1 TIMEOUT 600000")
	w.query(t, 200, "START STREAM s")
	w.query(t, 200, "STOP STREAM s")
}

// The end of the server ends a CHECK that is under way, and statements behind it.
func TestTheServerEndsWhileAStreamIsChecked(t *testing.T) {
	w := withStream(t)
	answers := make(chan map[string][]map[string]any, 1)
	go func() {
		answers <- w.storm(t, 1, "CHECK STREAM s TIMEOUT 600000", "START STREAM s", "STOP STREAM s", "DROP STREAM s")
	}()
	require.Eventually(t, func() bool {
		shown, err := w.engine.Streams(t.Context())
		return err == nil && (len(shown) == 0 || shown[0].Busy)
	}, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, w.engine.Close(ctx))
	for text, all := range <-answers {
		require.NotEqual(t, http.StatusInternalServerError, all[0]["http"], "%s: %v", text, all[0])
	}
}

// Large and hostile requests are answered soon, with little.
func TestHostileQueries(t *testing.T) {
	w := withStream(t)
	var log syncBuffer
	base := serve(t, w.engine, api.Config{Logger: logTo(&log)})
	items := strings.TrimSuffix(strings.Repeat(`"a:1",`, 260_000), ",")
	for what, body := range map[string]string{
		"many servers":       `{"statement":"CREATE KAFKA STREAM h TOPICS t TRANSFORM m BOOTSTRAP_SERVERS $p","parameters":{"p":[` + strings.Repeat(`"a:1",`, 2000) + `"b:1"]}}`,
		"many topics":        `{"statement":"CREATE KAFKA STREAM h TOPICS $p TRANSFORM m","parameters":{"p":[` + items + `]}}`,
		"many settings":      `{"statement":"CREATE KAFKA STREAM h TOPICS events TRANSFORM seen SETTINGS $p","parameters":{"p":{` + entries(2000) + `}}}`,
		"many configs":       `{"statement":"CREATE KAFKA STREAM h TOPICS events TRANSFORM seen CONFIGS $p","parameters":{"p":{` + entries(2000) + `}}}`,
		"more values":        `{"statement":"SHOW ALL","parameters":{"p":[` + items + "," + items + `]}}`,
		"deep":               `{"statement":"SHOW ALL","parameters":{"p":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`,
		"deep, not so":       `{"statement":"CALL mg.load($p)","parameters":{"p":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}}`,
		"a large number":     `{"statement":"SHOW ALL","parameters":{"p":` + strings.Repeat("9", 1<<20) + `}}`,
		"a large name":       `{"statement":"DROP STREAM $p","parameters":{"p":"` + strings.Repeat("x", 2<<20) + `"}}`,
		"a large parameter":  `{"statement":"DROP STREAM $` + strings.Repeat("x", 500_000) + `"}`,
		"a large procedure":  `{"statement":"CALL ` + strings.Repeat("x", 500_000) + `()"}`,
		"a large result":     `{"statement":"CALL mg.transformations() YIELD ` + strings.Repeat("x", 500_000) + `"}`,
		"a large place":      `{"statement":"SHOW ` + strings.Repeat("x", 1_000_000) + `"}`,
		"options":            `{"statement":"CREATE KAFKA STREAM h ` + strings.Repeat("BATCH_SIZE 1 ", 10_000) + `"}`,
		"marks of direction": `{"statement":"DROP STREAM '` + strings.Repeat("\u202e", 100_000) + `'"}`,
		"NUL":                `{"statement":"DROP STREAM '` + strings.Repeat(`\u0000`, 100_000) + `'"}`,
		"half a surrogate":   `{"statement":"DROP STREAM '\ud800'"}`,
		"module":             `{"statement":"CALL mg.create_module_file('h.wasm', $p)","parameters":{"p":"` + strings.Repeat("A", 2<<20) + `"}}`,
	} {
		began := time.Now()
		status, _, answer := send(t, base, request{method: "POST", path: "/api/v1/query", contentType: jsonType, body: body})
		require.GreaterOrEqual(t, status, 400, what)
		require.Less(t, status, 500, "%s: %v", what, answer)
		require.Less(t, len(fmt.Sprint(answer)), 5000, what)
		require.Less(t, time.Since(began), time.Minute, what)
	}
	require.NotContains(t, log.String(), "panic")
	require.Len(t, w.query(t, 200, "SHOW STREAMS")["rows"], 1)
}

func entries(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k%d":"v"`, i)
	}
	return b.String()
}
