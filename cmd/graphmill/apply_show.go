package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/graphmill/graphmill"
)

// applied is the exact answer of an apply.
type applied struct {
	DryRun  bool           `json:"dry_run"`
	Items   []*appliedItem `json:"items"`
	Summary summary        `json:"summary"`
}

// summary counts what has become of things; in a dry run, what would.
type summary struct {
	Created   int `json:"created"`
	Changed   int `json:"changed"`
	Dropped   int `json:"dropped"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	NotDone   int `json:"not_done"`
}

// showPlan shows the differences to people.
func (p *applying) showPlan() {
	for _, item := range p.items {
		switch item.Action {
		case actionFail: // told as an error
			continue
		case actionDrop:
			fmt.Fprintf(p.shown, "%s %s: drop, it is in no file\n", item.Kind, item.Name)
			continue
		}
		fmt.Fprintf(p.shown, "%s %s: %s\n", item.Kind, item.Name, item.Action)
		for _, c := range item.Changes {
			c.print(p.shown, item.Action == actionCreate)
		}
		if p.dryRun && !p.bringsModule(item) {
			for _, w := range item.Warnings {
				fmt.Fprintf(plainText{p.app.err}, "warning: %s: %s\n", item.Name, w)
			}
		}
	}
}

// bringsModule says whether the module of a stream is among what is to be done: of
// it as it will be, the comparison knows nothing.
func (p *applying) bringsModule(stream *appliedItem) bool {
	if stream.stream == nil {
		return false
	}
	ref, err := graphmill.ParseTransformationRef(stream.stream.wanted.spec.Transform)
	if err != nil {
		return false
	}
	for _, item := range p.items {
		if item.module != nil && item.Name == ref.Module && item.Action != actionUnchanged {
			return true
		}
	}
	return false
}

func (c change) print(w io.Writer, created bool) {
	from, to := oneLine(cmp.Or(c.From, noValue)), oneLine(cmp.Or(c.To, noValue))
	switch {
	case created:
		fmt.Fprintf(w, "  %s: %s\n", c.Option, to)
	case from == to: // secrets
		fmt.Fprintf(w, "  %s: another value\n", c.Option)
	default:
		fmt.Fprintf(w, "  %s: %s -> %s\n", c.Option, from, to)
	}
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// showDone tells people what has become of one thing.
func (p *applying) showDone(item *appliedItem) {
	if item.State == "" {
		fmt.Fprintf(p.shown, "%s %s %s\n", item.Result, item.Kind, item.Name)
		return
	}
	fmt.Fprintf(p.shown, "%s %s %s: %s\n", item.Result, item.Kind, item.Name, item.State)
	if item.State == graphmill.StateWaiting {
		fmt.Fprintf(plainText{p.app.err}, "%s is waiting and goes on by itself; for what: graphmill stream show %s\n", item.Name, item.Name)
	}
}

// finish tells what has become of all, and fails where something has.
func (p *applying) finish() error {
	answer := applied{DryRun: p.dryRun, Items: p.items}
	if answer.Items == nil {
		answer.Items = []*appliedItem{}
	}
	s := &answer.Summary
	for _, item := range p.items {
		s.count(item)
	}
	if err := p.out.print(answer, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, s.text(p.dryRun))
		return err
	}); err != nil {
		return err
	}
	if s.Failed > 0 || s.NotDone > 0 {
		if s.NotDone > 0 {
			fmt.Fprintln(p.app.err, "next:  apply again; what is done already is not done twice")
		}
		return &silentError{}
	}
	return nil
}

func (s *summary) count(item *appliedItem) {
	switch what := item.Result; {
	case what == resultFailed:
		s.Failed += max(1, item.Count)
	case what == resultNotDone:
		s.NotDone++
	case what == "" && item.Action == actionCreate, what == resultCreated:
		s.Created++
	case what == "" && item.Action == actionChange, what == resultChanged:
		s.Changed++
	case what == "" && item.Action == actionDrop, what == resultDropped:
		s.Dropped++
	default:
		s.Unchanged++
	}
}

// text is the summary in a line.
func (s *summary) text(dryRun bool) string {
	if s.Created+s.Changed+s.Dropped+s.Failed+s.NotDone == 0 {
		return "nothing to change"
	}
	words := [...]string{"created", "changed", "dropped"}
	if dryRun {
		words = [...]string{"to create", "to change", "to drop"}
	}
	var parts []string
	for _, c := range []struct {
		n    int
		word string
		show bool
	}{
		{s.Created, words[0], true},
		{s.Changed, words[1], true},
		{s.Dropped, words[2], s.Dropped > 0},
		{s.Unchanged, "unchanged", true},
		{s.Failed, "failed", s.Failed > 0},
		{s.NotDone, "not done", s.NotDone > 0},
	} {
		if c.show {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	text := strings.Join(parts, ", ")
	if dryRun {
		text += "; nothing was done (--dry-run)"
	}
	return text
}
