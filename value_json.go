package graphmill

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
)

// MarshalValue returns the JSON form of a parameter value. See [AppendValue].
func MarshalValue(v any) ([]byte, error) { return AppendValue(nil, v) }

// AppendValue appends the JSON form of a parameter value to b. The form is
// stable: equal values give equal bytes, map keys are sorted.
//
// Null, booleans, strings, lists and maps are JSON's own. Integers keep all
// their digits, and a float always shows as one (1.0, not 1). Everything else is
// in the typed form of Neo4j's Query API, an object of "$type" and "_value":
//
//	[]byte                Base64         "3q2+7w=="
//	dbtype.Date           Date           "2026-01-31"
//	dbtype.Time           Time           "12:30:00.5+01:00"
//	dbtype.LocalTime      LocalTime      "12:30:00.5"
//	dbtype.LocalDateTime  LocalDateTime  "2026-01-31T12:30:00"
//	time.Time             OffsetDateTime "2026-01-31T12:30:00Z"
//	                      ZonedDateTime  "2026-01-31T12:30:00+01:00[Europe/Paris]"
//	dbtype.Duration       Duration       "P14M3DT4.000000005S"
//	dbtype.Point2D, 3D    Point          "SRID=4326;POINT (12.0 56.0)", "SRID=4979;POINT Z (12.0 56.0 7.0)"
//	NaN, infinities       Float          "NaN", "Infinity", "-Infinity"
//	map with a key $type  Map            the map
//
// Bytes that are no UTF-8 within a string become U+FFFD. A value of another Go
// type, or nesting deeper than 1,000, is an error.
func AppendValue(b []byte, v any) ([]byte, error) { return appendValue(b, v, 0) }

// maxJSONDepth only keeps a cyclic value from ending the process; values of a
// transformation are at most 64 deep.
const maxJSONDepth = 1000

func appendValue(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return b, fmt.Errorf("a parameter value is nested more than %d deep", maxJSONDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendJSONFloat(b, v), nil
	case string:
		return appendJSONString(b, v), nil
	case []any:
		return appendJSONList(b, v, depth)
	case map[string]any:
		return appendJSONMap(b, v, depth)
	case []byte:
		b = append(b, `{"$type":"Base64","_value":"`...)
		b = base64.StdEncoding.AppendEncode(b, v)
		return append(b, `"}`...), nil
	case time.Time:
		return appendDateTime(b, v), nil
	case dbtype.Date:
		return appendTyped(b, "Date", appendDate(nil, time.Time(v))), nil
	case dbtype.Time:
		t := time.Time(v)
		return appendTyped(b, "Time", appendOffset(appendClock(nil, t), t)), nil
	case dbtype.LocalTime:
		return appendTyped(b, "LocalTime", appendClock(nil, time.Time(v))), nil
	case dbtype.LocalDateTime:
		return appendTyped(b, "LocalDateTime", appendDateClock(nil, time.Time(v))), nil
	case dbtype.Duration:
		return appendTyped(b, "Duration", appendDuration(nil, v)), nil
	case dbtype.Point2D:
		text := fmt.Appendf(nil, "SRID=%d;POINT (", v.SpatialRefId)
		return appendTyped(b, "Point", appendCoordinates(text, v.X, v.Y)), nil
	case dbtype.Point3D:
		text := fmt.Appendf(nil, "SRID=%d;POINT Z (", v.SpatialRefId)
		return appendTyped(b, "Point", appendCoordinates(text, v.X, v.Y, v.Z)), nil
	default:
		return b, fmt.Errorf("a %T cannot be a parameter value", v)
	}
}

// appendTyped appends the typed form; text holds nothing that JSON escapes.
func appendTyped(b []byte, name string, text []byte) []byte {
	b = append(append(append(b, `{"$type":"`...), name...), `","_value":"`...)
	return append(append(b, text...), `"}`...)
}

func appendJSONList(b []byte, list []any, depth int) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v, depth+1); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendJSONMap(b []byte, m map[string]any, depth int) ([]byte, error) {
	var err error
	_, escaped := m["$type"]
	if escaped {
		b = append(b, `{"$type":"Map","_value":`...)
	}
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, k), ':')
		if b, err = appendValue(b, m[k], depth+1); err != nil {
			return b, err
		}
	}
	b = append(b, '}')
	if escaped {
		b = append(b, '}')
	}
	return b, nil
}

func appendJSONFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return appendTyped(b, "Float", appendFloat(nil, f))
	}
	return appendFloat(b, f)
}

// appendFloat appends the shortest text that reads back as f and can be told
// from an integer.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if !slices.Contains(b[start:], '.') {
		b = append(b, ".0"...)
	}
	return b
}

func appendCoordinates(b []byte, coordinates ...float64) []byte {
	for i, c := range coordinates {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendFloat(b, c)
	}
	return append(b, ')')
}

// appendDateTime follows the Bolt driver: the zone's name decides.
func appendDateTime(b []byte, t time.Time) []byte {
	text := appendOffset(appendDateClock(nil, t), t)
	if name, _ := t.Zone(); name == OffsetZone {
		return appendTyped(b, "OffsetDateTime", text)
	}
	text = append(append(append(text, '['), t.Location().String()...), ']')
	return appendTyped(b, "ZonedDateTime", text)
}

// appendDate writes years outside of 0 to 9999 with their sign, as ISO 8601
// asks for.
func appendDate(b []byte, t time.Time) []byte {
	year, month, day := t.Date()
	switch {
	case year < 0:
		b = append(b, '-')
		year = -year
	case year > 9999:
		b = append(b, '+')
	}
	return fmt.Appendf(b, "%04d-%02d-%02d", year, month, day)
}

func appendClock(b []byte, t time.Time) []byte {
	return t.AppendFormat(b, "15:04:05.999999999")
}

func appendDateClock(b []byte, t time.Time) []byte {
	return appendClock(append(appendDate(b, t), 'T'), t)
}

// appendOffset writes +hh:mm, with seconds only where there are some, and Z
// for 0.
func appendOffset(b []byte, t time.Time) []byte {
	_, offset := t.Zone()
	if offset%60 != 0 {
		return t.AppendFormat(b, "Z07:00:00")
	}
	return t.AppendFormat(b, "Z07:00")
}

// appendDuration writes seconds and nanoseconds as one signed decimal number,
// which has no whole part of its own where the two signs differ.
func appendDuration(b []byte, d dbtype.Duration) []byte {
	b = fmt.Appendf(b, "P%dM%dDT", d.Months, d.Days)
	seconds, nanos := d.Seconds, int64(d.Nanos)
	switch {
	case seconds > 0 && nanos < 0:
		seconds, nanos = seconds-1, nanos+1e9
	case seconds < 0 && nanos > 0:
		seconds, nanos = seconds+1, nanos-1e9
	}
	if nanos < 0 {
		nanos = -nanos
		if seconds == 0 {
			b = append(b, '-')
		}
	}
	b = strconv.AppendInt(b, seconds, 10)
	if nanos != 0 {
		b = fmt.Appendf(b, ".%09d", nanos)
	}
	return append(b, 'S')
}

func appendJSONString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	start := 0 // of the bytes that can be copied as they are
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, `\ufffd`...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		}
		i += size
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
