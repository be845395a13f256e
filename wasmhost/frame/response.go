package frame

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/graphmill/graphmill"
)

// Limits bound what a response may hold, and what it may cost the host.
type Limits struct {
	Statements     int // statement entries
	QueryTexts     int // query entries
	QueryTextBytes int // bytes of one query text

	// Decoded bounds the memory in bytes, roughly reckoned, of the statements
	// and values that a response is decoded to: one byte of a frame can become
	// 60 of the host's.
	Decoded int64
}

// maxFailureText is where the text of a failure is cut, in bytes.
const maxFailureText = 4096

// Decoder reads response frames. It keeps query texts, parameter names and time
// zones from one response to the next, within bounds. Not safe for concurrent
// use.
type Decoder struct {
	limits  Limits
	texts   interner
	keys    interner
	offsets map[int32]*time.Location
	zones   map[string]*time.Location

	// Of the response at hand.
	frame    string
	messages int
	unused   int64 // bytes of the frame that no part has taken yet
	memory   int64 // what is left of Limits.Decoded
	slab     []any // from which short lists are cut
}

// NewDecoder returns a decoder with these limits.
func NewDecoder(limits Limits) *Decoder { return &Decoder{limits: limits} }

// Decode reads the answer to a batch of so many messages. Strings among the
// values share the memory of response; query texts and parameter names do not.
//
// Statements of one query entry share one *Query. Where a failure concerns the
// batch as a whole, or is marked as aborted, nothing else of the response
// counts, and only the failures are returned. An error is an *Error: it names
// the field.
func (d *Decoder) Decode(response string, messages int) (graphmill.Output, error) {
	d.frame, d.messages = response, messages
	d.unused, d.memory = int64(len(response)), d.limits.Decoded
	defer func() { d.frame, d.slab = "", nil }()

	if len(response) < ResponseHeaderSize {
		return graphmill.Output{}, malformed("header", "the response has %d bytes, its header alone needs %d", len(response), ResponseHeaderSize)
	}
	if magic := d.u32(0); magic != ResponseMagic {
		return graphmill.Output{}, malformed("header.magic", "%#08x is not %#08x", magic, ResponseMagic)
	}
	d.unused -= ResponseHeaderSize

	failures, void, err := d.failures(d.u32(20), d.u32(24))
	if err != nil || void {
		return graphmill.Output{Failures: failures}, err
	}
	queries, err := d.queries(d.u32(4), d.u32(8))
	if err != nil {
		return graphmill.Output{}, err
	}
	statements, err := d.statements(d.u32(12), d.u32(16), queries, failures)
	if err != nil {
		return graphmill.Output{}, err
	}
	return graphmill.Output{Statements: statements, Failures: failures}, nil
}

// failures reads the failure entries. void says that nothing else counts.
func (d *Decoder) failures(count, off uint32) (list []graphmill.Failure, void bool, err error) {
	if count == 0 {
		return nil, false, nil
	}
	if int64(count) > int64(d.messages)+1 {
		return nil, false, malformed("header.failures", "%d failures for %d messages", count, d.messages)
	}
	at, err := d.table("header.failures", count, off, FailureSize)
	if err != nil {
		return nil, false, err
	}
	failed := make(map[int]bool, count)
	list = make([]graphmill.Failure, count)
	for i := range list {
		name := part{"failure", i}
		entry := at + i*FailureSize
		message, err := d.message(name, d.u32(entry))
		if err != nil {
			return nil, false, err
		}
		if failed[message] {
			return nil, false, malformed(name.field("message"), "message %d has failed once already", message)
		}
		failed[message] = true
		flags := d.u32(entry + 4)
		if flags&^(FailureRetry|FailureAborted) != 0 {
			return nil, false, malformed(name.field("flags"), "%#x holds flags that are not known", flags)
		}
		text, err := d.text(name, "text", d.u32(entry+8), d.u32(entry+12))
		if err != nil {
			return nil, false, err
		}
		aborted := flags&FailureAborted != 0
		void = void || aborted || message == graphmill.WholeBatch
		list[i] = graphmill.Failure{Message: message, Text: clipText(text), Retry: flags&FailureRetry != 0, Aborted: aborted}
	}
	return list, void, nil
}

// clipText returns a copy, cut where it is over maxFailureText.
func clipText(s string) string {
	if len(s) <= maxFailureText {
		return strings.Clone(s)
	}
	n := maxFailureText
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + " ... (cut, " + strconv.Itoa(len(s)) + " bytes)"
}

func (d *Decoder) queries(count, off uint32) ([]graphmill.Query, error) {
	if count == 0 {
		return nil, nil
	}
	if int64(count) > int64(d.limits.QueryTexts) {
		return nil, overLimit("header.queries", "%d query texts, the limit is %d", count, d.limits.QueryTexts)
	}
	at, err := d.table("header.queries", count, off, QuerySize)
	if err != nil {
		return nil, err
	}
	list := make([]graphmill.Query, count)
	for i := range list {
		name := part{"query", i}
		entry := at + i*QuerySize
		length := d.u32(entry + 4)
		if length == 0 {
			return nil, malformed(name.field("text"), "the query text is empty")
		}
		if int64(length) > int64(d.limits.QueryTextBytes) {
			return nil, overLimit(name.field("text"), "the query text has %d bytes, the limit is %d", length, d.limits.QueryTextBytes)
		}
		text, err := d.text(name, "text", d.u32(entry), length)
		if err != nil {
			return nil, err
		}
		list[i].Text = d.texts.get(text)
		if list[i].Names, err = d.names(name, d.u32(entry+12), d.u32(entry+8)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// names reads the parameter names of a query; nil where there are none.
func (d *Decoder) names(query part, count, off uint32) ([]string, error) {
	if count == 0 {
		return nil, nil
	}
	at, err := d.table(query.field("names"), count, off, NameSize)
	if err != nil {
		return nil, err
	}
	if !d.spend(int64(count) * (stringCost + mapEntryCost)) {
		return nil, d.tooLarge(query.field("names"))
	}
	list := make([]string, count)
	seen := make(map[string]bool, count)
	for i := range list {
		name := part{query.field("names"), i}
		s, err := d.text(name, "", d.u32(at+i*NameSize), d.u32(at+i*NameSize+4))
		if err != nil {
			return nil, err
		}
		if seen[s] {
			return nil, malformed(name.field(""), "the name %q stands there twice", clipName(s))
		}
		seen[s] = true
		list[i] = d.keys.get(s)
	}
	return list, nil
}

func clipName(s string) string { return s[:min(len(s), 100)] }

func (d *Decoder) statements(count, off uint32, queries []graphmill.Query, failures []graphmill.Failure) ([]graphmill.Statement, error) {
	if count == 0 {
		return nil, nil
	}
	if int64(count) > int64(d.limits.Statements) {
		return nil, overLimit("header.statements", "%d statements, the limit is %d", count, d.limits.Statements)
	}
	at, err := d.table("header.statements", count, off, StatementSize)
	if err != nil {
		return nil, err
	}
	if !d.spend(int64(count) * statementCost) {
		return nil, d.tooLarge("header.statements")
	}
	failed := make(map[int]bool, len(failures))
	for _, f := range failures {
		failed[f.Message] = true
	}
	list := make([]graphmill.Statement, count)
	for i := range list {
		if err := d.statement(&list[i], part{"statement", i}, at+i*StatementSize, queries, failed); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// statement reads the statement entry at this place. What is wrong with it
// concerns the message that it names.
func (d *Decoder) statement(s *graphmill.Statement, name part, entry int, queries []graphmill.Query, failed map[int]bool) error {
	query := d.u32(entry)
	if int64(query) >= int64(len(queries)) {
		return malformed(name.field("query"), "there is no query %d, the frame has %d", query, len(queries))
	}
	message, err := d.message(name, d.u32(entry+4))
	if err != nil {
		return err
	}
	s.Query, s.Message = &queries[query], message
	if len(failed) > 0 && failed[message] {
		return malformed(name.field("message"), "message %d has a failure too; it may have one or the other", message)
	}
	err = d.parameters(name, s, d.u32(entry+8), d.u32(entry+12))
	if e, ok := err.(*Error); ok {
		e.Field, e.Message = name.field("params"), message
	}
	return err
}

// parameters reads the parameters of a statement into Values or Params, as its
// query asks for.
func (d *Decoder) parameters(statement part, s *graphmill.Statement, off, length uint32) error {
	names := s.Query.Names
	if length == 0 {
		if names != nil {
			return malformed(statement.field("params"), "there are none, the query names %d", len(names))
		}
		return nil
	}
	encoded, err := d.part(statement, "params", off, length)
	if err != nil {
		return err
	}
	r := valueReader{d: d, s: encoded}
	if names != nil {
		s.Values, err = r.parameterList(len(names))
	} else {
		s.Params, err = r.parameterMap()
	}
	return err
}

// message checks a message index.
func (d *Decoder) message(name part, index uint32) (int, error) {
	switch {
	case index == Null:
		return graphmill.WholeBatch, nil
	case int64(index) >= int64(d.messages):
		return 0, malformed(name.field("message"), "there is no message %d, the batch has %d", index, d.messages)
	default:
		return int(index), nil
	}
}

// part names one entry of a table. The text is put together for errors only.
type part struct {
	table string
	index int
}

func (p part) field(name string) string {
	s := p.table + "[" + strconv.Itoa(p.index) + "]"
	if name != "" {
		s += "." + name
	}
	return s
}

// table checks that a table of count entries lies within the frame, and returns
// where it begins.
func (d *Decoder) table(field string, count, off uint32, size int) (int, error) {
	length := int64(count) * int64(size)
	if length > int64(len(d.frame)) || int64(off) > int64(len(d.frame))-length {
		return 0, malformed(field, "%d entries at %d end outside of the frame of %d bytes", count, off, len(d.frame))
	}
	if !d.take(length) {
		return 0, d.overlap(field)
	}
	return int(off), nil
}

// part cuts bytes out of the frame.
func (d *Decoder) part(of part, name string, off, length uint32) (string, error) {
	end := int64(off) + int64(length)
	if end > int64(len(d.frame)) {
		return "", malformed(of.field(name), "%d bytes at %d end outside of the frame of %d bytes", length, off, len(d.frame))
	}
	if !d.take(int64(length)) {
		return "", d.overlap(of.field(name))
	}
	return d.frame[off:end], nil
}

// text is part for what must be UTF-8. A length of 0 needs no sensible offset.
func (d *Decoder) text(of part, name string, off, length uint32) (string, error) {
	if length == 0 {
		return "", nil
	}
	s, err := d.part(of, name, off, length)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(s) {
		return "", malformed(of.field(name), "the text is not valid UTF-8")
	}
	return s, nil
}

// take accounts for the bytes of a part. All parts together cannot have more
// bytes than the frame unless some overlap, and overlapping parts are how a
// small frame could stand for terabytes.
func (d *Decoder) take(length int64) bool {
	d.unused -= length
	return d.unused >= 0
}

func (d *Decoder) overlap(field string) *Error {
	return malformed(field, "parts overlap: up to here they have more bytes than the frame of %d", len(d.frame))
}

// Rough costs in bytes of what is decoded, for Limits.Decoded.
const (
	statementCost = 56
	valueCost     = 16 // an any
	stringCost    = 16
	boxCost       = 8  // an int64 or a float64 that an any points to
	sliceCost     = 24 // a slice header
	timeCost      = 24
	mapCost       = 48
	mapEntryCost  = 40
)

// spend accounts for memory of the host.
func (d *Decoder) spend(bytes int64) bool {
	d.memory -= bytes
	return d.memory >= 0
}

func (d *Decoder) tooLarge(field string) *Error {
	return overLimit(field, "the values up to here take more than %d bytes of the host's memory, the limit of one response", d.limits.Decoded)
}

// list returns n fresh values, for a short list from a shared slab: statements
// of one response live and die together.
func (d *Decoder) list(n int) []any {
	const slabSize = 512
	if n == 0 || n > slabSize/8 {
		return make([]any, n) // never nil, which would be null
	}
	if len(d.slab) < n {
		d.slab = make([]any, slabSize)
	}
	l := d.slab[:n:n]
	d.slab = d.slab[n:]
	return l
}

func (d *Decoder) u32(at int) uint32 {
	s := d.frame[at : at+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}
