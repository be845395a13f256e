package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

func (a *app) applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR",
		Short: "Make streams and modules what files say",
		Long: `Reads definitions of streams and modules, shows what differs from the server, and
changes that; what is so already is left alone, so that a second time nothing is done.
Files are of these kinds; a folder is read by the names of its files, without the
folders in it:

  *.yaml, *.yml  maps of two lists, streams and modules, as export writes them
  *.cypher       CREATE ... STREAM statements, START STREAM name behind them
  *.wasm         a module of the file's name, unless a YAML file names it

  modules:
    - name: movies
      file: movies.wasm          # from here, and not outside of the folder
  streams:
    - name: ratings
      topics: [ratings]
      transform: movies.transform
      start_from: earliest
      credentials: {sasl.username: loader, sasl.password: secret:kafka}
      state: running             # or stopped; without it as it is, and stopped if new

A definition is the whole of it: an option that it does not name gets its default. The
options are the fields of POST /api/v1/streams, such as batch_interval_ms. A broker or
topic that is not there does not keep a stream from being defined. Topics that are new
to a stream begin where its group or subscription is, else at start_from. What is
broken in a file is told with its line, the rest is applied, and the exit status is 1.
Modules come first, then streams, 16 at once, then what --prune drops, if nothing has
failed.`,
		Example: `  graphmill apply -f streams.yaml --dry-run
  graphmill apply -f deploy/
  graphmill apply -f deploy/ --prune             # drops streams that are in no file
  graphmill apply -f deploy/ -f more.cypher --server http://other:7480`,
		Args: takes(),
	}
	p := &applying{app: a}
	p.client = a.clientFlag(cmd)
	var names []string
	cmd.Flags().StringArrayVarP(&names, "filename", "f", nil, "file or folder of definitions; - is standard input, YAML or CREATE statements; may be repeated")
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "show what would be done, and do nothing")
	cmd.Flags().BoolVar(&p.prune, "prune", false, "drop streams that are in none of the files (modules stay)")
	p.out = a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(names) == 0 {
			return wrongUsage("name the definitions to apply: -f FILE, or -f DIR")
		}
		d, err := a.readDefinitions(cmd.Context(), names)
		if err != nil {
			return err
		}
		defer d.close()
		return p.run(cmd.Context(), d)
	}
	return cmd
}

// applying is one apply.
type applying struct {
	app    *app
	client *client
	out    *output
	dryRun bool
	prune  bool

	shown io.Writer // for people; nothing where the output is exact
	items []*appliedItem
	notes []string // of the comparison, for people

	ended   atomic.Bool // the server is not reached any more, or the user has ended it
	endTold bool
}

// run compares, shows and does.
func (p *applying) run(ctx context.Context, d *definitions) error {
	if p.shown = io.Discard; p.out.format == "table" {
		p.shown = plainText{p.app.out}
	}
	p.tellBroken(d)
	progress := p.app.startProgress("comparing with " + p.client.shown())
	err := p.plan(ctx, d)
	progress.stop()
	if err != nil {
		return err
	}
	for _, item := range p.items {
		if item.refused != nil {
			p.failed(item, item.refused)
		}
	}
	for _, note := range p.notes {
		fmt.Fprintln(plainText{p.app.err}, note)
	}
	p.showPlan()
	if !p.dryRun {
		p.do(ctx)
	}
	return p.finish()
}

// tellBroken tells what cannot be applied, and counts it.
func (p *applying) tellBroken(d *definitions) {
	for _, b := range d.broken {
		item := &appliedItem{Kind: "file", Action: actionFail, Count: b.count}
		for _, err := range b.errs {
			p.failed(item, err)
			if placed, ok := errors.AsType[*definitionError](err); ok && item.Place == "" {
				item.Name, item.Place = b.about, placed.at.String()
			}
		}
		p.items = append(p.items, item)
	}
}

// failed tells why something could not be done.
func (p *applying) failed(item *appliedItem, err error) {
	p.app.tell(item.fail(err))
}

// fail notes why something could not be done, and returns it as it is told.
func (item *appliedItem) fail(err error) error {
	item.Result = resultFailed
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	text, _ := explain(err)
	item.Errors = append(item.Errors, text)
	return err
}

// plan compares everything with the server. Its error ends the apply; what the
// server refuses of one thing does not.
func (p *applying) plan(ctx context.Context, d *definitions) error {
	var there api.Streams
	if err := p.client.call(ctx, http.MethodGet, apiPath("streams"), nil, &there); err != nil {
		return err
	}
	streams := map[string]*api.Stream{}
	for i := range there.Streams {
		streams[there.Streams[i].Name] = &there.Streams[i]
	}
	for _, w := range d.modules {
		item, err := p.planModule(ctx, w)
		if err := p.planned(item, w.located(err)); err != nil {
			return err
		}
	}
	for _, w := range d.streams {
		item, err := p.planStream(ctx, w, streams[w.spec.Name])
		if err := p.planned(item, w.located(err)); err != nil {
			return err
		}
	}
	if !p.prune {
		return nil
	}
	if len(d.broken) > 0 {
		p.notes = append(p.notes, "nothing is pruned: what is broken in the files may define a stream")
		return nil
	}
	if slices.ContainsFunc(p.items, func(item *appliedItem) bool { return item.refused != nil }) {
		p.notes = append(p.notes, "nothing is pruned: not all that the files say can be done")
		return nil
	}
	if !d.listed {
		p.notes = append(p.notes, "nothing is pruned: the files hold no list of streams; that there are to be none is written as streams: []")
		return nil
	}
	for _, s := range there.Streams {
		switch {
		case d.streamsNamed[s.Name] != nil:
		case s.State == graphmill.StateBroken:
			p.notes = append(p.notes, fmt.Sprintf("stream %s is in no file and is left: its definition cannot be read; graphmill stream drop %s gives it up", s.Name, s.Name))
		default:
			p.items = append(p.items, &appliedItem{Kind: "stream", Name: s.Name, Action: actionDrop, group: groupOf(graphmill.StreamSpec(s.StreamDefinition))})
		}
	}
	return nil
}

// planned adds a thing that has been compared, and returns the error where it is
// not about this thing alone.
func (p *applying) planned(item *appliedItem, err error) error {
	if err != nil {
		if !ofOne(err) {
			return err
		}
		item.Action, item.refused = actionFail, err
	}
	p.items = append(p.items, item)
	return nil
}

// ofOne says of an error that it is of one thing, and others may do: the server
// has refused it, or its file cannot be read.
func ofOne(err error) bool {
	_, isFile := errors.AsType[*definitionError](err)
	return isFile || asProblem(err) != nil || graphmill.KindOf(err) == graphmill.KindConflict
}

// located puts the place in the files before what the server refuses.
func (w *wantedStream) located(err error) error {
	problem := asProblem(err)
	if problem == nil {
		return err
	}
	return &definitionError{at: w.at(problem.Field), about: "stream " + w.spec.Name, err: err}
}
