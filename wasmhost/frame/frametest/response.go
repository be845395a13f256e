package frametest

import (
	"encoding/binary"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
)

var le = binary.LittleEndian

// EncodeResponse returns the response frame of an output: header, query,
// statement and failure entries, then the parts in the order in which the
// entries mention them. Statements that share a *Query share its entry.
func EncodeResponse(out graphmill.Output) []byte {
	var queries []*graphmill.Query
	index := map[*graphmill.Query]uint32{}
	for i := range out.Statements {
		q := out.Statements[i].Query
		if _, ok := index[q]; !ok {
			index[q] = uint32(len(queries))
			queries = append(queries, q)
		}
	}
	queryAt := frame.ResponseHeaderSize
	statementAt := queryAt + len(queries)*frame.QuerySize
	failureAt := statementAt + len(out.Statements)*frame.StatementSize

	f := make([]byte, failureAt+len(out.Failures)*frame.FailureSize)
	le.PutUint32(f, frame.ResponseMagic)
	for i, n := range []int{len(queries), queryAt, len(out.Statements), statementAt, len(out.Failures), failureAt} {
		le.PutUint32(f[4+4*i:], uint32(n))
	}
	for i, q := range queries {
		f = appendQuery(f, queryAt+i*frame.QuerySize, q)
	}
	for i := range out.Statements {
		s := &out.Statements[i]
		at := statementAt + i*frame.StatementSize
		le.PutUint32(f[at:], index[s.Query])
		le.PutUint32(f[at+4:], messageIndex(s.Message))
		f = appendPart(f, at+8, encodeParameters(s))
	}
	for i, x := range out.Failures {
		at := failureAt + i*frame.FailureSize
		le.PutUint32(f[at:], messageIndex(x.Message))
		le.PutUint32(f[at+4:], flags(x))
		f = appendPart(f, at+8, []byte(x.Text))
	}
	return f
}

func appendQuery(f []byte, at int, q *graphmill.Query) []byte {
	f = appendPart(f, at, []byte(q.Text))
	if len(q.Names) == 0 {
		return f
	}
	names := len(f)
	le.PutUint32(f[at+8:], uint32(names))
	le.PutUint32(f[at+12:], uint32(len(q.Names)))
	f = append(f, make([]byte, len(q.Names)*frame.NameSize)...)
	for i, name := range q.Names {
		f = appendPart(f, names+i*frame.NameSize, []byte(name))
	}
	return f
}

func encodeParameters(s *graphmill.Statement) []byte {
	switch {
	case len(s.Query.Names) > 0:
		return AppendValue(nil, s.Values)
	case s.Params != nil:
		return AppendValue(nil, s.Params)
	default:
		return nil
	}
}

// appendPart appends p and writes its offset and length to f[ref:].
func appendPart(f []byte, ref int, p []byte) []byte {
	le.PutUint32(f[ref:], uint32(len(f)))
	le.PutUint32(f[ref+4:], uint32(len(p)))
	return append(f, p...)
}

func messageIndex(i int) uint32 {
	if i == graphmill.WholeBatch {
		return frame.Null
	}
	return uint32(i)
}

func flags(f graphmill.Failure) (flags uint32) {
	if f.Retry {
		flags |= frame.FailureRetry
	}
	if f.Aborted {
		flags |= frame.FailureAborted
	}
	return flags
}
