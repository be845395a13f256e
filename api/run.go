package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// RunRequest is the body that tries a transformation.
type RunRequest struct {
	Messages []Message         `json:"messages" minItems:"1" doc:"The batch. All messages go into one call."`
	Settings map[string]string `json:"settings,omitempty" doc:"SETTINGS of the transformation, as a stream would hand them over."`
}

// RunResult is what a transformation made of messages.
type RunResult struct {
	Statements  []Statement      `json:"statements" doc:"The statements, in the order in which they would be executed. None has been."`
	Failures    []Failure        `json:"failures" doc:"Messages that the transformation could not handle."`
	Log         []server.LogLine `json:"log" doc:"What the transformation wrote to its log."`
	DurationMS  float64          `json:"duration_ms" doc:"Time of the call in milliseconds."`
	MemoryBytes int64            `json:"memory_bytes" doc:"Linear memory of the module after the call."`
}

type (
	runInput struct {
		Name     string `path:"name" doc:"The name of the module."`
		Function string `path:"function" doc:"The exported function; transform by default of streams."`
		Body     RunRequest
	}
	runOutput struct{ Body RunResult }
)

func (s *service) registerRun() {
	register(s, huma.Operation{
		OperationID: "runTransformation", Method: http.MethodPost, Tags: []string{"Modules"},
		Path:        prefix + "/modules/{name}/transformations/{function}:run",
		Summary:     "Try a transformation on given messages",
		Description: "Calls the active version once, in an instance of its own, and executes nothing.",
	}, s.runTransformation)
}

func (s *service) runTransformation(ctx context.Context, in *runInput) (*runOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	messages := make([]graphmill.Message, len(in.Body.Messages))
	for i := range in.Body.Messages {
		var err error
		if messages[i], err = in.Body.Messages[i].Message(i); err != nil {
			return nil, under(fmt.Sprintf("messages[%d]", i), err)
		}
	}
	res, err := s.engine.RunTransformation(ctx, server.RunRequest{
		Module: in.Name, Function: in.Function, Messages: messages, Settings: in.Body.Settings,
	})
	if err != nil {
		return nil, err
	}
	body, err := NewRunResult(messages, res)
	if err != nil {
		return nil, err
	}
	return &runOutput{Body: body}, nil
}

// NewRunResult returns the JSON form of a result.
func NewRunResult(messages []graphmill.Message, res server.RunResult) (RunResult, error) {
	statements, failures, err := NewStatements(messages, res.Output)
	if err != nil {
		return RunResult{}, err
	}
	return RunResult{
		Statements:  statements,
		Failures:    failures,
		Log:         orEmpty(res.Log),
		DurationMS:  float64(res.Duration) / float64(time.Millisecond),
		MemoryBytes: res.Memory,
	}, nil
}
