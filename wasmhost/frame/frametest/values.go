package frametest

import (
	"math"
	"strings"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"

	"github.com/graphmill/graphmill"
)

// NamedValue is one parameter value of a table of them.
type NamedValue struct {
	Name  string
	Value graphmill.Value
}

// Values is every type of parameter value, with the ends of their ranges that
// an SDK in any language can express. The conformance kit asks a module for
// exactly these.
func Values() []NamedValue {
	offset := func(hours int) *time.Location { return time.FixedZone(graphmill.OffsetZone, hours*3600) }
	paris := zone("Europe/Paris")
	return []NamedValue{
		{"null", nil},
		{"false", false},
		{"true", true},
		{"int_zero", int64(0)},
		{"int_one", int64(1)},
		{"int_minus_one", int64(-1)},
		{"int_minus_33", int64(-33)},
		{"int_128", int64(128)},
		{"int_65536", int64(65536)},
		{"int_above_double", int64(1)<<53 + 1},
		{"int_max", int64(math.MaxInt64)},
		{"int_min", int64(math.MinInt64)},
		{"float_zero", 0.0},
		{"float_one", 1.0},
		{"float_tenth", 0.1},
		{"float_negative", -2.5e-300},
		{"float_max", math.MaxFloat64},
		{"float_infinity", math.Inf(1)},
		{"string_empty", ""},
		{"string_ascii", "hello"},
		{"string_unicode", "Grüße, 世界 🚀"},
		{"string_with_nul", "a\x00b"},
		{"string_32", strings.Repeat("s", 32)},
		{"string_300", strings.Repeat("s", 300)},
		{"bytes_empty", []byte{}},
		{"bytes", []byte{0, 1, 0xfe, 0xff}},
		{"list_empty", []any{}},
		{"list", []any{int64(1), "two", 3.0, nil, true, []any{int64(4)}}},
		{"list_20", repeated(20, int64(7))},
		{"map_empty", map[string]any{}},
		{"map", map[string]any{"a": int64(1), "b": "two", "c": map[string]any{"d": []any{}}}},
		{"datetime_utc", time.Date(2026, 1, 31, 12, 30, 15, 123456789, offset(0))},
		{"datetime_utc_before_1970", time.Date(1955, 11, 5, 6, 0, 0, 1, offset(0))},
		{"datetime_offset", time.Date(2026, 1, 31, 12, 30, 15, 123456789, offset(-5))},
		{"datetime_zone", time.Date(2026, 7, 1, 12, 0, 0, 0, paris)},
		{"date", dbtype.Date(time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC))},
		{"date_before_1970", dbtype.Date(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC))},
		{"local_time", dbtype.LocalTime(time.Date(0, 0, 0, 23, 59, 59, 999999999, time.UTC))},
		{"time", dbtype.Time(time.Date(0, 0, 0, 12, 30, 0, 500, offset(2)))},
		{"local_datetime", dbtype.LocalDateTime(time.Date(2026, 1, 31, 12, 30, 15, 1, time.UTC))},
		{"duration", dbtype.Duration{Months: 14, Days: 3, Seconds: 4, Nanos: 5}},
		{"duration_negative", dbtype.Duration{Months: -1, Days: -2, Seconds: -3, Nanos: -4}},
		{"point_2d", dbtype.Point2D{SpatialRefId: 4326, X: 12, Y: 56}},
		{"point_3d", dbtype.Point3D{SpatialRefId: 9157, X: 1.5, Y: -2.5, Z: 3.5}},
	}
}

func repeated(n int, v graphmill.Value) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func zone(id string) *time.Location {
	loc, err := time.LoadLocation(id)
	if err != nil {
		panic("frametest: " + err.Error()) // the frame package brings the zone database
	}
	return loc
}
