package events_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// publish makes warnings that are told apart by their texts.
func publish(h *events.Hub, texts ...string) {
	for _, t := range texts {
		h.Publish(graphmill.Event{Type: graphmill.EventWarning, Stream: "s", Text: t})
	}
}

func numbers(from, to int) (texts []string) {
	for i := from; i <= to; i++ {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

func subscribe(t *testing.T, h *events.Hub, f events.Filter) *events.Subscription {
	t.Helper()
	s, err := h.Subscribe(f)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// read returns what is there without waiting: texts, and lost events as -N.
func read(s *events.Subscription) (got []string, last string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got = []string{}
	for {
		e, ok := s.Next(ctx)
		if !ok {
			return got, last
		}
		if e.Type == graphmill.EventLagged {
			got = append(got, fmt.Sprintf("lost %d", e.Lagged.Lost))
			continue
		}
		last = e.ID
		got = append(got, e.Text)
	}
}

func TestAReaderHearsWhatHappensFromNowOn(t *testing.T) {
	h := events.NewHub()
	publish(h, "before")
	s := subscribe(t, h, events.Filter{})
	publish(h, "a", "b")
	got, _ := read(s)
	require.Equal(t, []string{"a", "b"}, got)
}

func TestFilters(t *testing.T) {
	h := events.NewHub()
	ofStream := subscribe(t, h, events.Filter{Stream: "other"})
	ofTypes := subscribe(t, h, events.Filter{Types: []graphmill.EventType{graphmill.EventFailure, graphmill.EventModule}})
	publish(h, "of s")
	h.Publish(graphmill.Event{Type: graphmill.EventWarning, Stream: "other", Text: "of other"})
	h.Publish(graphmill.Event{Type: graphmill.EventFailure, Stream: "s", Text: "a failure"})
	got, _ := read(ofStream)
	require.Equal(t, []string{"of other"}, got)
	got, _ = read(ofTypes)
	require.Equal(t, []string{"a failure"}, got)
}

func TestASlowReaderIsToldWhatItHasMissedAndHoldsNobodyUp(t *testing.T) {
	h := events.NewHub()
	slow, quick := subscribe(t, h, events.Filter{}), subscribe(t, h, events.Filter{})
	for _, text := range numbers(1, 1000) {
		publish(h, text)
		got, _ := read(quick)
		require.Equal(t, []string{text}, got)
	}
	got, _ := read(slow)
	require.Equal(t, append(numbers(1, 256), "lost 744"), got)

	publish(h, "again")
	got, _ = read(slow)
	require.Equal(t, []string{"again"}, got)
}

func TestTheGapStandsWhereTheEventsAreMissing(t *testing.T) {
	h := events.NewHub()
	s := subscribe(t, h, events.Filter{})
	publish(h, numbers(1, 300)...)
	for range 200 {
		_, ok := s.Next(t.Context())
		require.True(t, ok)
	}
	publish(h, "later")
	got, _ := read(s)
	require.Equal(t, append(numbers(201, 256), "lost 44", "later"), got)
}

func TestAReaderComesBack(t *testing.T) {
	h := events.NewHub()
	s := subscribe(t, h, events.Filter{})
	publish(h, "a", "b")
	_, last := read(s)
	publish(h, "c", "d")

	back := subscribe(t, h, events.Filter{After: last})
	publish(h, "e")
	got, newest := read(back)
	require.Equal(t, []string{"c", "d", "e"}, got)

	got, _ = read(subscribe(t, h, events.Filter{After: newest}))
	require.Empty(t, got, "nothing has been missed")
}

func TestAReaderComesBackTooLate(t *testing.T) {
	h := events.NewHub()
	s := subscribe(t, h, events.Filter{})
	publish(h, "seen")
	_, last := read(s)
	publish(h, numbers(1, 1100)...)
	got, _ := read(subscribe(t, h, events.Filter{After: last}))
	require.Regexp(t, `^lost \d+$`, got[0])
	var lost int
	fmt.Sscanf(got[0], "lost %d", &lost)
	require.Equal(t, fmt.Sprint(lost+1), got[1], "what is remembered follows without another gap")
	require.Equal(t, "1100", got[len(got)-1])
	require.GreaterOrEqual(t, len(got), 800)
}

func TestAnIDThatIsNoneOfThisServersLife(t *testing.T) {
	before := events.NewHub()
	s := subscribe(t, before, events.Filter{})
	publish(before, "in the life before")
	_, last := read(s)

	h := events.NewHub()
	publish(h, "a", "b")
	for name, id := range map[string]string{
		"of the life before":    last,
		"not one at all":        "hello",
		"of this life's future": ownID(t, h, "99999"),
		"overflowing":           ownID(t, h, strings.Repeat("9", 30)),
		"huge":                  strings.Repeat("x", 1<<16),
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := read(subscribe(t, h, events.Filter{After: id}))
			require.Equal(t, []string{"lost -1", "a", "b"}, got)
		})
	}
}

// ownID makes an id of the hub's own life.
func ownID(t *testing.T, h *events.Hub, number string) string {
	s := subscribe(t, h, events.Filter{After: "?"})
	_, last := read(s)
	life, _, _ := strings.Cut(last, "-")
	return life + "-" + number
}

func TestReadersAreBounded(t *testing.T) {
	h := events.NewHub()
	var subs []*events.Subscription
	for range events.MaxSubscribers {
		subs = append(subs, subscribe(t, h, events.Filter{}))
	}
	_, err := h.Subscribe(events.Filter{})
	require.Equal(t, graphmill.KindUnavailable, graphmill.KindOf(err))
	subs[0].Close()
	subs[0].Close()
	subscribe(t, h, events.Filter{})
}

func TestCloseEndsReadersWhoHaveReadAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.NewHub()
		s := subscribe(t, h, events.Filter{})
		done := make(chan []string)
		go func() {
			var got []string
			for {
				e, ok := s.Next(context.Background())
				if !ok {
					done <- got
					return
				}
				got = append(got, e.Text)
			}
		}()
		synctest.Wait() // it waits for events
		publish(h, "the last")
		h.Close()
		h.Close()
		require.Equal(t, []string{"the last"}, <-done)
		publish(h, "too late")
		_, err := h.Subscribe(events.Filter{})
		require.Equal(t, graphmill.KindUnavailable, graphmill.KindOf(err))
	})
}
