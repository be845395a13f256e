package graphmill_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestMarshalValue(t *testing.T) {
	offset := func(seconds int) *time.Location { return time.FixedZone(graphmill.OffsetZone, seconds) }
	paris, err := time.LoadLocation("Europe/Paris")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		value graphmill.Value
		want  string
	}{
		"null":                    {nil, `null`},
		"bool":                    {true, `true`},
		"smallest integer":        {int64(math.MinInt64), `-9223372036854775808`},
		"largest integer":         {int64(math.MaxInt64), `9223372036854775807`},
		"float that is whole":     {3.0, `3.0`},
		"negative zero":           {math.Copysign(0, -1), `-0.0`},
		"float":                   {0.1, `0.1`},
		"large float":             {1e300, `1e+300`},
		"float below the switch":  {1e20, `100000000000000000000.0`},
		"small float":             {5e-324, `5e-324`},
		"not a number":            {math.NaN(), `{"$type":"Float","_value":"NaN"}`},
		"infinity":                {math.Inf(1), `{"$type":"Float","_value":"Infinity"}`},
		"minus infinity":          {math.Inf(-1), `{"$type":"Float","_value":"-Infinity"}`},
		"string":                  {"Größe 🚀 <&>", `"Größe 🚀 <&>"`},
		"string with escapes":     {"\"\\\n\r\t\x00\x1f\x7f", `"\"\\\n\r\t\u0000\u001f` + "\x7f" + `"`},
		"string that is no UTF-8": {"a\xffb\xe4\xb8", `"a\ufffdb\ufffd\ufffd"`},
		"bytes":                   {[]byte{0xde, 0xad, 0xbe, 0xef}, `{"$type":"Base64","_value":"3q2+7w=="}`},
		"no bytes":                {[]byte{}, `{"$type":"Base64","_value":""}`},
		"list":                    {[]any{int64(1), []any{}, "x"}, `[1,[],"x"]`},
		"map, keys sorted":        {map[string]any{"b": int64(1), "a": nil, "": true}, `{"":true,"a":null,"b":1}`},
		"map that looks typed":    {map[string]any{"$type": "Date", "_value": "x"}, `{"$type":"Map","_value":{"$type":"Date","_value":"x"}}`},

		"date":             {dbtype.Date(time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)), `{"$type":"Date","_value":"2026-01-31"}`},
		"date BC":          {dbtype.Date(time.Date(-44, 3, 15, 0, 0, 0, 0, time.UTC)), `{"$type":"Date","_value":"-0044-03-15"}`},
		"date far away":    {dbtype.Date(time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)), `{"$type":"Date","_value":"+12026-01-01"}`},
		"time":             {dbtype.Time(time.Date(0, 0, 0, 12, 30, 0, 500_000_000, offset(3600))), `{"$type":"Time","_value":"12:30:00.5+01:00"}`},
		"time in UTC":      {dbtype.Time(time.Date(0, 0, 0, 1, 2, 3, 0, offset(0))), `{"$type":"Time","_value":"01:02:03Z"}`},
		"local time":       {dbtype.LocalTime(time.Date(0, 0, 0, 0, 0, 0, 1, time.UTC)), `{"$type":"LocalTime","_value":"00:00:00.000000001"}`},
		"local date time":  {dbtype.LocalDateTime(time.Date(2026, 1, 31, 12, 30, 0, 0, time.UTC)), `{"$type":"LocalDateTime","_value":"2026-01-31T12:30:00"}`},
		"moment in UTC":    {time.Date(2026, 1, 31, 12, 30, 0, 0, offset(0)), `{"$type":"OffsetDateTime","_value":"2026-01-31T12:30:00Z"}`},
		"moment, offset":   {time.Date(2026, 1, 31, 12, 30, 0, 0, offset(-5*3600)), `{"$type":"OffsetDateTime","_value":"2026-01-31T12:30:00-05:00"}`},
		"offset, seconds":  {time.Date(2026, 1, 31, 12, 30, 0, 0, offset(3601)), `{"$type":"OffsetDateTime","_value":"2026-01-31T12:30:00+01:00:01"}`},
		"moment, zone":     {time.Date(2026, 7, 1, 12, 0, 0, 0, paris), `{"$type":"ZonedDateTime","_value":"2026-07-01T12:00:00+02:00[Europe/Paris]"}`},
		"zone named UTC":   {time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), `{"$type":"ZonedDateTime","_value":"2026-07-01T12:00:00Z[UTC]"}`},
		"duration":         {dbtype.Duration{Months: 14, Days: 3, Seconds: 4, Nanos: 5}, `{"$type":"Duration","_value":"P14M3DT4.000000005S"}`},
		"duration, none":   {dbtype.Duration{}, `{"$type":"Duration","_value":"P0M0DT0S"}`},
		"duration, behind": {dbtype.Duration{Months: -1, Days: -2, Seconds: -3, Nanos: -4}, `{"$type":"Duration","_value":"P-1M-2DT-3.000000004S"}`},
		"duration, mixed":  {dbtype.Duration{Seconds: -1, Nanos: 400_000_000}, `{"$type":"Duration","_value":"P0M0DT-0.600000000S"}`},
		"duration, other":  {dbtype.Duration{Seconds: 1, Nanos: -400_000_000}, `{"$type":"Duration","_value":"P0M0DT0.600000000S"}`},
		"duration, ends":   {dbtype.Duration{Months: math.MinInt64, Seconds: math.MinInt64, Nanos: 1}, `{"$type":"Duration","_value":"P-9223372036854775808M0DT-9223372036854775807.999999999S"}`},
		"point":            {dbtype.Point2D{SpatialRefId: 4326, X: 12, Y: 56}, `{"$type":"Point","_value":"SRID=4326;POINT (12.0 56.0)"}`},
		"point in space":   {dbtype.Point3D{SpatialRefId: 9157, X: 1.5, Y: -2, Z: 1e-7}, `{"$type":"Point","_value":"SRID=9157;POINT Z (1.5 -2.0 1e-07)"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := graphmill.MarshalValue(c.value)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			require.True(t, json.Valid(got))
		})
	}
}

func TestMarshalValueRefuses(t *testing.T) {
	for name, v := range map[string]graphmill.Value{
		"an int":            1,
		"a struct":          struct{}{},
		"a pointer":         new(int64),
		"a typed map":       map[string]string{},
		"a value in a list": []any{int64(1), uint8(2)},
		"a value in a map":  map[string]any{"a": float32(1)},
	} {
		_, err := graphmill.MarshalValue(v)
		require.ErrorContains(t, err, "cannot be a parameter value", name)
	}
	cyclic := []any{nil}
	cyclic[0] = cyclic
	_, err := graphmill.MarshalValue(cyclic)
	require.ErrorContains(t, err, "nested more than 1000 deep")
}

// FuzzMarshalString holds the escaping against encoding/json.
func FuzzMarshalString(f *testing.F) {
	f.Add("")
	f.Add("plain")
	f.Add("\x00\"\\\u2028é\xff")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := graphmill.MarshalValue(s)
		require.NoError(t, err)
		require.True(t, utf8.Valid(b))
		var back string
		require.NoError(t, json.Unmarshal(b, &back))
		want := s
		if !utf8.ValidString(s) {
			want = strings.Map(func(r rune) rune { return r }, s) // each bad byte one U+FFFD
		}
		require.Equal(t, want, back)
	})
}
