package frame_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
)

// decodeValue decodes one MessagePack value, as the only parameter of a
// statement.
func decodeValue(t testing.TB, encoded []byte) (graphmill.Value, error) {
	t.Helper()
	return decodeValueWithin(t, limits, encoded)
}

func decodeValueWithin(t testing.TB, limits frame.Limits, encoded []byte) (graphmill.Value, error) {
	t.Helper()
	params := append([]byte("\x81\xa1v"), encoded...)
	f := frametest.EncodeResponse(graphmill.Output{Statements: []graphmill.Statement{{Query: &graphmill.Query{Text: "RETURN $v"}}}})
	statement := frame.ResponseHeaderSize + frame.QuerySize
	binary.LittleEndian.PutUint32(f[statement+8:], uint32(len(f)))
	binary.LittleEndian.PutUint32(f[statement+12:], uint32(len(params)))
	out, err := frame.NewDecoder(limits).Decode(string(append(f, params...)), 1)
	if err != nil {
		return nil, err
	}
	return out.Statements[0].Params["v"], nil
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	for _, v := range frametest.Values() {
		t.Run(v.Name, func(t *testing.T) {
			got, err := decodeValue(t, frametest.AppendValue(nil, v.Value))
			require.NoError(t, err)
			require.IsType(t, v.Value, got)
			require.Equal(t, valueJSON(t, v.Value), valueJSON(t, got))
		})
	}
}

// TestAllFormsOfANumber has each MessagePack format of each kind of value.
func TestAllFormsOfANumber(t *testing.T) {
	for encoded, want := range map[string]graphmill.Value{
		"\xc0": nil, "\xc2": false, "\xc3": true,
		"\x00": int64(0), "\x7f": int64(127), "\xe0": int64(-32), "\xff": int64(-1),
		"\xcc\xff": int64(255), "\xcd\xff\xff": int64(65535), "\xce\xff\xff\xff\xff": int64(math.MaxUint32),
		"\xcf\x7f\xff\xff\xff\xff\xff\xff\xff": int64(math.MaxInt64), "\xcf\x00\x00\x00\x00\x00\x00\x00\x01": int64(1),
		"\xd0\x80": int64(-128), "\xd1\x80\x00": int64(-32768), "\xd2\x80\x00\x00\x00": int64(math.MinInt32),
		"\xd3\x80\x00\x00\x00\x00\x00\x00\x00": int64(math.MinInt64), "\xd3\x00\x00\x00\x00\x00\x00\x00\x05": int64(5),
		"\xca\x3f\xc0\x00\x00": 1.5, "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00": 1.5,
		"\xa1x": "x", "\xd9\x01x": "x", "\xda\x00\x01x": "x", "\xdb\x00\x00\x00\x01x": "x",
		"\xc4\x01x": []byte("x"), "\xc5\x00\x01x": []byte("x"), "\xc6\x00\x00\x00\x01x": []byte("x"),
		"\x91\x01": []any{int64(1)}, "\xdc\x00\x01\x01": []any{int64(1)}, "\xdd\x00\x00\x00\x01\x01": []any{int64(1)},
		"\x81\xa1k\x01": map[string]any{"k": int64(1)}, "\xde\x00\x01\xa1k\x01": map[string]any{"k": int64(1)},
		"\xdf\x00\x00\x00\x01\xd9\x01k\x01": map[string]any{"k": int64(1)}, "\x80": map[string]any{}, "\x90": []any{},
		"\x82\xa1k\x01\xa1k\x02": map[string]any{"k": int64(2)}, // the last one counts
	} {
		got, err := decodeValue(t, []byte(encoded))
		require.NoError(t, err, "%x", encoded)
		require.Equal(t, want, got, "%x", encoded)
	}
	nan, err := decodeValue(t, []byte("\xca\x7f\xc0\x00\x00"))
	require.NoError(t, err)
	require.True(t, math.IsNaN(nan.(float64)))
}

// TestTemporalValues holds what the Bolt driver will read from the values: the
// wall clock, the offset, and how it tells an offset from a zone.
func TestTemporalValues(t *testing.T) {
	be := binary.BigEndian
	i64 := func(v int64) []byte { return be.AppendUint64(nil, uint64(v)) }
	ext := frametest.AppendExt
	for name, c := range map[string]struct {
		encoded []byte
		check   func(t *testing.T, v graphmill.Value)
	}{
		"timestamp of 4 bytes": {ext(nil, -1, be.AppendUint32(nil, 1769862615)), momentIs(1769862615, 0, "Offset", 0)},
		"timestamp of 8 bytes": {ext(nil, -1, be.AppendUint64(nil, 999_999_999<<34|17_000_000_000)), momentIs(17_000_000_000, 999_999_999, "Offset", 0)},
		"timestamp of 12":      {ext(nil, -1, append(be.AppendUint32(nil, 7), i64(-1)...)), momentIs(-1, 7, "Offset", 0)},
		"timestamp in ext 8":   {append([]byte{0xc7, 4, 0xff}, be.AppendUint32(nil, 5)...), momentIs(5, 0, "Offset", 0)},
		"timestamp in ext 16":  {append([]byte{0xc8, 0, 4, 0xff}, be.AppendUint32(nil, 5)...), momentIs(5, 0, "Offset", 0)},
		"timestamp in ext 32":  {append([]byte{0xc9, 0, 0, 0, 4, 0xff}, be.AppendUint32(nil, 5)...), momentIs(5, 0, "Offset", 0)},
		"offset":               {ext(nil, 5, be.AppendUint32(be.AppendUint32(i64(100), 9), uint32(0xffffffff-3599))), momentIs(100, 9, "Offset", -3600)},
		"zone":                 {ext(nil, 6, append(be.AppendUint32(i64(1782900000), 0), "Europe/Paris"...)), momentIs(1782900000, 0, "CEST", 7200)},
		"zone UTC":             {ext(nil, 6, append(be.AppendUint32(i64(0), 0), "UTC"...)), momentIs(0, 0, "UTC", 0)},
		"first day":            {ext(nil, 1, i64(-365_243_219_162)), func(t *testing.T, v graphmill.Value) { wallIs(t, time.Time(v.(dbtype.Date)), -999_999_999, 1, 1) }},
		"last day":             {ext(nil, 1, i64(365_241_780_471)), func(t *testing.T, v graphmill.Value) { wallIs(t, time.Time(v.(dbtype.Date)), 999_999_999, 12, 31) }},
		"last moment": {ext(nil, 4, be.AppendUint32(i64(365_241_780_471*86400+86399), 999_999_999)), func(t *testing.T, v graphmill.Value) {
			wallIs(t, time.Time(v.(dbtype.LocalDateTime)), 999_999_999, 12, 31)
		}},
		"last nanosecond of a day": {ext(nil, 2, i64(86_400_000_000_000-1)), func(t *testing.T, v graphmill.Value) {
			require.Equal(t, "23:59:59.999999999", v.(dbtype.LocalTime).String())
		}},
		"time": {ext(nil, 3, be.AppendUint32(i64(43_200_000_000_000), 64800)), func(t *testing.T, v graphmill.Value) {
			require.Equal(t, "12:00:00+18:00", v.(dbtype.Time).String())
			name, _ := time.Time(v.(dbtype.Time)).Zone()
			require.Equal(t, "Offset", name)
		}},
		"duration": {ext(nil, 7, be.AppendUint32(append(append(i64(math.MinInt64), i64(math.MaxInt64)...), i64(-1)...), uint32(0xffffffff-999_999_998))), func(t *testing.T, v graphmill.Value) {
			require.Equal(t, dbtype.Duration{Months: math.MinInt64, Days: math.MaxInt64, Seconds: -1, Nanos: -999_999_999}, v)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := decodeValue(t, c.encoded)
			require.NoError(t, err)
			c.check(t, v)
		})
	}
}

func momentIs(seconds, nanos int64, zone string, offset int) func(*testing.T, graphmill.Value) {
	return func(t *testing.T, v graphmill.Value) {
		got := v.(time.Time)
		require.Equal(t, seconds, got.Unix())
		require.EqualValues(t, nanos, got.Nanosecond())
		name, off := got.Zone()
		require.Equal(t, zone, name)
		require.Equal(t, offset, off)
	}
}

func wallIs(t *testing.T, got time.Time, year int, month time.Month, day int) {
	t.Helper()
	y, m, d := got.Date()
	require.Equal(t, []int{year, int(month), day}, []int{y, int(m), d})
	require.Equal(t, time.UTC, got.Location())
}

func TestValuesThatAreRefused(t *testing.T) {
	be := binary.BigEndian
	i64 := func(v int64) []byte { return be.AppendUint64(nil, uint64(v)) }
	ext := frametest.AppendExt
	zoned := func(id string) []byte { return ext(nil, 6, append(be.AppendUint32(i64(0), 0), id...)) }
	for name, c := range map[string]struct {
		encoded []byte
		text    string
	}{
		"nothing":                      {nil, "a value is missing"},
		"reserved byte":                {[]byte{0xc1}, "0xc1 begins no value"},
		"number cut":                   {[]byte{0xcd, 1}, "a number of 2 bytes, 1 are left"},
		"float cut":                    {[]byte{0xcb, 1, 2, 3}, "a number of 8 bytes, 3 are left"},
		"unsigned over int64":          {[]byte("\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), "9223372036854775808 is over"},
		"length cut":                   {[]byte{0xda, 0}, "a length is missing"},
		"str cut":                      {[]byte("\xa5abc"), "a str of 5 bytes, 3 are left"},
		"str of 4 GiB":                 {[]byte("\xdb\xff\xff\xff\xffabc"), "a str of 4294967295 bytes, 3 are left"},
		"str that is no UTF-8":         {[]byte("\xa2\xc3\x28"), "not valid UTF-8"},
		"surrogate in UTF-8":           {[]byte("\xa3\xed\xa0\x80"), "not valid UTF-8"},
		"bin cut":                      {[]byte("\xc4\x05abc"), "a bin of 5 bytes, 3 are left"},
		"ext cut":                      {[]byte{0xd6, 1, 2}, "an extension of 4 bytes, 1 are left"},
		"ext without a type":           {[]byte{0xd4}, "the type of an extension"},
		"ext length cut":               {[]byte{0xc9, 0, 0}, "a length is missing"},
		"array cut":                    {[]byte{0x92, 1}, "an array of 2 entries, 1 bytes are left"},
		"array of too many":            {[]byte("\xdc\xff\xff\x01"), "an array of 65535 entries, 1 bytes are left"},
		"map cut":                      {[]byte("\x81\xa1k"), "a value is missing"},
		"map of too many":              {[]byte("\xde\x00\x02\xa1k\x01"), "a map of 2 entries, 3 bytes are left"},
		"key that is a number":         {[]byte{0x81, 1, 1}, "a map key must be a str"},
		"key that is bin":              {[]byte{0x81, 0xc4, 0}, "a map key must be a str"},
		"key that is no UTF-8":         {[]byte{0x81, 0xa1, 0xff, 1}, "not valid UTF-8"},
		"64 lists within one another":  {[]byte(strings.Repeat("\x91", 64) + "\x01"), "more than 64 deep"},
		"a million lists":              {bytes.Repeat([]byte{0x91}, 1<<20), "more than 64 deep"},
		"a million maps":               {bytes.Repeat([]byte("\x81\xa0"), 1<<20), "more than 64 deep"},
		"two values":                   {[]byte{1, 2}, "1 bytes follow the value"},
		"unknown type":                 {ext(nil, 10, []byte{1}), "extension 10 of 1 bytes: the type is not known"},
		"unknown negative type":        {ext(nil, -2, []byte{1}), "extension -2"},
		"timestamp of 5 bytes":         {ext(nil, -1, make([]byte, 5)), "a timestamp has 4, 8 or 12"},
		"timestamp, nanoseconds":       {ext(nil, -1, append(be.AppendUint32(nil, 1_000_000_000), i64(0)...)), "nanoseconds out of range"},
		"timestamp, seconds":           {ext(nil, -1, append(be.AppendUint32(nil, 0), i64(math.MaxInt64)...)), "seconds out of range"},
		"date too long":                {ext(nil, 1, make([]byte, 9)), "longer than its value"},
		"date too short":               {ext(nil, 1, make([]byte, 7)), "too short"},
		"date empty":                   {ext(nil, 1, nil), "too short"},
		"day before the first":         {ext(nil, 1, i64(-365_243_219_163)), "days out of range"},
		"day after the last":           {ext(nil, 1, i64(365_241_780_472)), "days out of range"},
		"time of the next day":         {ext(nil, 2, i64(86_400_000_000_000)), "nanoseconds of the day out of range"},
		"negative time":                {ext(nil, 2, i64(-1)), "nanoseconds of the day out of range"},
		"offset over 18 hours":         {ext(nil, 3, be.AppendUint32(i64(0), 64801)), "offset seconds out of range"},
		"local date time, seconds":     {ext(nil, 4, be.AppendUint32(i64(math.MinInt64), 0)), "seconds out of range"},
		"local date time, nanoseconds": {ext(nil, 4, be.AppendUint32(i64(0), 1_000_000_000)), "nanoseconds out of range"},
		"offset date time, offset":     {ext(nil, 5, be.AppendUint32(be.AppendUint32(i64(0), 0), 1<<31)), "offset seconds out of range"},
		"no zone":                      {zoned(""), "zone id is not known"},
		"zone of this machine":         {zoned("Local"), "zone id is not known"},
		"zone that is a path":          {zoned("../../../etc/passwd"), "zone id is not known"},
		"zone that is a rooted path":   {zoned("/etc/localtime"), "zone id is not known"},
		"zone by another path":         {zoned("Europe/./Paris"), "zone id is not known"},
		"zone by a longer path":        {zoned("Europe//Paris"), "zone id is not known"},
		"zone with a NUL":              {zoned("Europe/Paris\x00"), "zone id is not known"},
		"zone that is long":            {zoned(strings.Repeat("E", 101)), "zone id is not known"},
		"zone that is no UTF-8":        {zoned("\xff"), "zone id is not known"},
		"duration, nanoseconds":        {ext(nil, 7, be.AppendUint32(make([]byte, 24), 1_000_000_000)), "nanoseconds out of range"},
		"duration too short":           {ext(nil, 7, make([]byte, 27)), "too short"},
		"point of 3 dimensions as 2":   {ext(nil, 8, make([]byte, 28)), "longer than its value"},
		"point of 2 dimensions as 3":   {ext(nil, 9, make([]byte, 20)), "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeValue(t, c.encoded)
			var fe *frame.Error
			require.ErrorAs(t, err, &fe)
			require.Equal(t, "statement[0].params", fe.Field)
			require.Contains(t, fe.Text, c.text)
			require.False(t, fe.OverLimit)
		})
	}
}

// TestZonesArePaidFor has zones that nobody has asked for before: each is read from
// a file, and takes a hundred times what the value takes that names it.
func TestZonesArePaidFor(t *testing.T) {
	zones := []byte{0x94}
	for _, id := range []string{"Europe/Paris", "Europe/Berlin", "Europe/Rome", "Europe/Madrid"} {
		zones = frametest.AppendExt(zones, 6, append(make([]byte, 12), id...))
	}
	within := limits
	within.Decoded = 64 << 10
	_, err := decodeValueWithin(t, within, zones)
	require.NoError(t, err)
	within.Decoded = 24 << 10
	_, err = decodeValueWithin(t, within, zones)
	var e *frame.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.OverLimit)
}

func FuzzValue(f *testing.F) {
	for _, v := range frametest.Values() {
		f.Add(frametest.AppendValue(nil, v.Value))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		v, err := decodeValue(t, encoded)
		if err != nil {
			require.IsType(t, (*frame.Error)(nil), err)
			return
		}
		again, err := decodeValue(t, frametest.AppendValue(nil, v))
		require.NoError(t, err, "what was read can be written and read")
		require.Equal(t, valueJSON(t, v), valueJSON(t, again))
	})
}

func FuzzDecode(f *testing.F) {
	for _, g := range frametest.GoldenResponses() {
		f.Add(frametest.EncodeResponse(g.Output), g.Messages)
	}
	for _, g := range frametest.BrokenResponses() {
		f.Add(g.Frame, g.Messages)
	}
	l := limits
	l.Decoded = 64 << 20
	d := frame.NewDecoder(l) // kept, so that what it remembers is fuzzed too
	f.Fuzz(func(t *testing.T, response []byte, messages int) {
		messages &= 0xffff
		out, err := d.Decode(string(response), messages)
		if err != nil {
			require.IsType(t, (*frame.Error)(nil), err)
			return
		}
		requireSound(t, out, messages)
	})
}
