package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

const mergePatchType = "application/merge-patch+json"

// PatchOptions stand in the body of a change beside the options that it changes.
type PatchOptions struct {
	From  string `json:"from,omitempty" doc:"Where reading begins in topics, a group or brokers that the change brings: earliest, latest, a time in RFC 3339, or committed (where the group is, else start_from). Needed with those, and only with those."`
	Check *bool  `json:"check,omitempty" doc:"Whether an absent broker or topic that the change brings refuses it, and, while the stream runs, a transformation that does not take its settings; true by default."`

	DryRun bool `json:"dry_run,omitempty" doc:"Answer what the definition would be and what would change, and change nothing; false by default. No broker is asked, and from is not needed; what keeps the transformation from being used is told as a warning."`
}

// ChangedDefinition is the answer to a change.
type ChangedDefinition struct {
	Stream
	Changed []string `json:"changed" doc:"The options that have another value now; of maps the entries, as settings.NAME."`
	Brings  []string `json:"brings" doc:"The topics in which reading begins anew: new ones; all, with another group or other brokers. Where there are any, the change needs from."`
}

type patchOutput struct{ Body ChangedDefinition }

func (s *service) registerPatch() {
	schema := &huma.Schema{Ref: s.patchSchema()}
	register(s, huma.Operation{
		OperationID: "changeStream", Method: http.MethodPatch, Path: prefix + "/streams/{name}", Tags: []string{"Streams"},
		Summary: "Change a stream's definition",
		Description: "A JSON merge patch (RFC 7396): an option that is named gets its value, null gives it its default; of configs, credentials and settings " +
			"only the entries that are named change, and null removes one. Secrets that are not named stay. Name and source cannot change. " +
			"A running stream finishes the batch that is being executed and goes on from there under the new definition; the answer comes when that runs, or is waiting. " +
			"A change is taken while the stream waits or retries. Where it is refused, nothing changes.",
		RequestBody: &huma.RequestBody{
			Description: "The options that change.", Required: true,
			Content: map[string]*huma.MediaType{jsonType: {Schema: schema}, mergePatchType: {Schema: schema}},
		},
	}, s.patchStream)
}

// patchSchema describes the options of a definition, none of which is needed.
func (s *service) patchSchema() string {
	const name, ref = "StreamPatch", "#/components/schemas/StreamPatch"
	schemas := s.huma.OpenAPI().Components.Schemas
	patch := *schemas.Schema(reflect.TypeFor[PatchOptions](), false, "")
	schemas.Schema(reflect.TypeFor[StreamDefinition](), true, "")
	for field, of := range schemas.Map()["StreamDefinition"].Properties {
		option := *of
		option.Nullable = true
		patch.Properties[field] = &option
	}
	patch.Required = nil
	schemas.Map()[name] = &patch
	return ref
}

func (s *service) patchStream(ctx context.Context, in *streamInput) (*patchOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	req, err := readPatch(rawBody(ctx))
	if err != nil {
		return nil, err
	}
	r, err := s.engine.PatchStream(ctx, in.Name, req)
	if err != nil {
		return nil, err
	}
	return &patchOutput{Body: ChangedDefinition{Stream: NewStream(r.StreamInfo), Changed: orEmpty(r.Changed), Brings: orEmpty(r.Brings)}}, nil
}

// readPatch parts what is about the change from what changes.
func readPatch(body []byte) (server.PatchRequest, error) {
	req := server.PatchRequest{Check: true}
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(body, &patch); err != nil || patch == nil {
		return req, newProblem(http.StatusBadRequest, "malformed", "the body is no JSON object with the options that change")
	}
	var options PatchOptions
	for field, into := range map[string]any{"from": &options.From, "check": &options.Check, "dry_run": &options.DryRun} {
		value, given := patch[field]
		delete(patch, field)
		if given && json.Unmarshal(value, into) != nil {
			return req, graphmill.Invalid(field, "the value is of the wrong type")
		}
	}
	req.From = options.From
	if options.Check != nil {
		req.Check = *options.Check
	}
	req.DryRun = options.DryRun
	var err error
	req.Patch, err = json.Marshal(patch)
	return req, err
}
