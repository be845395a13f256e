package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const (
	jsonType = "application/json"
	wasmType = "application/wasm"

	maxJSONBytes = 16 << 20

	// A JSON body of more than largeJSONBytes is decoded and worked on beside
	// one other of its kind at most; more wait. What it is decoded into takes
	// many times its size.
	largeJSONBytes = 1 << 20
	maxLargeJSON   = 2

	// uploadsAtOnce bounds what uploads take of the memory together, in files of
	// the largest size: many small ones fit beside each other, and others wait
	// before anything of them is read.
	uploadsAtOnce = 4

	// bodyTimeout ends a body that trickles in. Generous, since a module may
	// come over a slow line.
	bodyTimeout = 5 * time.Minute
)

type bodyKey struct{}

// rawBody returns the bytes of a request's body, as takeBody has read them.
func rawBody(ctx context.Context) []byte {
	b, _ := ctx.Value(bodyKey{}).([]byte)
	return b
}

// takeBody checks and reads the body of a request, at most limit bytes. What
// can be refused by its header is refused before anything is read. The
// request that it returns carries the bytes both as Body and for rawBody.
//
// done lets go of the body's memory, once the request has been answered.
func (s *service) takeBody(w http.ResponseWriter, r *http.Request, op *huma.Operation, limit int64) (_ *http.Request, done func(), err error) {
	done = func() {}
	if op.RequestBody == nil {
		return r, done, nil
	}
	if r.ContentLength == 0 {
		return r, done, missingBody(op)
	}
	if err := checkContentType(r, op); err != nil {
		return r, done, err
	}
	if r.ContentLength > limit {
		return r, done, tooLarge(limit)
	}
	if op.RequestBody.Content[wasmType] != nil {
		size := r.ContentLength
		if size < 0 {
			size = limit // it does not say
		}
		if err := s.uploads.Acquire(r.Context(), size); err != nil {
			return r, done, err
		}
		done = func() { s.uploads.Release(size) }
	}
	r, err = readBody(w, r, op, limit)
	return r, done, err
}

// readBody reads the body, at most limit bytes.
//
// The deadline for reading is lifted afterwards: one that ran out while the
// handler works would cancel the request's context.
func readBody(w http.ResponseWriter, r *http.Request, op *huma.Operation, limit int64) (*http.Request, error) {
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every transport has one
	defer func() { _ = deadlines.SetReadDeadline(time.Time{}) }()
	// The end of the server does not wait for what trickles in.
	stop := context.AfterFunc(r.Context(), func() { _ = deadlines.SetReadDeadline(time.Now()) })
	defer stop()

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return r, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded) && r.Context().Err() != nil:
		return r, r.Context().Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return r, newProblem(http.StatusRequestTimeout, "timeout", "the body did not arrive within %s", bodyTimeout)
	case err != nil:
		return r, newProblem(http.StatusBadRequest, "malformed", "the body could not be read to its end: %s", err)
	case len(body) == 0:
		return r, missingBody(op)
	}
	r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, nil
}

// admit checks a JSON body before huma decodes it, and waits with a large one
// until few others are in hand. done ends the turn of the request.
func (s *service) admit(r *http.Request, op *huma.Operation) (done func(), err error) {
	done = func() {}
	body := rawBody(r.Context())
	if len(body) == 0 || op.RequestBody.Content[jsonType] == nil {
		return done, nil
	}
	if err := checkJSON(body, op.RequestBody.Content[jsonType].Schema, s.huma.OpenAPI().Components.Schemas); err != nil {
		return done, err
	}
	if len(body) <= largeJSONBytes {
		return done, nil
	}
	select {
	case s.largeJSON <- struct{}{}:
		return func() { <-s.largeJSON }, nil
	case <-r.Context().Done():
		return done, r.Context().Err()
	}
}

func missingBody(op *huma.Operation) error {
	if !op.RequestBody.Required {
		return nil
	}
	return newProblem(http.StatusBadRequest, "body_missing", "a body of %s is needed, and there is none", bodyTypes(op))
}

func tooLarge(limit int64) error {
	p := newProblem(http.StatusRequestEntityTooLarge, "too_large", "the body has more than %d bytes, the most that is taken here", limit)
	return p
}

func checkContentType(r *http.Request, op *huma.Operation) error {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return newProblem(http.StatusUnsupportedMediaType, "content_encoding", "the content encoding %.40q is not taken; send the body as it is", e)
	}
	given := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	if err == nil && op.RequestBody.Content[media] != nil && (charset == "" || strings.EqualFold(charset, "utf-8")) {
		return nil
	}
	p := newProblem(http.StatusUnsupportedMediaType, "content_type", "the body is %s, and the content type says %.60q", bodyTypes(op), given)
	p.Field = "Content-Type"
	p.NextStep = fmt.Sprintf("send the header Content-Type: %s", bodyTypes(op))
	return p
}

func bodyTypes(op *huma.Operation) string {
	types := make([]string, 0, len(op.RequestBody.Content))
	for t := range op.RequestBody.Content {
		types = append(types, t)
	}
	slices.Sort(types)
	return strings.Join(types, " or ")
}

// strictJSON is how bodies are read and answers written. Errors of reading say
// where; huma checks fields and types against the schema afterwards.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		err := json.Unmarshal(data, v)
		var syntax *json.SyntaxError
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			// Offset counts the bytes read, the offending one among them.
			before := data[:max(0, min(int(syntax.Offset)-1, len(data)))]
			line := bytes.Count(before, []byte("\n")) + 1
			column := len(before) - bytes.LastIndexByte(before, '\n')
			return fmt.Errorf("this is no JSON: line %d, column %d: %s", line, column, syntax)
		case errors.As(err, &wrong):
			return errors.New(wrongType(wrong))
		}
		return err
	},
}
