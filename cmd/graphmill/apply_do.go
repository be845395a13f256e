package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/sources"
)

// doStream makes a stream what is wanted. Where another apply was faster, what is
// left to do is found out anew.
func (p *applying) doStream(ctx context.Context, item *appliedItem) error {
	for i := 1; ; i++ {
		err := p.tryStream(ctx, item)
		if !overtaken(err) || i == attempts {
			return err
		}
		now, err := p.client.findStream(ctx, item.Name)
		if err != nil {
			return err
		}
		anew, err := p.planStream(ctx, item.stream.wanted, now)
		if err != nil {
			return err
		}
		item.Action, item.Changes, item.stream = anew.Action, anew.Changes, anew.stream
	}
}

func (p *applying) tryStream(ctx context.Context, item *appliedItem) error {
	w, before := item.stream.wanted, item.stream.before
	var now api.Stream
	switch {
	case before == nil:
		if err := p.client.call(ctx, http.MethodPost, apiPath("streams"), creationOf(w.spec), &now); err != nil {
			return err
		}
		item.Warnings = now.Warnings
	default:
		now = *before
		if w.state == graphmill.StateStopped { // first, so that a running stream does not meet the change
			if err := p.setState(ctx, item, &now); err != nil {
				return err
			}
		}
		if err := p.changeDefinition(ctx, item, &now); err != nil {
			return err
		}
	}
	item.State = now.State
	if err := p.setState(ctx, item, &now); err != nil {
		return err
	}
	item.State = now.State
	return nil
}

// changeDefinition patches a stream. A transformation that does not take the
// settings refuses the change of a stream that runs; a broker, topic or secret
// that is absent does not.
func (p *applying) changeDefinition(ctx context.Context, item *appliedItem, now *api.Stream) error {
	body, err := patchTo(item.stream.wanted.spec, item.stream.before)
	if err != nil {
		return err
	}
	if item.stream.brings {
		body["from"] = sources.FromCommitted
	}
	body["check"] = isUnderWay(now)
	var after api.ChangedDefinition
	path := apiPath("streams", item.Name)
	err = p.client.call(ctx, http.MethodPatch, path, body, &after)
	if first := asProblem(err); first != nil && body["check"] == true && isAbsence(first) {
		unseen := maps.Clone(body)
		unseen["check"] = false
		if err = p.client.call(ctx, http.MethodPatch, path, unseen, &after); err == nil {
			after.Warnings = append(after.Warnings, first.Detail)
		}
	}
	if err != nil {
		return err
	}
	*now, item.Warnings = after.Stream, after.Warnings
	return nil
}

// isAbsence says of a refusal that it may be for what is not there (yet). Where it
// is for something else, it comes again without the check.
func isAbsence(p *api.Problem) bool {
	return p.Status == http.StatusServiceUnavailable || p.Status == http.StatusConflict
}

// setState starts or stops a stream if that is wanted and it is not so already.
func (p *applying) setState(ctx context.Context, item *appliedItem, now *api.Stream) error {
	wanted := item.stream.wanted.state
	if wanted == "" || hasState(now, wanted) {
		return nil
	}
	action, already := ":start", "already_running"
	if wanted == graphmill.StateStopped {
		action, already = ":stop", "already_stopped"
	}
	path := apiPath("streams", item.Name)
	err := p.client.call(ctx, http.MethodPost, path+action, nil, now)
	if isCode(err, already) {
		err = p.client.call(ctx, http.MethodGet, path, nil, now)
	}
	if err == nil && wanted == graphmill.StateRunning && now.State == graphmill.StateFailed {
		err = &graphmill.Error{Kind: graphmill.KindConflict, Code: "stream_failed",
			Text: fmt.Sprintf("stream %s has failed", item.Name), Next: "graphmill stream show " + item.Name}
	}
	return err
}

// doDrop drops a stream that is in no file. One that is gone already is no error.
func (p *applying) doDrop(ctx context.Context, item *appliedItem) error {
	var dropped api.Dropped
	err := p.client.call(ctx, http.MethodDelete, apiPath("streams", item.Name), nil, &dropped)
	item.Warnings = dropped.Notices
	if isCode(err, "stream_not_found") {
		return nil
	}
	return err
}
