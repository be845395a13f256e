package graphmill

import "unicode/utf8"

// Retry marks an error as worth trying the message again: something that the
// next attempt may not meet. Graphmill tries a few times, then treats the error
// like any other. Retry(nil) is nil.
func Retry(err error) error {
	if err == nil {
		return nil
	}
	return &retryError{err}
}

type retryError struct{ err error }

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// Abort, returned by a handler of [PerBatch], says that it had to stop at m:
// nothing of the batch counts, and m is the message suspected first. It may be
// wrapped around [Retry]. Abort(m, nil) is nil.
func Abort(m Message, err error) error {
	if err == nil {
		return nil
	}
	return &abortError{m.index, err}
}

type abortError struct {
	message uint32
	err     error
}

func (e *abortError) Error() string { return e.err.Error() }
func (e *abortError) Unwrap() error { return e.err }

// find is errors.As without reflection, which would make every module larger.
func find[T error](err error) (T, bool) {
	if t, ok := err.(T); ok {
		return t, true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return find[T](e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if t, ok := find[T](err); ok {
				return t, true
			}
		}
	}
	var none T
	return none, false
}

// failure is a failure entry in the making.
type failure struct {
	message uint32
	flags   uint32
	text    string
}

// newFailure reads an error: its text, and whether it is marked.
func newFailure(message uint32, err error) failure {
	f := failure{message: message, text: failureText(err)}
	if _, ok := find[*retryError](err); ok {
		f.flags |= failureRetry
	}
	return f
}

// maxFailureText is the longest text of a failure, in bytes. The host cuts there
// too.
const maxFailureText = 4096

// failureText returns the text of an error as it may stand in a frame: never
// empty, UTF-8, not long.
func failureText(err error) string {
	s := err.Error()
	if s == "" {
		return "the handler returned an error without a text"
	}
	if !utf8.ValidString(s) {
		var b []byte
		for _, c := range s { // what is no UTF-8 comes as U+FFFD
			b = utf8.AppendRune(b, c)
		}
		s = string(b)
	}
	if len(s) > maxFailureText {
		cut := maxFailureText - len("...")
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "..."
	}
	return s
}
