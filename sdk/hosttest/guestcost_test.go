package hosttest_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// The two guests of sdk/go/bench have the same contract; one of them is written
// without the SDK.
const (
	handwritten = "../go/bench/handwritten"
	withSDK     = "../go/bench/withsdk"
)

// What the SDK costs is only worth measuring if both do the same.
func TestGuestWithAndWithoutSDKAnswerTheSame(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	texts := []string{
		// Good ones, in all forms.
		`{"userId":77777,"title":"Brazil","rating":4.5}`,
		`{"userId":0,"title":"","rating":0}`,
		`{"userId":1,"title":"Brazil","rating":1234567.7654321}`,
		`{"userId":123456789012345678,"title":"Brazil","rating":4}`,
		`{"userId":9223372036854775807,"title":"Brazil","rating":4}`,
		`{"userId":-9223372036854775808,"title":"Brazil","rating":-0.0}`,
		`{"userId":7,"title":"` + strings.Repeat("long ", 100) + `","rating":4.5}`,
		`{"userId":7,"title":"exactly thirty-one characters..","rating":4.5}`,
		`{"userId":7,"title":"Amélie","rating":4.5}`,
		`{"userId":7,"title":"a\tb\u00e9\ud83d\ude00\"\\\/","rating":4.5}`,
		`{"userId":7,"title":null,"rating":4.5}`,
		`{"userId":7,"rating":4.5}`,
		" {\n\"rating\" : 1e3 , \"userId\" : 7 , \"more\" : {\"a\":[1,{},[],null,true,false,-1.5e-3,\"x\"]} , \"title\" : \"t\" }\r\n",
		`{"userId":1,"userId":2,"title":"a","title":null,"rating":1,"rating":2}`,
		`{"user\u0049d":7,"rating":4.5,"title":"t"}`,
		`{"userId":7,"rating":4.5,"x":` + deep(999) + `}`,
		`{"userId":7,"title":"123456789012","rating":3}`,
		// Bad ones.
		``, ` `, `x`, `{}`, `[]`, `null`, `7`, `"x"`, `{"userId":7`, `{"userId":7}`, `{"title":"t","rating":1}`,
		`{"userId":7,"title":"Brazil","rating":4.5`, `{"userId":7,"title":"Brazil","rating":4.5}}`, `{"userId":7,"title":"Brazil","rating":4.5} x`,
		`{"userId":7,"title":"Brazil","rating":4.}`, `{"userId":7,"title":"Brazil","rating":.5}`, `{"userId":07,"title":"Brazil","rating":4.5}`,
		`{"userId":7,"title":"Brazil","rating":04.5}`, `{"userId":7,"title":"Brazil","rating":4.5,}`, `{,"userId":7,"title":"Brazil","rating":4.5}`,
		`{"userId":9223372036854775808,"title":"Brazil","rating":4}`, `{"userId":7.0,"title":"Brazil","rating":4}`, `{"userId":1e2,"title":"Brazil","rating":4}`,
		`{"userId":null,"title":"Brazil","rating":4}`, `{"userId":7,"title":"Brazil","rating":null}`, `{"userId":"7","title":"Brazil","rating":4}`,
		`{"userId":7,"title":7,"rating":4.5}`, `{"userId":7,"title":"Brazil","rating":"4.5"}`, `{"userId":7,"title":"Brazil","rating":1e999}`,
		"{\"userId\":7,\"title\":\"a\x01b\",\"rating\":4.5}", "{\"userId\":7,\"title\":\"a\nb\",\"rating\":4.5}", "{\"userId\":7,\"title\":\"\xff\",\"rating\":4.5}",
		"{\"userId\":7,\"title\":\"Brazil\",\"rating\":4.5,\"x\":\"\xc3\"}", "{\"userId\":7,\"title\":\"Brazil\",\"rating\":4.5,\"\xff\":1}",
		`{"userId":7,"title":"\ud83d","rating":4.5}`, `{"userId":7,"title":"\ude00\ud83d","rating":4.5}`, `{"userId":7,"title":"\x","rating":4.5}`, `{"userId":7,"title":"\u00g0","rating":4.5}`,
		`{"userId":7,"title":"Brazil","rating":4.5,"x":tru}`, `{"userId":7,"title":"Brazil","rating":4.5,"x":[1}`, `{"userId":7,"title":"Brazil","rating":4.5,"x":[1,]}`, `{"userId":7 "title":"Brazil"}`,
		`{"userId":7,"title":"Brazil","rating":4.5,"x":` + deep(1001) + `}`,
	}
	const good = 17
	messages := payloads(texts...)
	messages = append(messages, graphmill.Message{Topic: "t", BrokerTime: -1}) // a tombstone
	answer := func(dir string) graphmill.Output {
		i := start(t, load(t, build(t, dir)), wasmhost.InstanceConfig{Function: "transform"})
		_, err := i.Transform(t.Context(), graphmill.SourceKafka, messages) // what an earlier batch leaves must not show
		require.NoError(t, err)
		slices.Reverse(messages)
		_, err = i.Transform(t.Context(), graphmill.SourceKafka, messages)
		require.NoError(t, err)
		slices.Reverse(messages)
		out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
		require.NoError(t, err)
		for k := range out.Failures {
			require.NotEmpty(t, out.Failures[k].Text)
			out.Failures[k].Text = "" // each has words of its own
		}
		return out
	}
	want := answer(handwritten)
	require.Len(t, want.Statements, good)
	require.Len(t, want.Failures, len(texts)-good)
	require.Equal(t, want, answer(withSDK))
}

// BenchmarkGuestCost tells what a transformation costs with the SDK and without: the
// time within the guest, in the server's own host, metered, for several kinds of
// documents. Both guests get the same batches in turn, and their order changes each time,
// so that what else the machine does concerns both. Their ratio is the median of all
// pairs; the two figures around it are the bounds of that median's 95 % confidence
// interval.
//
//	go test -run '^$' -bench GuestCost -benchtime 1000x ./sdk/hosttest
func BenchmarkGuestCost(b *testing.B) {
	withoutIt, withIt := load(b, build(b, handwritten)), load(b, build(b, withSDK))
	for _, kind := range documentKinds {
		b.Run(kind.name, func(b *testing.B) {
			compareGuests(b, withoutIt, withIt, kind.document)
		})
	}
}

// documentKinds are the forms in which producers write the same fields.
var documentKinds = []struct {
	name     string
	document func(user int, title string, rating float64) string
}{
	{"compact, fields as declared", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"userId":%d,"title":"%s","rating":%.1f}`, user, title, rating)
	}},
	{"fields in another order", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"rating":%.1f,"title":"%s","userId":%d}`, rating, title, user)
	}},
	{"five more fields", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"event":"rated","userId":%d,"sessionId":"%08x","title":"%s","device":"phone","rating":%.1f,"duration":%d,"anonymous":false}`,
			user, user*2654435761, title, rating, user%977)
	}},
	{"spaces as Python writes them", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"userId": %d, "title": "%s", "rating": %.1f}`, user, title, rating)
	}},
	{"80 bytes of UTF-8", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"userId":%d,"title":"%s: la vie est un rêve d'été à l'hôtel Métropole, où Zoë écoute la mer","rating":%.1f}`, user, title, rating)
	}},
	{"40 letters of Cyrillic", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"userId":%d,"title":"%s Солярис и зеркало, Андрей Тарковский","rating":%.1f}`, user, title, rating)
	}},
	{"long numbers", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"userId":%d,"title":"%s","rating":%.15f}`, 1234567890123456789+user*7919, title, rating/7)
	}},
	{"all of it", func(user int, title string, rating float64) string {
		return fmt.Sprintf(`{"rating": %.1f, "event": "rated", "title": "%s: la vie est un rêve d'été à l'hôtel Métropole, où Zoë écoute la mer", "device": "phone", "userId": %d, "sessionId": "%08x", "duration": %d, "anonymous": false}`,
			rating, title, user, user*2654435761, user%977)
	}},
}

func compareGuests(b *testing.B, withoutIt, withIt *wasmhost.Module, document func(user int, title string, rating float64) string) {
	const size = 1000
	messages := make([]graphmill.Message, size)
	bytes := 0
	for k := range messages {
		payload := []byte(document(10000+k*77777%90000, fmt.Sprintf("Movie%d", k%10), float64(k%10)/2+0.5))
		bytes += len(payload)
		messages[k] = graphmill.Message{Topic: "ratings", Partition: int32(k % 3), Offset: int64(k), Timestamp: 1769862615123, BrokerTime: -1, Key: fmt.Append(nil, k), Payload: payload}
	}
	guests := [2]*wasmhost.Instance{
		start(b, withoutIt, wasmhost.InstanceConfig{Function: "transform"}),
		start(b, withIt, wasmhost.InstanceConfig{Function: "transform"}),
	}
	call := func(which int) float64 {
		before := guests[which].GuestTime()
		out, err := guests[which].Transform(b.Context(), graphmill.SourceKafka, messages)
		require.NoError(b, err)
		require.Empty(b, out.Failures)
		require.Len(b, out.Statements, size)
		return float64((guests[which].GuestTime() - before).Nanoseconds()) / size
	}
	for range 20 { // buffers grow, pages are touched
		call(0)
		call(1)
	}
	var costs [2][]float64
	var ratios []float64
	for k := 0; b.Loop(); k++ {
		var pair [2]float64
		first := k % 2
		pair[first] = call(first)
		pair[1-first] = call(1 - first)
		for which, cost := range pair {
			costs[which] = append(costs[which], cost)
		}
		ratios = append(ratios, pair[1]/pair[0])
	}
	hand, _, _ := median(costs[0])
	sdk, _, _ := median(costs[1])
	ratio, low, high := median(ratios)
	b.ReportMetric(0, "ns/op") // of both, and the host: says nothing
	b.ReportMetric(hand, "handwritten-ns/message")
	b.ReportMetric(sdk, "sdk-ns/message")
	b.ReportMetric(ratio, "ratio")
	b.Logf("ratio %.3f, 95 %% of the interval %.3f to %.3f, of the fastest batches %.3f; %d pairs of batches of %d messages of %d bytes",
		ratio, low, high, slices.Min(costs[1])/slices.Min(costs[0]), len(ratios), size, bytes/size)
}

// median returns the median and the bounds of its 95 % confidence interval, which are
// order statistics: nothing is assumed of how the values are spread.
func median(values []float64) (median, low, high float64) {
	v := slices.Sorted(slices.Values(values))
	n := float64(len(v))
	half := 1.96 * math.Sqrt(n) / 2
	at := func(rank float64) float64 { return v[int(min(max(rank, 0), n-1))] }
	return at(n / 2), at(n/2 - half), at(n/2 + half)
}
