package graphmilltest

import (
	"fmt"
	"unicode/utf8"
)

const (
	responseMark  = 0x31524d47
	responseSize  = 28
	queryEntry    = 16
	nameEntry     = 8
	statementSize = 16
	failureSize   = 16

	failureRetry   = 1
	failureAborted = 2
)

// decode reads a response frame and checks what the host checks.
func decode(frame []byte, messages int) (Result, error) {
	d := decoder{frame: frame, messages: messages}
	if len(frame) < responseSize || le.Uint32(frame) != responseMark {
		return Result{}, fmt.Errorf("it is not a response frame")
	}
	failures, void, err := d.failures()
	if err != nil || void {
		return Result{Failures: failures}, err
	}
	queries, err := d.queries()
	if err != nil {
		return Result{}, err
	}
	statements, err := d.statements(queries, failures)
	if err != nil {
		return Result{}, err
	}
	return Result{Statements: statements, Failures: failures}, nil
}

type decoder struct {
	frame    []byte
	messages int
}

type query struct {
	text  string
	names []string
}

// failures reads the failure entries; void says that nothing else counts.
func (d *decoder) failures() (list []Failure, void bool, err error) {
	at, count, err := d.table(20, failureSize)
	failed := map[int]bool{}
	for i := 0; i < count && err == nil; i++ {
		entry := at + i*failureSize
		var f Failure
		if f.Message, err = d.message(entry); err == nil {
			f.Text, err = d.text(entry + 8)
		}
		if failed[f.Message] {
			err = fmt.Errorf("message %d has failed twice", f.Message)
		}
		flags := le.Uint32(d.frame[entry+4:])
		f.Retry, f.Aborted = flags&failureRetry != 0, flags&failureAborted != 0
		failed[f.Message] = true
		void = void || f.Aborted || f.Message == WholeBatch
		list = append(list, f)
	}
	return list, void, err
}

func (d *decoder) queries() ([]query, error) {
	at, count, err := d.table(4, queryEntry)
	list := make([]query, count)
	for i := 0; i < count && err == nil; i++ {
		entry := at + i*queryEntry
		if list[i].text, err = d.text(entry); err == nil {
			list[i].names, err = d.names(int(le.Uint32(d.frame[entry+8:])), int(le.Uint32(d.frame[entry+12:])))
		}
		if list[i].text == "" && err == nil {
			err = fmt.Errorf("query %d is empty", i)
		}
	}
	return list, err
}

func (d *decoder) names(at, count int) (names []string, err error) {
	if at+count*nameEntry > len(d.frame) {
		return nil, fmt.Errorf("parameter names do not lie within the frame")
	}
	for i := 0; i < count && err == nil; i++ {
		var name string
		name, err = d.text(at + i*nameEntry)
		names = append(names, name)
	}
	return names, err
}

func (d *decoder) statements(queries []query, failures []Failure) ([]Statement, error) {
	at, count, err := d.table(12, statementSize)
	failed := map[int]bool{}
	for _, f := range failures {
		failed[f.Message] = true
	}
	var list []Statement
	for i := 0; i < count && err == nil; i++ {
		entry := at + i*statementSize
		n := le.Uint32(d.frame[entry:])
		if int(n) >= len(queries) {
			return nil, fmt.Errorf("statement %d has a query that does not exist", i)
		}
		s := Statement{Query: queries[n].text}
		if s.Message, err = d.message(entry + 4); err == nil {
			s.Params, err = d.parameters(entry+8, queries[n].names)
		}
		if err != nil {
			err = fmt.Errorf("statement %d: %w", i, err)
		}
		if failed[s.Message] {
			err = fmt.Errorf("message %d has both statements and a failure", s.Message)
		}
		list = append(list, s)
	}
	return list, err
}

// parameters reads the parameters of a statement by name.
func (d *decoder) parameters(ref int, names []string) (map[string]any, error) {
	encoded, err := d.part(ref)
	if err != nil || len(encoded) == 0 && names == nil {
		return map[string]any{}, err
	}
	v, err := Value(encoded)
	if err != nil {
		return nil, err
	}
	if names == nil {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("parameters without names are no map")
		}
		return m, nil
	}
	list, ok := v.([]any)
	if !ok || len(list) != len(names) {
		return nil, fmt.Errorf("the parameters are no list of %d values", len(names))
	}
	m := make(map[string]any, len(names))
	for i, name := range names {
		m[name] = list[i]
	}
	return m, nil
}

// table reads the (count, offset) pair at ref of a table.
func (d *decoder) table(ref, size int) (at, count int, err error) {
	count, at = int(le.Uint32(d.frame[ref:])), int(le.Uint32(d.frame[ref+4:]))
	if count > 0 && at+count*size > len(d.frame) {
		return 0, 0, fmt.Errorf("a table of %d entries at %d does not lie within the frame", count, at)
	}
	return at, count, nil
}

// message reads the index of a message.
func (d *decoder) message(at int) (int, error) {
	i := le.Uint32(d.frame[at:])
	if i == null {
		return WholeBatch, nil
	}
	if int(i) >= d.messages {
		return 0, fmt.Errorf("there is no message %d", i)
	}
	return int(i), nil
}

// part returns what the (offset, length) pair at ref refers to.
func (d *decoder) part(ref int) ([]byte, error) {
	at, n := int(le.Uint32(d.frame[ref:])), int(le.Uint32(d.frame[ref+4:]))
	if n > 0 && at+n > len(d.frame) {
		return nil, fmt.Errorf("%d bytes at %d do not lie within the frame", n, at)
	}
	if n == 0 {
		return nil, nil
	}
	return d.frame[at : at+n], nil
}

func (d *decoder) text(ref int) (string, error) {
	b, err := d.part(ref)
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("a text is not UTF-8: %q", b)
	}
	return string(b), err
}
