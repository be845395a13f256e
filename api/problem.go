package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
)

const problemType = "application/problem+json"

// Problem is an error as the API answers it: the problem details of RFC 9457
// and a few members of our own. It is an error itself, so that a client can
// hand it on.
type Problem struct {
	Type      string       `json:"type" doc:"A URI that names the kind of problem: urn:graphmill:problem: and the code."`
	Title     string       `json:"title" doc:"The kind of problem in a few words."`
	Status    int          `json:"status" doc:"The HTTP status."`
	Detail    string       `json:"detail" doc:"What is wrong this time; names the thing."`
	Code      string       `json:"code" doc:"A stable word for programs, such as stream_exists."`
	Field     string       `json:"field,omitempty" doc:"The field or parameter that is wrong."`
	NextStep  string       `json:"next_step,omitempty" doc:"What to do about it, a sentence or a command."`
	Errors    []FieldError `json:"errors,omitempty" doc:"Fields that are wrong, where they are more than one; 20 at most."`
	Position  *Place       `json:"position,omitempty" doc:"Where a statement is wrong."`
	RequestID string       `json:"request_id,omitempty" doc:"Finds the request in the server's log."`
}

// Place is where in a statement something is.
type Place struct {
	Line   int `json:"line" doc:"The line, from 1."`
	Column int `json:"column" doc:"The character of the line, from 1."`
	Length int `json:"length" doc:"How many characters are wrong."`
}

// Bounds of what an answer repeats of a request.
const (
	maxFieldErrors = 20
	maxFieldBytes  = 200
)

// cut shortens a text to n bytes at most, in front of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// FieldError is one of several wrong fields of a request.
type FieldError struct {
	Field  string `json:"field" doc:"The field or parameter."`
	Detail string `json:"detail" doc:"What is wrong with it."`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType makes a problem be sent as problem+json.
func (p *Problem) ContentType(string) string { return problemType }

func newProblem(status int, code, format string, args ...any) *Problem {
	return &Problem{
		Type:   "urn:graphmill:problem:" + code,
		Title:  http.StatusText(status),
		Status: status,
		Detail: fmt.Sprintf(format, args...),
		Code:   code,
	}
}

var kindStatus = map[graphmill.Kind]int{
	graphmill.KindInvalid:     http.StatusUnprocessableEntity,
	graphmill.KindNotFound:    http.StatusNotFound,
	graphmill.KindConflict:    http.StatusConflict,
	graphmill.KindTooLarge:    http.StatusRequestEntityTooLarge,
	graphmill.KindUnavailable: http.StatusServiceUnavailable,
	graphmill.KindTimeout:     http.StatusGatewayTimeout,
	graphmill.KindAuth:        http.StatusUnauthorized,
	graphmill.KindInternal:    http.StatusInternalServerError,
}

// problemOf is the one place that turns an error of the engine into an answer.
// What is internal is told by the request's id only.
func problemOf(err error) *Problem {
	var (
		p *Problem
		e *graphmill.Error
		f *graphmill.Fault
		w *statement.Error
	)
	switch {
	case errors.As(err, &p):
		return p
	case isFull(err):
		p = newProblem(http.StatusInsufficientStorage, "storage_full", "what was asked could not be stored: the disk of the server's data directory is full")
		p.NextStep = "make room on it, and try again"
		return p
	case errors.As(err, &w):
		return statementProblem(w)
	case errors.As(err, &e):
		status, known := kindStatus[e.Kind]
		if !known || status == http.StatusInternalServerError {
			return internalProblem()
		}
		code := e.Code
		if code == "" {
			code = string(e.Kind)
		}
		p = newProblem(status, code, "%s", err)
		p.Field, p.NextStep = e.Field, e.Next
		return p
	case errors.As(err, &f):
		// A fault that time may heal is the broker's or the database's; any
		// other one is in what was asked: the definition, the module, a message.
		status := http.StatusUnprocessableEntity
		if f.Class == graphmill.FaultTransient {
			status = http.StatusServiceUnavailable
		}
		detail := f.Text
		if f.Err != nil {
			detail += ": " + f.Err.Error()
		}
		p = newProblem(status, f.Code, "%s", detail)
		p.NextStep = f.Next
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return newProblem(http.StatusGatewayTimeout, "timeout", "the time limit ended the request before it was done")
	case errors.Is(err, context.Canceled):
		return newProblem(http.StatusServiceUnavailable, "cancelled", "the request was given up, or the server is shutting down")
	}
	return internalProblem()
}

// isFull says whether an error that would be internal is one of a full disk.
func isFull(err error) bool {
	if _, isFault := errors.AsType[*graphmill.Fault](err); isFault || graphmill.KindOf(err) != graphmill.KindInternal {
		return false
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func internalProblem() *Problem {
	p := newProblem(http.StatusInternalServerError, "internal", "internal error")
	p.NextStep = "the server's log tells more under this request_id"
	return p
}

// problem answers err to the request of ctx, and logs what is internal whole.
func (s *service) problem(ctx context.Context, err error) *Problem {
	p := problemOf(err)
	id := requestID(ctx)
	if p.Status == http.StatusInternalServerError || p.Status == http.StatusInsufficientStorage {
		s.log.LogAttrs(ctx, slog.LevelError, "request failed",
			slog.String("request_id", id), slog.String("error", err.Error()))
	}
	q := *p
	q.RequestID = id
	return &q
}

// fail writes err as the whole answer, for what happens outside of huma.
func (s *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r.Context(), err)
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(p) // the client may be gone
	}
}

// fromHuma replaces huma's own errors (wrong fields, broken JSON) on their way
// out. It is a huma.Transformer. The offending values are left out: they may
// be secret, and the client has them.
func (s *service) fromHuma(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	var p *Problem
	switch {
	case m.Status >= http.StatusInternalServerError:
		return s.problem(ctx.Context(), m), nil
	case m.Status == http.StatusBadRequest:
		p = newProblem(m.Status, "malformed", "%s", m.Detail)
	default:
		p = newProblem(m.Status, "invalid", "%s", m.Detail)
	}
	told := m.Errors[:min(len(m.Errors), maxFieldErrors)]
	fields := make([]FieldError, 0, len(told))
	for _, d := range told {
		fields = append(fields, s.fieldError(ctx.Operation(), d))
	}
	if len(fields) > 0 {
		p.Field, p.Detail = fields[0].Field, fields[0].Detail
		if p.Field != "" {
			p.Detail = p.Field + ": " + p.Detail
		}
	}
	if len(fields) > 1 {
		p.Errors = fields
	}
	return s.problem(ctx.Context(), p), nil
}

// fieldError names the field as the user wrote it: huma says body.topics[0],
// and tells a missing field as an error of its parent.
func (s *service) fieldError(op *huma.Operation, d *huma.ErrorDetail) FieldError {
	where, field, _ := strings.Cut(d.Location, ".")
	field = cut(field, maxFieldBytes)
	var missing string
	if _, err := fmt.Sscanf(d.Message, validation.MsgExpectedRequiredProperty, &missing); err == nil {
		if field != "" {
			missing = field + "." + missing
		}
		return FieldError{Field: missing, Detail: "is needed, and missing"}
	}
	switch {
	case where == "query" && d.Message == "unknown query parameter":
		return FieldError{Field: field, Detail: "there is no such query parameter" + hint(field, queryNames(op))}
	case d.Message == validation.MsgUnexpectedProperty:
		return FieldError{Field: field, Detail: "there is no such field" + hint(field, s.bodyFields(op))}
	}
	return FieldError{Field: field, Detail: d.Message}
}

func hint(given string, known []string) string {
	if near := graphmill.Nearest(given, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

func queryNames(op *huma.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

// bodyFields lists the fields of an operation's JSON body.
func (s *service) bodyFields(op *huma.Operation) []string {
	if op.RequestBody == nil || op.RequestBody.Content[jsonType] == nil {
		return nil
	}
	schema := op.RequestBody.Content[jsonType].Schema
	if schema != nil && schema.Ref != "" {
		schema = s.huma.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	if schema == nil {
		return nil
	}
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}
	return names
}

// under puts where a part of a body stands before the field of its error.
func under(where string, err error) error {
	var e *graphmill.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", where, err)
	}
	moved := *e
	moved.Field = where + "." + e.Field
	return &moved
}
