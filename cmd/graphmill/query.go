package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/api/query"
	"github.com/graphmill/graphmill/api/statement"
)

// maxScriptBytes bounds what is read from standard input.
const maxScriptBytes = 64 << 20

func (a *app) queryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "query [STATEMENT]",
		Short: "Execute stream statements",
		Long: `Executes one stream statement; or those of standard input, each ended by ';', up to
the first that fails; or, on a terminal, what is typed at a prompt.

The statements are those of Memgraph's streams, and ours beside them:

  CREATE KAFKA STREAM name TOPICS a, b TRANSFORM module.function [options]
  ALTER STREAM name SET options [FROM start]
  START STREAM name [BATCH_LIMIT n [TIMEOUT ms]]    START ALL STREAMS
  STOP STREAM name                                  STOP ALL STREAMS
  CHECK STREAM name [BATCH_LIMIT n] [TIMEOUT ms] [FROM start]
  SHOW STREAMS    SHOW CREATE STREAM name    DROP STREAM name
  CALL mg.stream_status('name')    CALL mg.kafka_set_stream_offset('name', -1)

Parameters ($name) stand wherever a value does. With -o json each answer is one JSON
document of columns, rows and notifications.`,
		Example: `  graphmill query "SHOW STREAMS"
  graphmill query "CHECK STREAM ratings FROM earliest" -o json
  graphmill query "START STREAM \$name BATCH_LIMIT 1" --param name=ratings
  graphmill query < streams.cypher
  graphmill query`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return wrongUsage("%s takes one statement, as one argument: put it into quotes", cmd.CommandPath())
			}
			return nil
		},
	}
	s := &session{app: a}
	s.client = a.clientFlag(cmd)
	cmd.Flags().StringArrayVar(&s.given, "param", nil, "NAME=VALUE of a parameter; the value is JSON, or a string as it is; may be repeated")
	s.out = a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if s.params, err = parseParams(s.given); err != nil {
			return err
		}
		switch {
		case len(args) == 1:
			return s.one(cmd.Context(), args[0])
		case a.typedIn() && a.onTerminal():
			return s.prompt(cmd.Context())
		}
		return s.script(cmd.Context(), a.in)
	}
	return cmd
}

// typedIn says whether standard input is a person at a terminal.
func (a *app) typedIn() bool {
	f, ok := a.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// parseParams reads NAME=VALUE flags. What is no JSON is a string.
func parseParams(given []string) (map[string]json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	for _, g := range given {
		name, value, ok := strings.Cut(g, "=")
		if !ok || name == "" {
			return nil, wrongUsage("--param is NAME=VALUE")
		}
		if _, twice := params[name]; twice {
			return nil, wrongUsage("--param %s is given twice", name)
		}
		doc := json.RawMessage(value)
		if !utf8.ValidString(g) {
			return nil, wrongUsage("--param %s is not text in UTF-8", strings.ToValidUTF8(name, "?"))
		}
		if !json.Valid(doc) {
			var err error
			if doc, err = json.Marshal(value); err != nil {
				return nil, fmt.Errorf("encode parameter %s: %w", name, err)
			}
		}
		params[name] = doc
	}
	return params, nil
}

// session executes statements one after another.
type session struct {
	app    *app
	client *client
	out    *output
	given  []string
	params map[string]json.RawMessage
}

// statementError is why a statement could not be executed, with the text that it
// stands in.
type statementError struct {
	err   error
	text  string
	piece statement.Piece // of the text
	many  bool            // the text has other statements, too
}

func (e *statementError) Error() string { return e.err.Error() }
func (e *statementError) Unwrap() error { return e.err }

// where tells the place in the text: the line with what is wrong in it, or, where
// nothing is wrong with the statement itself, the line where it begins if there
// are several.
func (e *statementError) where() string {
	if p := asProblem(e.err); p != nil && p.Position != nil {
		at := e.piece.In(&statement.Error{Line: p.Position.Line, Column: p.Position.Column, Length: p.Position.Length})
		return fmt.Sprintf("line %d, column %d:\n%s\n", at.Line, at.Column, indent(at.Excerpt(e.text)))
	}
	if e.many {
		return fmt.Sprintf("it is the statement of line %d\n", e.piece.Line)
	}
	return ""
}

// one executes a text that is one statement.
func (s *session) one(ctx context.Context, text string) error {
	if len(statement.Split(text)) == 0 {
		return wrongUsage("there is no statement in the argument")
	}
	return s.execute(ctx, text, statement.Piece{Text: text, Line: 1, Column: 1})
}

// script executes the statements of a text in order, up to the first that fails.
func (s *session) script(ctx context.Context, r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxScriptBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("read standard input: %w", err)
	case len(text) > maxScriptBytes:
		return wrongUsage("standard input has more than %d MiB", maxScriptBytes>>20)
	}
	script := strings.TrimPrefix(string(text), "\ufeff") // some editors of Windows begin files with it
	pieces := statement.Split(script)
	if len(pieces) == 0 {
		return wrongUsage("there is no statement, neither as an argument nor on standard input")
	}
	for i, p := range pieces {
		if err := s.execute(ctx, script, p); err != nil {
			var wrong *statementError
			if errors.As(err, &wrong) {
				wrong.many = len(pieces) > 1
			}
			if rest := len(pieces) - i - 1; rest > 0 {
				fmt.Fprintf(plainText{s.app.err}, "%s not executed, behind line %d\n", count(rest, "statement was", "statements were"), p.Line)
			}
			return err
		}
	}
	return nil
}

func (s *session) execute(ctx context.Context, text string, p statement.Piece) error {
	var answer api.Queried
	if !utf8.ValidString(p.Text) { // JSON would put other characters in place of it
		return &statementError{err: errors.New("the statement is not text in UTF-8"), text: text, piece: p}
	}
	progress := s.app.startProgress("executing")
	began := time.Now()
	err := s.client.call(ctx, http.MethodPost, apiPath("query"), api.Query{Statement: p.Text, Parameters: s.params}, &answer)
	progress.stop()
	took := time.Since(began)
	if err != nil {
		return &statementError{err: err, text: text, piece: p}
	}
	return s.out.print(answer, func(w io.Writer) error { return s.show(w, answer, took) })
}

// show tells an answer to people: the table, and what happened.
func (s *session) show(w io.Writer, answer api.Queried, took time.Duration) error {
	if len(answer.Columns) > 0 {
		cut := printRows(w, answer, s.app.terminal())
		fmt.Fprintf(w, "%s, %d ms\n", count(len(answer.Rows), "row", "rows"), took.Milliseconds())
		if cut {
			fmt.Fprintln(w, "… stands for the rest of a long value; graphmill query -o json has all of it")
		}
	}
	for _, n := range answer.Notifications {
		switch {
		case n.Severity != query.SeverityWarning:
			fmt.Fprintln(w, n.Title)
		case n.Description != "":
			fmt.Fprintf(plainText{s.app.err}, "warning: %s; next: %s\n", n.Title, n.Description)
		default:
			fmt.Fprintf(plainText{s.app.err}, "warning: %s\n", n.Title)
		}
	}
	if len(answer.Columns) == 0 && len(answer.Notifications) == 0 {
		fmt.Fprintf(w, "done, %d ms\n", took.Milliseconds())
	}
	return nil
}
