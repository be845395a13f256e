package main

import (
	"context"
	"errors"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
)

// readCypher reads the CREATE statements of a file, and START STREAM behind them
// as the state that the stream is to have.
func (f *definitionFile) readCypher(ctx context.Context, text string) {
	created := map[string]*wantedStream{}
	broken := false // a statement, which may be what creates a stream that is started
	empty := true
	for p := range statement.Pieces(text) {
		if ctx.Err() != nil {
			return
		}
		empty = false
		at := place{f.shown, p.Line}
		parse := statement.Parse
		if f.d.toldEnough(f.shown) {
			parse = statement.ParseBriefly
		}
		s, err := parse(p.Text, nil)
		if err != nil {
			f.breakStatement(p, err)
			broken = true
			continue
		}
		switch s := s.(type) {
		case *statement.Create:
			w := &wantedStream{place: at, spec: s.Spec}
			f.d.addStream(w)
			created[s.Spec.Name] = w
		case *statement.Start:
			w := created[s.Name]
			switch {
			case s.BatchLimit != nil:
				f.d.breaks(at, "START STREAM "+s.Name, errors.New("apply takes no BATCH_LIMIT: it says what is to be, not what is to be done once"))
			case w == nil && broken:
			case w == nil:
				f.d.breaks(at, "START STREAM "+s.Name, errors.New("the stream is not created in this file before it"))
			default:
				w.state = graphmill.StateRunning
			}
		case *statement.StartAll:
			e := notTaken()
			e.Next = "write START STREAM NAME for each stream that is to run"
			f.d.breaks(at, "START ALL STREAMS", e)
		default:
			f.d.breaks(at, statementName(s), notTaken())
		}
	}
	if empty {
		f.d.breaks(place{file: f.shown}, "", errors.New("no statement is in it"))
	}
}

// breakStatement notes what is wrong with a statement, at its place in the file.
func (f *definitionFile) breakStatement(p statement.Piece, err error) {
	at := place{f.shown, p.Line}
	if wrong, ok := errors.AsType[*statement.Error](err); ok {
		wrong = p.In(wrong)
		at.line = wrong.Line
		err = &graphmill.Error{Kind: graphmill.KindInvalid, Code: wrong.Code, Text: wrong.Text, Next: wrong.Next}
	}
	f.d.breaks(at, "", err)
}

// statementName is how a statement begins.
func statementName(s statement.Statement) string {
	words := strings.Fields(statement.Print(s))
	return strings.Join(words[:min(2, len(words))], " ")
}

func notTaken() *graphmill.Error {
	e := graphmill.Invalid("", "apply takes CREATE KAFKA STREAM, CREATE PULSAR STREAM and START STREAM, and nothing else: a file says what is to be")
	e.Next = "execute other statements with: graphmill query"
	return e
}
