package graphmill

import "time"

// Any gives a value whose type is known only when the handler runs. It takes
//
//	nil, bool, every integer type, float32, float64, string
//	[]byte, []any, []string, []int, []int64, []float64
//	map[string]any, map[string]string
//	time.Time, Date, LocalTime, Time, LocalDateTime, ZonedDateTime, Duration, Point2D, Point3D
//
// A nil slice or map is null. Another type makes the message fail. The methods
// named after the types are faster.
func (s Statement) Any(v any) Statement {
	switch v := v.(type) {
	case nil:
		return s.Null()
	case bool:
		return s.Bool(v)
	case string:
		return s.String(v)
	case float64:
		return s.Float(v)
	case float32:
		return s.Float(float64(v))
	case []byte:
		return s.Bytes(v)
	case map[string]any:
		return anyMap(s, v)
	case map[string]string:
		return anyMap(s, v)
	case []any:
		return anyList(s, v)
	case []string:
		return anyList(s, v)
	case []int:
		return anyList(s, v)
	case []int64:
		return anyList(s, v)
	case []float64:
		return anyList(s, v)
	}
	if n, ok := integer(v); ok {
		return s.Int(n)
	}
	return s.anyOther(v)
}

// anyOther is Any for unsigned 64-bit integers and for the values of a graph
// database.
func (s Statement) anyOther(v any) Statement {
	switch v := v.(type) {
	case uint:
		return s.Uint(uint64(v))
	case uint64:
		return s.Uint(v)
	case time.Time:
		return s.DateTime(v)
	case Date:
		return s.Date(v)
	case LocalTime:
		return s.LocalTime(v)
	case Time:
		return s.Time(v)
	case LocalDateTime:
		return s.LocalDateTime(v)
	case ZonedDateTime:
		return s.ZonedDateTime(v)
	case Duration:
		return s.Duration(v)
	case Point2D:
		return s.Point2D(v)
	case Point3D:
		return s.Point3D(v)
	}
	s.r.fail(s.r.wrong("Any was given a Go type that is no parameter value"))
	return s.Null()
}

// integer returns v where its type is an integer that an int64 always holds.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case int16:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint8:
		return int64(v), true
	}
	return 0, false
}

func anyList[T any](s Statement, list []T) Statement {
	if list == nil {
		return s.Null()
	}
	s.List()
	for _, v := range list {
		s.Any(v)
	}
	return s.End()
}

func anyMap[T any](s Statement, m map[string]T) Statement {
	if m == nil {
		return s.Null()
	}
	s.Map()
	for k, v := range m {
		s.Key(k).Any(v)
	}
	return s.End()
}
