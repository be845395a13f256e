package main

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// What apply does to a thing, and what has become of it.
const (
	actionCreate    = "create"
	actionChange    = "change"
	actionUnchanged = "unchanged"
	actionDrop      = "drop"
	actionFail      = "fail" // nothing can be done: it is broken, or the server refuses it

	resultCreated = "created"
	resultChanged = "changed"
	resultDropped = "dropped"
	resultFailed  = "failed"
	resultNotDone = "not done" // what came before it ended the apply
)

// change is one difference between what is and what is to be.
type change struct {
	Option string `json:"option"`
	From   string `json:"from,omitempty"` // empty: there is none
	To     string `json:"to,omitempty"`
}

// appliedItem is one thing of the files, or a stream that is to go.
type appliedItem struct {
	Kind     string          `json:"kind"` // module, stream, file
	Name     string          `json:"name"`
	Place    string          `json:"place,omitempty"` // in the files, as file:line
	Action   string          `json:"action"`
	Changes  []change        `json:"changes,omitempty"`
	Result   string          `json:"result,omitempty"` // absent in a dry run
	State    graphmill.State `json:"state,omitempty"`  // of a stream, when it was done
	Warnings []string        `json:"warnings,omitempty"`
	Errors   []string        `json:"errors,omitempty"`
	Count    int             `json:"count,omitempty"` // of broken definitions that it stands for; absent: one

	stream  *streamPlan
	module  *modulePlan
	refused error  // of the comparison
	group   string // of a stream that is to be dropped
	kept    error  // that another stream of the group keeps it from starting
}

// streamPlan is how a stream becomes what is wanted.
type streamPlan struct {
	wanted *wantedStream
	before *api.Stream // nil: there is none
	brings bool        // the change brings topics, a group or brokers
}

// attempts is how often a stream is compared, and changed, anew where somebody else
// creates, changes or drops it at the same time.
const attempts = 3

// planStream finds out what makes a stream what is wanted. before is nil where
// there is no such stream.
func (p *applying) planStream(ctx context.Context, w *wantedStream, before *api.Stream) (*appliedItem, error) {
	for i := 1; ; i++ {
		item, err := p.compareStream(ctx, w, before)
		if !overtaken(err) || i == attempts {
			return item, err
		}
		if before, err = p.client.findStream(ctx, w.spec.Name); err != nil {
			return item, err
		}
	}
}

// overtaken says of an error that the stream is not as it was when it was compared.
func overtaken(err error) bool {
	p := asProblem(err)
	return p != nil && (p.Code == "stream_exists" || p.Code == "stream_not_found" || p.Code == "invalid" && p.Field == "from")
}

// findStream returns a stream; nil where there is none.
func (c *client) findStream(ctx context.Context, name string) (*api.Stream, error) {
	var s api.Stream
	err := c.call(ctx, http.MethodGet, apiPath("streams", name), nil, &s)
	switch {
	case isCode(err, "stream_not_found"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &s, nil
}

// compareStream lets the server compare a stream with the definition: it alone
// knows the secrets.
func (p *applying) compareStream(ctx context.Context, w *wantedStream, before *api.Stream) (*appliedItem, error) {
	item := &appliedItem{Kind: "stream", Name: w.spec.Name, Place: w.place.String(), stream: &streamPlan{wanted: w, before: before}}
	if before == nil {
		return item, p.planCreation(ctx, item)
	}
	body, err := patchTo(w.spec, before)
	if err != nil {
		return item, err
	}
	body["dry_run"] = true
	var after api.ChangedDefinition
	if err := p.client.call(ctx, http.MethodPatch, apiPath("streams", w.spec.Name), body, &after); err != nil {
		return item, err
	}
	item.stream.brings = len(after.Brings) > 0
	item.Warnings = after.Warnings
	if item.Changes, err = changesOf(&before.StreamDefinition, &after); err != nil {
		return item, err
	}
	if w.state != "" && !hasState(before, w.state) {
		item.Changes = append(item.Changes, change{"state", string(before.State), string(w.state)})
	}
	item.Action = actionUnchanged
	if len(item.Changes) > 0 {
		item.Action = actionChange
	}
	return item, nil
}

func (p *applying) planCreation(ctx context.Context, item *appliedItem) error {
	w := item.stream.wanted
	var after api.Stream
	body := creationOf(w.spec)
	body.DryRun = true
	if err := p.client.call(ctx, http.MethodPost, apiPath("streams"), body, &after); err != nil {
		return err
	}
	given, err := optionsOf(w.spec.Redacted())
	if err != nil {
		return err
	}
	item.Action, item.Warnings = actionCreate, after.Warnings
	for _, name := range optionNames {
		if value, ok := given[name]; ok && name != "name" && !isDefaultSource(name, value) {
			item.Changes = append(item.Changes, entriesOf(given, name)...)
		}
	}
	if w.state != "" {
		item.Changes = append(item.Changes, change{"state", "", string(w.state)})
	}
	return nil
}

func isDefaultSource(name string, value any) bool {
	return name == "source" && (value == "" || value == graphmill.SourceNameKafka)
}

// entriesOf lists an option that is given; of a map, its entries.
func entriesOf(given map[string]any, name string) []change {
	entries, isMap := given[name].(map[string]any)
	if !isMap {
		return []change{{name, "", valueText(given, name)}}
	}
	var changes []change
	for _, entry := range slices.Sorted(maps.Keys(entries)) {
		changes = append(changes, change{name + "." + entry, "", valueText(given, name+"."+entry)})
	}
	return changes
}

func changesOf(before *api.StreamDefinition, after *api.ChangedDefinition) ([]change, error) {
	was, err := optionsOf(graphmill.StreamSpec(*before))
	if err != nil {
		return nil, err
	}
	is, err := optionsOf(graphmill.StreamSpec(after.StreamDefinition))
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, name := range after.Changed {
		changes = append(changes, change{name, valueOf(was, name), valueOf(is, name)})
	}
	return changes, nil
}

// valueOf is valueText, and empty where there is no value.
func valueOf(options map[string]any, name string) string {
	if text := valueText(options, name); text != noValue {
		return text
	}
	return ""
}

// hasState says whether nothing has to be done for a stream to be in a state. One
// that has failed does not run; one that failed and would be stopped is to stay so.
func hasState(s *api.Stream, wanted graphmill.State) bool {
	if wanted == graphmill.StateStopped {
		return s.Desired == graphmill.StateStopped
	}
	return isUnderWay(s)
}

// isUnderWay says whether a stream runs, or is on its way to it.
func isUnderWay(s *api.Stream) bool {
	switch s.State {
	case graphmill.StateStopped, graphmill.StateFailed, graphmill.StateBroken:
		return false
	}
	return true
}

// creationOf is the request that creates a stream. An absent broker or topic does
// not refuse it.
func creationOf(spec graphmill.StreamSpec) api.CreateStream {
	check := false
	spec.Source = cmp.Or(spec.Source, graphmill.SourceNameKafka)
	return api.CreateStream{StreamDefinition: api.StreamDefinition(spec), Check: &check}
}

// patchTo is the patch that makes a stream what a definition says: what that does
// not name gets its default, and entries of maps that it does not name go.
func patchTo(spec graphmill.StreamSpec, before *api.Stream) (map[string]any, error) {
	given, err := optionsOf(spec)
	if err != nil {
		return nil, err
	}
	was := map[string]map[string]string{"configs": before.Configs, "credentials": before.Credentials, "settings": before.Settings}
	patch := map[string]any{}
	for _, name := range optionNames {
		value, ok := given[name]
		switch entries, isMap := value.(map[string]any); {
		case name == "name":
			continue
		case !ok || value == "":
			value = nil
		case isMap:
			for entry := range was[name] {
				if _, stays := entries[entry]; !stays {
					entries[entry] = nil
				}
			}
		}
		patch[name] = value
	}
	return patch, nil
}
