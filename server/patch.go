package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// PatchStream changes the definition of a stream. Of a stopped or failed one it
// is stored. A running one finishes the batch that is being executed, within the
// drain timeout and without sitting out an outage; what is behind is read again
// and met by a fresh instance under the new definition, from where the old one
// was. It returns once that runs, or after the start timeout, when it is waiting.
//
// Where it is refused everything stays as it was, and a stream that ran goes on.
// Once begun it goes on when ctx ends. A dry run changes nothing.
//
// Errors: KindInvalid with the field; KindNotFound; KindConflict with
// limited_start, group_shared, group_active, what the new transformation lacks,
// or the code of the fault by which the stream ended under the new definition;
// KindNotFound for topics that the patch brings and that are not there, and
// KindUnavailable for brokers.
func (s *Server) PatchStream(ctx context.Context, name string, req PatchRequest) (PatchResult, error) {
	st, err := s.stream(name)
	if err != nil {
		return PatchResult{}, err
	}
	if req.DryRun {
		return s.foreseePatch(ctx, st, req)
	}
	p, r, err := st.patch(ctx, req)
	if err == nil && r != nil {
		err = p.told(st.awaitOpened(ctx, r))
	}
	if err != nil {
		return PatchResult{}, err
	}
	info := st.info()
	info.Warnings = p.warnings
	return PatchResult{StreamInfo: info, Changed: p.changed, Brings: p.brought}, nil
}

// patch is a change of a definition that has been looked at.
type patch struct {
	spec     graphmill.StreamSpec // the new one
	changed  []string
	warnings []string

	old     reading                 // what was read
	check   bool                    // what is not there refuses the change
	brought []string                // topics whose positions are new to the stream; or the pattern of some that are
	why     string                  // they are: the topic, group or broker that is new
	moved   bool                    // to another group or other brokers
	to      *graphmill.OffsetTarget // where it begins in what was brought; nil: where the group is
}

// patch does it, and returns the run that goes on with the new definition; nil:
// none does.
func (st *stream) patch(ctx context.Context, req PatchRequest) (*patch, *run, error) {
	unlock, err := st.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	old := st.current()
	p, err := st.srv.planPatch(ctx, st, req, old != nil)
	if err != nil || len(p.changed) == 0 {
		return p, nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if old == nil {
		positions, err := st.settle(ctx, p)
		if err == nil && p.to == nil {
			positions, err = st.subscribe(ctx, p)
		}
		if err == nil {
			err = st.redefine(ctx, p, positions)
		}
		return p, nil, err
	}
	r, err := st.swap(ctx, old, p)
	return p, r, err
}

// swap ends the run and begins another with the new definition, or with the old
// one where the new one is refused. In between the stream counts as running.
func (st *stream) swap(ctx context.Context, old *run, p *patch) (*run, error) {
	st.setBetween(true)
	defer st.setBetween(false)
	old.halt()
	old.wait(nil, st.srv.cfg.DrainTimeout)
	positions, err := st.settle(ctx, p)
	var r *run
	switch {
	case err != nil:
	case old.endedBy() != nil: // it failed a moment before: START tries again, with the new definition
		return nil, st.redefine(ctx, p, positions)
	default:
		r, err = st.srv.startAlone(ctx, st, p.spec, func() (*run, error) {
			if err := st.redefine(ctx, p, positions); err != nil {
				return nil, err
			}
			return st.launch(old.unsettled()), nil
		})
	}
	if err != nil {
		st.goOn(ctx, old)
	}
	return r, err
}

// settle sets the positions of what the patch brings. The group has to be empty.
func (st *stream) settle(ctx context.Context, p *patch) ([]graphmill.Position, error) {
	if p.to == nil {
		return nil, nil
	}
	spec, err := st.srv.bringing(ctx, p)
	if err != nil || spec == nil {
		return nil, err
	}
	return st.srv.moveGroup(ctx, *spec, nil, *p.to, nil) // the catalog knows nothing of what is brought
}

func (st *stream) setBetween(between bool) {
	st.telling.Lock()
	defer st.telling.Unlock()
	st.mu.Lock()
	st.between = between
	st.mu.Unlock()
	st.tellLocked()
}

// redefine stores the definition, with the positions of what it brings. No run of
// the stream is under way.
func (st *stream) redefine(ctx context.Context, p *patch, positions []graphmill.Position) error {
	st.storing.Lock()
	defer st.storing.Unlock()
	rec := st.record()
	if rec.Locked != nil && stillLocked(rec, p.spec) == nil && rec.Desired == graphmill.StateRunning && rec.Failed == nil {
		rec.Failed = &graphmill.Reason{Code: codeLocked, Since: now(), NextStep: "graphmill stream start " + rec.Spec.Name,
			Text: "its secrets could not be opened; they have been set again"} // as any failure it lasts until START
	}
	old := rec.Spec
	rec.Spec = p.spec
	var err error
	if len(p.brought) > 0 {
		rec, err = st.srv.catalog.MoveStream(ctx, rec, positions, p.moved)
	} else {
		rec, err = st.srv.catalog.UpdateStream(ctx, rec)
	}
	if err != nil {
		return err
	}
	st.setRecord(rec)
	st.tell()
	if old.Database != p.spec.Database {
		st.srv.keepGates()
	}
	st.log.Info("definition changed", "options", strings.Join(p.changed, " "))
	return nil
}

// draftPatch is the change as far as the definitions alone tell it.
func (s *Server) draftPatch(old graphmill.StreamSpec, req PatchRequest) (*patch, error) {
	spec, err := old.Patched(req.Patch)
	if err != nil {
		return nil, err
	}
	if _, reset := s.broker(spec).startFrom(); reset != "" && isNull(req.Patch, "start_from") {
		spec.StartFrom = reset // the default is that of CREATE
	}
	p := &patch{spec: spec, changed: old.Differences(spec), old: s.reads(old), check: req.Check}
	if err := s.withinLimits(spec); err != nil {
		return nil, err
	}
	p.bring(s.reads(spec))
	if req.DryRun && req.From == "" {
		return p, nil
	}
	return p, p.begin(req.From)
}

// isNull says whether a patch gives an option its default.
func isNull(patch json.RawMessage, option string) bool {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(patch, &members) // it has been read before
	return string(members[option]) == "null"
}

// planPatch checks all that can be checked while the stream goes on.
func (s *Server) planPatch(ctx context.Context, st *stream, req PatchRequest, running bool) (*patch, error) {
	rec := st.record()
	p, err := s.draftPatch(rec.Spec, req)
	if err != nil {
		return nil, err
	}
	if len(p.changed) == 0 {
		return p, nil
	}
	spec := p.spec
	if r := st.current(); r != nil && r.limit > 0 {
		e := graphmill.Conflict("limited_start", "stream %q is being started for %s, and stops then", spec.Name, count(r.limit, "batch"))
		e.Next = "change it once that is done, or stop it first"
		return nil, e
	}
	if running {
		if err := s.canTransform(ctx, spec); err != nil {
			return nil, cannotStart(spec.Name, "go on after this change", err)
		}
		if req.Check && slices.ContainsFunc(p.changed, transforms) {
			if err := s.tryTransformation(ctx, spec); err != nil {
				return nil, notTaken(spec.Name, err)
			}
		}
		if err := s.runningTwin(st, spec); err != nil {
			return nil, err
		}
	} else {
		p.warnings = s.warnings(ctx, spec)
	}
	if locked := stillLocked(rec, spec); locked != nil { // the brokers cannot be asked
		if p.to != nil {
			return nil, lockedError(spec.Name, locked)
		}
		p.warnings = append(p.warnings, fmt.Sprintf("the stream cannot start yet: %v", lockedError(spec.Name, locked)))
		return p, nil
	}
	reconnects := slices.ContainsFunc(p.changed, connects)
	if reconnects {
		notes, err := s.clientNotes(spec, spec.StartFrom, req.Check)
		if err != nil {
			return nil, err
		}
		p.warnings = append(p.warnings, notes...)
	}
	if req.Check && (reconnects || len(p.brought) > 0) {
		if err := s.probe(ctx, spec); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// connects says whether an option changes how brokers are reached.
func connects(option string) bool {
	return strings.HasPrefix(option, "configs.") || strings.HasPrefix(option, "credentials.") || option == "bootstrap_servers" || option == "service_url"
}

// transforms says whether an option is handed to the transformation.
func transforms(option string) bool {
	return option == "transform" || strings.HasPrefix(option, "settings.") ||
		option == "memory_limit" || option == "time_limit_ms" || option == "response_limit"
}

// notTaken is the answer where the transformation does not begin under the new
// definition. The stream goes on under the old one.
func notTaken(stream string, err error) error {
	f, ok := asFault(err)
	if !ok {
		return err
	}
	return &graphmill.Error{Kind: graphmill.KindInvalid, Code: f.Code, Err: f.Err,
		Text: fmt.Sprintf("stream %q stays as it was: %s", stream, f.Text),
		Next: "correct what was to change; or have it stored all the same " + Unchecked}
}

// bring finds what the patch brings.
func (p *patch) bring(now reading) {
	switch added := firstNew(now.servers, p.old.servers); {
	case p.old.group != now.group:
		p.why = fmt.Sprintf("the %s %q", now.groupWord(), now.group)
	case added != "":
		p.why = fmt.Sprintf("the broker %s", added)
	}
	if p.moved = p.why != ""; p.moved {
		p.brought = p.spec.Topics
		if now.pattern != nil {
			p.brought = []string{now.pattern.text}
		}
		return
	}
	if now.pattern != nil && (p.old.pattern == nil || p.old.pattern.text != now.pattern.text) {
		p.brought = []string{now.pattern.text}
		p.why = fmt.Sprintf("topics of the pattern %q", now.pattern.text)
		return
	}
	for i, t := range p.spec.Topics {
		if !p.old.covers(now.topics[i]) {
			p.brought = append(p.brought, t)
			p.why = fmt.Sprintf("the topic %q", t)
		}
	}
}

// begin finds where reading begins in what the patch brings.
func (p *patch) begin(from string) error {
	switch {
	case len(p.brought) == 0 && from != "":
		e := graphmill.Invalid("from", "nothing new is read, so nothing begins anew")
		e.Next = "positions are set with: graphmill stream offsets " + p.spec.Name + " --set"
		return e
	case len(p.brought) == 0 || from == sources.FromCommitted:
		return nil
	case from == "":
		e := graphmill.Invalid("from", "the change brings %s: it has to be told where reading begins there", p.why)
		e.Next = "say it with --from (\"from\"): earliest, latest, a time, or committed (where its " + groupWord(p.spec.Source) + " is, else start_from)"
		return e
	}
	start, err := graphmill.ParseStart("from", from)
	if err != nil {
		return graphmill.Invalid("from", "%q is neither committed, earliest, latest nor a time such as 2026-01-31T12:00:00Z", from)
	}
	p.to = &graphmill.OffsetTarget{Start: start}
	return nil
}

// firstNew returns the first of some that is not among others, or "".
func firstNew(some, others []string) string {
	for _, s := range some {
		if !slices.Contains(others, s) {
			return s
		}
	}
	return ""
}

// told is the answer where the stream has ended at once under the new definition.
func (p *patch) told(err error) error {
	var e *graphmill.Error
	if !errors.As(err, &e) {
		return err
	}
	stored := *e
	stored.Text = "the new definition is stored, but: " + e.Text
	return &stored
}
