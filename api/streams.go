package api

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// StreamDefinition is graphmill.StreamSpec with the words that document it.
// The two convert into each other, so the compiler keeps them alike.
type StreamDefinition struct {
	Name      string   `json:"name" doc:"The name of the stream."`
	Source    string   `json:"source,omitempty" enum:"kafka,pulsar" doc:"What the stream reads: kafka (the default), which Redpanda is too, or pulsar."`
	Topics    []string `json:"topics" required:"false" doc:"The topics. Of Pulsar NAME, which is in public/default, or persistent://TENANT/NAMESPACE/NAME; partitioned ones are read whole."`
	Transform string   `json:"transform" example:"movies.transform" doc:"The transformation, as MODULE.FUNCTION; MODULE alone means its function transform."`

	BatchSize       int   `json:"batch_size,omitempty" minimum:"1" doc:"A batch is closed at this many messages; 1000 by default, 1000000 at most."`
	BatchBytes      int64 `json:"batch_bytes,omitempty" minimum:"1" doc:"A batch is closed at this many bytes of payload, keys and headers; 16777216 by default, 268435456 at most."`
	BatchIntervalMS int64 `json:"batch_interval_ms,omitempty" minimum:"1" doc:"A batch is closed after this many milliseconds; 100 by default, 3600000 at most."`

	BootstrapServers []string `json:"bootstrap_servers,omitempty" doc:"Kafka: brokers, as host:port; by default those of the server's settings."`
	ConsumerGroup    string   `json:"consumer_group,omitempty" minLength:"1" doc:"Kafka: the consumer group; graphmill.NAME by default."`

	ServiceURL       string `json:"service_url,omitempty" minLength:"1" doc:"Pulsar: its address, pulsar://HOST:PORT or pulsar+ssl://HOST:PORT, more hosts behind commas; by default that of the server's settings."`
	TopicsPattern    string `json:"topics_pattern,omitempty" minLength:"1" doc:"Pulsar: a regular expression that the whole name of a topic matches, in place of topics: EXPRESSION in public/default, or persistent://TENANT/NAMESPACE/EXPRESSION. Topics that are made later are found, too."`
	Subscription     string `json:"subscription,omitempty" minLength:"1" doc:"Pulsar: the subscription; NAME by default."`
	SubscriptionType string `json:"subscription_type,omitempty" minLength:"1" doc:"Pulsar: failover (the default) lets several servers share the partitions, exclusive refuses a second one. Shared and Key_Shared are refused: they do not keep the order of messages."`

	StartFrom string `json:"start_from,omitempty" minLength:"1" doc:"Where to begin where no position is known: earliest, latest (the default), or a time in RFC 3339."`

	Configs     map[string]string `json:"configs,omitempty" doc:"Settings of the broker's client by the names of librdkafka, or of Pulsar's clients. Values that hold secrets are not shown."`
	Credentials map[string]string `json:"credentials,omitempty" doc:"Like configs; no value is ever shown. secret:NAME takes the value from the server's secrets."`

	Delivery  string            `json:"delivery,omitempty" enum:"at_least_once" doc:"What a crash may do: at_least_once may repeat a batch, never lose one."`
	OnFailure string            `json:"on_failure,omitempty" enum:"stop" doc:"What a batch that cannot be applied does: stop ends the stream before it, and a start tries it again."`
	Database  string            `json:"database,omitempty" minLength:"1" doc:"The database of the graph server; by default that of the server's settings."`
	Coalesce  string            `json:"coalesce,omitempty" enum:"on,off" doc:"Whether runs of equal query texts are sent as one statement; on by default."`
	Allow     []string          `json:"allow,omitempty" enum:"schema,load_csv" doc:"What statements may do beside reading and writing data: schema changes indexes and constraints, load_csv makes the database read files and addresses."`
	Settings  map[string]string `json:"settings,omitempty" doc:"Handed to the transformation when it is configured."`

	MemoryLimit   int64 `json:"memory_limit,omitempty" minimum:"1" doc:"Linear memory of the transformation in bytes; by default, and at most, what the server's settings say."`
	TimeLimitMS   int64 `json:"time_limit_ms,omitempty" minimum:"1" doc:"Time of the transformation for one batch in milliseconds; by default, and at most, what the server's settings say."`
	ResponseLimit int64 `json:"response_limit,omitempty" minimum:"1" doc:"Answer of the transformation for one batch in bytes; by default half of the memory limit."`
}

// Stream is a definition and how the stream fares.
type Stream struct {
	StreamDefinition
	Desired   graphmill.State   `json:"desired" doc:"What is wanted: stopped or running. A restart of the server resumes what is to run."`
	State     graphmill.State   `json:"state" doc:"What it does: stopped, starting, running, draining, waiting, failed, or broken where its stored definition cannot be read."`
	Reason    *graphmill.Reason `json:"reason,omitempty" doc:"Why it is waiting, has failed or is broken, or cannot be started."`
	CreatedAt time.Time         `json:"created_at,omitzero" doc:"When it was created; absent where that is not known."`
	Owner     string            `json:"owner,omitempty" doc:"The name of the token by which it was created; absent where that has none."`
	Warnings  []string          `json:"warnings,omitempty" doc:"What will not work as it is, such as a module that is not there yet. Told by the creation."`
}

// NewStream returns the JSON form of a stream.
func NewStream(i server.StreamInfo) Stream {
	definition := StreamDefinition(i.Spec.Redacted())
	definition.Topics = orEmpty(definition.Topics) // of a pattern, and of one that is broken
	return Stream{
		StreamDefinition: definition,
		Desired:          i.Desired,
		State:            i.State,
		Reason:           i.Reason,
		CreatedAt:        i.CreatedAt,
		Owner:            i.Owner,
		Warnings:         i.Warnings,
	}
}

// CreateStream is the body that creates a stream.
type CreateStream struct {
	StreamDefinition
	Check  *bool `json:"check,omitempty" doc:"Whether an absent broker or topic refuses the definition; true by default."`
	DryRun bool  `json:"dry_run,omitempty" doc:"Answer what the stream would be, with status 200, and create nothing; false by default. What would refuse the creation refuses it, too."`
}

// StartStream is the body of a start; all of it may be left out.
type StartStream struct {
	BatchLimit int   `json:"batch_limit,omitempty" minimum:"1" maximum:"1000000000" doc:"Apply so many batches, stop again, and answer then. By default it runs until it is stopped."`
	TimeoutMS  int64 `json:"timeout_ms,omitempty" minimum:"1" maximum:"86400000" doc:"Milliseconds that the batches of batch_limit may take; 30000 by default."`

	Accept []string `json:"accept,omitempty" enum:"recreated,lost=earliest,lost=latest" doc:"What it goes on with although a position is gone, this time: recreated reads topics that were deleted and created anew from their beginning; lost=earliest or lost=latest tells where it goes on in place of a position that the broker no longer has."`
}

// StartedStream is the answer to a start.
type StartedStream struct {
	Stream
	Committed *Committed `json:"committed,omitempty" doc:"What was applied, where the start had a batch_limit."`
}

// Committed is what a start with a batch limit has applied.
type Committed struct {
	Batches    int64                `json:"batches" doc:"Batches that had messages."`
	Messages   int64                `json:"messages" doc:"Messages that are acknowledged."`
	Statements int64                `json:"statements" doc:"Statements that were executed."`
	Positions  []graphmill.Position `json:"positions" doc:"Where the stream has come to, in the partitions that it has moved in."`
}

// Streams is a list of streams.
type Streams struct {
	Streams []Stream `json:"streams" doc:"All streams, sorted by name."`
}

// Changed tells what became of each stream when all were started or stopped.
type Changed struct {
	Streams []ChangedStream `json:"streams" doc:"Every stream, sorted by name."`
}

// ChangedStream is one stream of Changed.
type ChangedStream struct {
	Name  string          `json:"name" doc:"The name of the stream."`
	State graphmill.State `json:"state" doc:"Its state now."`
	Error *Problem        `json:"error,omitempty" doc:"Why it could not be started or stopped."`
}

// Dropped tells what a stream that was dropped leaves behind.
type Dropped struct {
	Notices []string `json:"notices" doc:"What it leaves with the broker at a price, and how that is ended."`
}

type (
	streamInput struct {
		Name string `path:"name" doc:"The name of the stream."`
	}
	createInput  struct{ Body CreateStream }
	createOutput struct {
		Status   int
		Location string `header:"Location" doc:"Where the stream is."`
		Body     Stream
	}
	deleteInput struct {
		Name        string `path:"name" doc:"The name of the stream."`
		Unsubscribe bool   `query:"unsubscribe" doc:"End its subscription, too, so that the broker keeps no more messages for it. Of Pulsar only."`
	}
	deleteOutput struct {
		Status int
		Body   *Dropped
	}
	streamOutput  struct{ Body Stream }
	streamsOutput struct{ Body Streams }
	startInput    struct {
		Name string `path:"name" doc:"The name of the stream."`
		Body *StartStream
	}
	startOutput struct{ Body StartedStream }
	// actionInput takes a body only to tell that nothing may stand in it.
	actionInput struct {
		Name string `path:"name" doc:"The name of the stream."`
		Body *NoOptions
	}
	allInput      struct{ Body *NoOptions }
	changedOutput struct{ Body Changed }
	statusOutput  struct{ Body graphmill.StreamStatus }
)

// NoOptions is an empty JSON object.
type NoOptions struct{}

func (s *service) registerStreams() {
	const all, one = prefix + "/streams", prefix + "/streams/{name}"
	tags := []string{"Streams"}
	register(s, huma.Operation{
		OperationID: "createStream", Method: http.MethodPost, Path: all, Tags: tags,
		Summary:       "Create a stream",
		Description:   "The stream is stopped. Nothing is read before it is started.",
		DefaultStatus: http.StatusCreated,
		Responses:     map[string]*huma.Response{"200": {Description: "It was a dry run. The answer is like that of 201."}},
	}, s.createStream)
	answers := s.huma.OpenAPI().Paths[all].Post.Responses
	answers["200"].Content = answers["201"].Content
	register(s, huma.Operation{
		OperationID: "listStreams", Method: http.MethodGet, Path: all, Tags: tags,
		Summary: "List streams",
	}, s.listStreams)
	register(s, huma.Operation{
		OperationID: "startStreams", Method: http.MethodPost, Path: all + ":start", Tags: tags,
		Summary:     "Start all streams",
		Description: "Streams that run already are left as they are. The answer tells of each; one that fails does not keep the others.",
	}, func(ctx context.Context, _ *allInput) (*changedOutput, error) {
		all, err := s.engine.StartAll(ctx)
		return s.changedAll(ctx, all, err)
	})
	register(s, huma.Operation{
		OperationID: "stopStreams", Method: http.MethodPost, Path: all + ":stop", Tags: tags,
		Summary:     "Stop all streams",
		Description: "Streams that are stopped already, or broken, are left as they are. The answer tells of each; one that fails does not keep the others.",
	}, func(ctx context.Context, _ *allInput) (*changedOutput, error) {
		all, err := s.engine.StopAll(ctx)
		return s.changedAll(ctx, all, err)
	})
	register(s, huma.Operation{
		OperationID: "showStream", Method: http.MethodGet, Path: one, Tags: tags,
		Summary: "Show a stream's definition",
	}, func(ctx context.Context, in *streamInput) (*streamOutput, error) {
		return s.onStream(ctx, in.Name, s.engine.Stream)
	})
	register(s, huma.Operation{
		OperationID: "deleteStream", Method: http.MethodDelete, Path: one, Tags: tags,
		Summary: "Drop a stream",
		Description: "A running stream is stopped first. Its consumer group, or subscription, and the graph stay as they are. " +
			"Pulsar keeps messages for a subscription as long as there is one: where one stays, the answer is 200 and says so.",
		DefaultStatus: http.StatusNoContent,
		Responses:     map[string]*huma.Response{"200": {Description: "It is dropped, and leaves something with the broker."}},
	}, s.deleteStream)
	s.huma.OpenAPI().Paths[one].Delete.Responses["200"].Content = map[string]*huma.MediaType{jsonType: {Schema: s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Dropped](), true, "")}}
	register(s, huma.Operation{
		OperationID: "startStream", Method: http.MethodPost, Path: one + ":start", Tags: tags,
		Summary: "Start a stream",
		Description: "Answers once the start positions are settled: what is produced after the answer is not missed. " +
			"Where the broker is not reached in time the state is waiting, and the start goes on. " +
			"With a batch_limit it answers once so many batches are applied and the stream has stopped again. " +
			"When the timeout is over, or nobody waits for the answer any more, it ends after the batch that is being executed; what was applied by then stays, and the error tells it.",
	}, s.startStream)
	register(s, huma.Operation{
		OperationID: "stopStream", Method: http.MethodPost, Path: one + ":stop", Tags: tags,
		Summary:     "Stop a stream",
		Description: "Answers once the batches under way are in the graph and acknowledged, or the server's drain timeout has ended them.",
	}, func(ctx context.Context, in *actionInput) (*streamOutput, error) {
		return s.onStream(ctx, in.Name, s.engine.StopStream)
	})
	register(s, huma.Operation{
		OperationID: "streamStatus", Method: http.MethodGet, Path: one + "/status", Tags: tags,
		Summary: "Show what a stream is doing",
	}, s.streamStatus)
}

func (s *service) createStream(ctx context.Context, in *createInput) (*createOutput, error) {
	check := in.Body.Check == nil || *in.Body.Check
	info, err := s.engine.CreateStream(ctx, server.CreateRequest{Spec: graphmill.StreamSpec(in.Body.StreamDefinition), Check: check, Owner: caller(ctx), DryRun: in.Body.DryRun})
	if err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		return &createOutput{Status: http.StatusOK, Body: NewStream(info)}, nil
	}
	return &createOutput{Status: http.StatusCreated, Location: prefix + "/streams/" + info.Spec.Name, Body: NewStream(info)}, nil
}

func (s *service) startStream(ctx context.Context, in *startInput) (*startOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	var body StartStream
	if in.Body != nil {
		body = *in.Body
	}
	req := server.StartRequest{BatchLimit: body.BatchLimit, Timeout: time.Duration(body.TimeoutMS) * time.Millisecond}
	for _, a := range body.Accept {
		lost, isLost := strings.CutPrefix(a, "lost=")
		switch {
		case isLost && req.AcceptLost != "" && req.AcceptLost != lost:
			return nil, graphmill.Invalid("accept", "a lost position becomes either the earliest or the latest")
		case isLost:
			req.AcceptLost = lost
		default:
			req.AcceptRecreated = true
		}
	}
	r, err := s.engine.StartStream(ctx, in.Name, req)
	if err != nil {
		return nil, err
	}
	out := &startOutput{Body: StartedStream{Stream: NewStream(r.StreamInfo)}}
	if body.BatchLimit > 0 {
		out.Body.Committed = &Committed{Batches: r.Batches, Messages: r.Messages, Statements: r.Statements, Positions: orEmpty(r.Positions)}
	}
	return out, nil
}

func (s *service) listStreams(ctx context.Context, _ *struct{}) (*streamsOutput, error) {
	infos, err := s.engine.Streams(ctx)
	if err != nil {
		return nil, err
	}
	out := &streamsOutput{Body: Streams{Streams: make([]Stream, 0, len(infos))}}
	for _, i := range infos {
		out.Body.Streams = append(out.Body.Streams, NewStream(i))
	}
	return out, nil
}

func (s *service) onStream(ctx context.Context, name string, do func(context.Context, string) (server.StreamInfo, error)) (*streamOutput, error) {
	if err := graphmill.ValidateName("name", name); err != nil {
		return nil, err
	}
	info, err := do(ctx, name)
	if err != nil {
		return nil, err
	}
	return &streamOutput{Body: NewStream(info)}, nil
}

// changedAll tells what became of each stream when all were started or stopped.
func (s *service) changedAll(ctx context.Context, all []server.Changed, err error) (*changedOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &changedOutput{Body: Changed{Streams: make([]ChangedStream, len(all))}}
	for i, c := range all {
		out.Body.Streams[i] = ChangedStream{Name: c.Spec.Name, State: c.State}
		if c.Err != nil {
			out.Body.Streams[i].Error = s.problem(ctx, c.Err)
		}
	}
	return out, nil
}

func (s *service) deleteStream(ctx context.Context, in *deleteInput) (*deleteOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	info, err := s.engine.Stream(ctx, in.Name)
	if err == nil {
		err = s.engine.DeleteStream(ctx, in.Name, server.DeleteRequest{Unsubscribe: in.Unsubscribe})
	}
	if err != nil {
		return nil, err
	}
	if kept := info.Kept(); kept != "" && !in.Unsubscribe {
		return &deleteOutput{Status: http.StatusOK, Body: &Dropped{Notices: []string{kept}}}, nil
	}
	return &deleteOutput{Status: http.StatusNoContent}, nil
}

func (s *service) streamStatus(ctx context.Context, in *streamInput) (*statusOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	st, err := s.engine.StreamStatus(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	st.Partitions, st.Texts = orEmpty(st.Partitions), orEmpty(st.Texts)
	if st.Counters.BatchesClosed == nil {
		st.Counters.BatchesClosed = map[string]int64{}
	}
	return &statusOutput{Body: st}, nil
}
