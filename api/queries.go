package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/query"
	"github.com/graphmill/graphmill/api/statement"
)

// Query is the body that executes a stream statement.
type Query struct {
	Statement  string                     `json:"statement" minLength:"1" maxLength:"1048576" example:"SHOW STREAMS" doc:"One stream statement; a ';' may end it. Values may stand in it as parameters: $name."`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty" doc:"The values of its parameters by name: null, booleans, numbers, strings, lists and maps. Integers have 64 bits; a number with a point or an exponent, or a larger one, is a float. Those that the statement does not name are passed over."`
}

// Queried is the answer to a statement.
type Queried struct {
	Columns       []string             `json:"columns" doc:"The names of the columns, as Memgraph has them; none where the statement has no rows."`
	Rows          [][]json.RawMessage  `json:"rows" doc:"A value for each column: null, booleans, numbers, strings, arrays and maps as they are, other values in the typed form of Neo4j's Query API. Integers have all their digits, of up to 64 bits: a reader that makes floats of them loses some."`
	Notifications []query.Notification `json:"notifications" doc:"What happened, and what to look at, such as messages of a CHECK that the transformation could not handle."`
}

type (
	queryInput  struct{ Body Query }
	queryOutput struct{ Body Queried }
)

func (s *service) registerQuery() {
	register(s, huma.Operation{
		OperationID: "query", Method: http.MethodPost, Path: prefix + "/query", Tags: []string{"Statements"},
		Summary: "Execute a stream statement",
		Description: "The stream statements of Memgraph (CREATE KAFKA STREAM, START STREAM, SHOW STREAMS, CHECK STREAM, CALL mg....), and ours beside them (ALTER STREAM, SHOW CREATE STREAM). " +
			"Columns, rows and the beginnings of errors are those of Memgraph.\n\n" +
			"A statement that cannot be read answers 422 with the code `syntax_error` or `semantic_error`, and `position` says where; one that is beyond this version, 501 with `not_available_yet`. " +
			"What the engine refuses has the status and the code that the request of the same meaning has: 404 `stream_not_found`, 409 `already_running`, 404 `topic_absent`, 503 `broker_unreachable`, 504 `check_timeout`.",
	}, s.query)
}

func (s *service) query(ctx context.Context, in *queryInput) (*queryOutput, error) {
	params := make(map[string]any, len(in.Body.Parameters))
	for name, doc := range in.Body.Parameters {
		value, err := parameterOf(doc)
		if err != nil {
			return nil, graphmill.Invalid("parameters", "a value of parameter %s: %v", cut(strconv.Quote(name), maxFieldBytes), err)
		}
		params[name] = value
	}
	r, err := query.Run(ctx, s.engine, query.Request{
		Statement: in.Body.Statement, Parameters: params, Owner: caller(ctx), Logger: s.log.With("request_id", requestID(ctx)),
	})
	if err != nil {
		return nil, err
	}
	body := Queried{Columns: r.Columns, Rows: make([][]json.RawMessage, len(r.Rows)), Notifications: orEmpty(r.Notifications)}
	for i, row := range r.Rows {
		body.Rows[i] = make([]json.RawMessage, len(row))
		for k, value := range row {
			if body.Rows[i][k], err = graphmill.MarshalValue(value); err != nil {
				return nil, fmt.Errorf("encode column %s of row %d: %w", r.Columns[k], i, err)
			}
		}
	}
	return &queryOutput{Body: body}, nil
}

// parameterOf reads a value as statements take it; see statement.Parse.
func parameterOf(doc json.RawMessage) (any, error) {
	value, err := decodeNumbers(doc)
	if err != nil {
		return nil, err
	}
	return withNumbers(value)
}

// withNumbers puts an int64, or else a float64, in place of each json.Number of a
// value.
func withNumbers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		if f, err := v.Float64(); err == nil {
			return f, nil
		}
		return nil, errors.New("a number is beyond what a float of 64 bits holds")
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = withNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func decodeNumbers(doc json.RawMessage) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	err = d.Decode(&value)
	return value, err
}

// statementProblem answers what is wrong with a statement, and where.
func statementProblem(e *statement.Error) *Problem {
	status := http.StatusUnprocessableEntity
	if e.Code == statement.CodeNotAvailableYet {
		status = http.StatusNotImplemented
	}
	p := newProblem(status, e.Code, "%s", e.Text)
	p.Field, p.NextStep = "statement", e.Next
	p.Position = &Place{Line: e.Line, Column: e.Column, Length: e.Length}
	return p
}
