package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/events"
)

const (
	eventsType = "text/event-stream"

	// heartbeat is how often a silent connection hears a comment, so that
	// neither side, nor a proxy between them, takes it for dead.
	heartbeat = 15 * time.Second

	// eventWriteLimit is how long a reader may take for what it is sent. One that
	// has gone without a word is noticed by it.
	eventWriteLimit = 10 * time.Second

	// eventRetry is how long a reader should wait before it comes back.
	eventRetry = 2 * time.Second

	maxEventID = 100 // bytes
)

type eventsInput struct {
	Stream string   `query:"stream" doc:"Events of this stream only. It need not exist yet."`
	Types  []string `query:"types" doc:"Types of event, separated by commas: state, batches, failure, module, warning. All of them by default."`
	Last   string   `header:"Last-Event-ID" doc:"The id of the last event that has been seen: what came after it is told first, as far as it is remembered."`
}

func (s *service) registerEvents() {
	schema := s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[graphmill.Event](), true, "")
	register(s, huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: prefix + "/events", Tags: []string{"Events"},
		Summary: "Follow what happens to the streams",
		Description: "Server-sent events without end: each has an id, the type as its name, and an event as JSON. " +
			"state tells the state that a stream is in from here on; batches sums up what it has done, once a second at most; " +
			"failure, module and warning tell of single things. A reader that is too slow or comes back too late gets an event of the type lagged, " +
			"which says how many events of all streams are missing. Comments keep a silent connection alive.",
		Responses: map[string]*huma.Response{"200": {
			Description: "Events, as they happen.",
			Content:     map[string]*huma.MediaType{eventsType: {Schema: schema}},
		}},
	}, s.followEvents)
}

func (s *service) followEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	sub, err := s.engine.Events(ctx, filter)
	if err != nil {
		return nil, err
	}
	// Between here and the body there is code that is not ours. The place of a reader
	// is given back with the request, whether the body has run or not.
	context.AfterFunc(ctx, sub.Close)
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer sub.Close()
		r, w := humachi.Unwrap(hctx)
		h := w.Header()
		h.Set("Content-Type", eventsType)
		h.Set("X-Accel-Buffering", "no") // nginx would keep events back
		if r.Method != http.MethodHead {
			sendEvents(r.Context(), w, sub)
		}
	}}, nil
}

func (in *eventsInput) filter() (events.Filter, error) {
	f := events.Filter{Stream: in.Stream, After: in.Last}
	if in.Stream != "" {
		if err := graphmill.ValidateName("stream", in.Stream); err != nil {
			return f, err
		}
	}
	if len(in.Last) > maxEventID {
		f.After = in.Last[:maxEventID] // none of ours, which is told as such
	}
	for _, t := range in.Types {
		if !slices.Contains(graphmill.EventTypes, graphmill.EventType(t)) {
			return f, graphmill.Invalid("types", "there are no events of the type %q; %q are", cut(t, maxFieldBytes), graphmill.EventTypes)
		}
		f.Types = append(f.Types, graphmill.EventType(t))
	}
	return f, nil
}

// sendEvents writes events until ctx ends (the reader has gone, or the server
// shuts down), or until the reader does not take them any more.
func sendEvents(ctx context.Context, w http.ResponseWriter, sub *events.Subscription) {
	control := http.NewResponseController(w)
	write := func(text []byte) error {
		// Without a deadline a reader that does not read would hold the goroutine.
		if err := control.SetWriteDeadline(time.Now().Add(eventWriteLimit)); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}
	err := write(fmt.Appendf(nil, "retry: %d\n\n", eventRetry.Milliseconds()))
	for err == nil && ctx.Err() == nil {
		err = sendNext(ctx, sub, write)
	}
}

// errEnded says that there are no more events.
var errEnded = errors.New("the events have ended")

// sendNext writes the next event, or a heartbeat where there is none for a while.
func sendNext(ctx context.Context, sub *events.Subscription, write func([]byte) error) error {
	waiting, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	e, ok := sub.Next(waiting)
	switch {
	case ok:
		text, err := encodeEvent(&e)
		if err != nil {
			return err
		}
		return write(text)
	case waiting.Err() == nil || ctx.Err() != nil:
		return errEnded
	}
	return write([]byte(": nothing new\n\n"))
}

// encodeEvent writes an event as server-sent events want it. Its JSON holds no
// line break, so it is one line of data.
func encodeEvent(e *graphmill.Event) ([]byte, error) {
	var b bytes.Buffer
	if e.ID != "" {
		fmt.Fprintf(&b, "id: %s\n", e.ID)
	}
	fmt.Fprintf(&b, "event: %s\ndata: ", e.Type)
	enc := json.NewEncoder(&b) // ends with a line break
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
