package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"

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

	stream *streamPlan
	module *modulePlan
}

// streamPlan is how a stream becomes what is wanted.
type streamPlan struct {
	wanted *wantedStream
	before *api.Stream // nil: there is none
	brings bool        // the change brings topics, a group or brokers
}

// modulePlan is how a module becomes what is wanted.
type modulePlan struct {
	wanted *wantedModule
	again  int // a version that the server has and that is not active; 0: the file is pushed
}

// planModule compares a module with the server's.
func (p *applying) planModule(ctx context.Context, w *wantedModule) (*appliedItem, error) {
	item := &appliedItem{Kind: "module", Name: w.name, Place: w.place.String(), module: &modulePlan{wanted: w}}
	sum, size, err := w.sum()
	if err != nil {
		return item, w.wrong(err)
	}
	var there api.ModuleVersions
	err = p.client.call(ctx, http.MethodGet, apiPath("modules", w.name), nil, &there)
	if err != nil && !isCode(err, "module_not_found") {
		return item, err
	}
	i := slices.IndexFunc(there.Versions, func(m graphmill.Module) bool { return m.SHA256 == sum })
	active := slices.IndexFunc(there.Versions, func(m graphmill.Module) bool { return m.Active })
	switch {
	case i >= 0 && i == active:
		item.Action = actionUnchanged
		return item, nil
	case i >= 0:
		item.module.again = there.Versions[i].Version
	case w.file == "":
		return item, w.wrong(&graphmill.Error{
			Kind: graphmill.KindNotFound, Code: "module_not_found",
			Text: fmt.Sprintf("the server has no version of it with the SHA-256 %.12s, and no file is named", sum),
			Next: "name the module's file: export writes it with --modules DIR",
		})
	}
	item.Action = actionCreate
	was := ""
	if active >= 0 && !there.ReadOnly { // a ready module is hidden by one that is pushed
		item.Action = actionChange
		was = there.Versions[active].SHA256[:12]
		if item.module.again > 0 {
			item.Changes = append(item.Changes, change{"version", strconv.Itoa(there.Active), strconv.Itoa(item.module.again)})
		}
	}
	item.Changes = append(item.Changes, change{"sha256", was, sum[:12]})
	if size > 0 && item.Action == actionCreate {
		item.Changes = append(item.Changes, change{"size", "", sizeText(size)})
	}
	return item, nil
}

// sum returns the SHA-256 of the module's file and its size, or the SHA-256 that
// is all there is.
func (w *wantedModule) sum() (string, int64, error) {
	if w.sha256 != "" {
		if b, err := hex.DecodeString(w.sha256); err != nil || len(b) != sha256.Size {
			return "", 0, errors.New("sha256 is no SHA-256: 64 hexadecimal digits")
		}
	}
	if w.file == "" {
		return w.sha256, 0, nil
	}
	file, err := w.open()
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = file.Close() }()
	sum, size, err := sumOf(file)
	switch {
	case err != nil:
		return "", 0, outside(err)
	case size == 0:
		return "", 0, fmt.Errorf("%s is empty", w.file)
	case w.sha256 != "" && sum != w.sha256:
		return "", 0, fmt.Errorf("%s has the SHA-256 %.12s, not the one that stands beside it", w.file, sum)
	}
	return sum, size, nil
}

// sumOf reads to the end, and returns the SHA-256 and the size of what it has read.
func sumOf(r io.Reader) (string, int64, error) {
	hash := sha256.New()
	size, err := io.Copy(hash, r)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// open opens the module's file.
func (w *wantedModule) open() (*os.File, error) {
	info, err := w.root.Stat(w.file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", w.file, outside(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", w.file)
	case info.Size() > maxModuleBytes:
		return nil, fmt.Errorf("%s has more than %s, and is no module", w.file, sizeText(maxModuleBytes))
	}
	file, err := w.root.Open(w.file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.file, outside(err))
	}
	return file, nil
}

// planStream lets the server compare a stream with the definition: it alone knows
// the secrets. before is nil where there is no such stream.
func (p *applying) planStream(ctx context.Context, w *wantedStream, before *api.Stream) (*appliedItem, error) {
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
