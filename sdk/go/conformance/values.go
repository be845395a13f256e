package main

import (
	"math"
	"strings"
	"time"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

var values = graphmill.NewQuery("VALUES")

//go:wasmexport values
func exportValues(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(_ graphmill.Message, out graphmill.Output) error {
		addValues(out.Statement(values))
		return nil
	})
}

// addValues gives every value of sdk/testdata/index.json.
func addValues(s graphmill.Statement) {
	s.Key("null").Null()
	s.Key("false").Bool(false)
	s.Key("true").Bool(true)
	s.Key("int_zero").Int(0)
	s.Key("int_one").Int(1)
	s.Key("int_minus_one").Int(-1)
	s.Key("int_minus_33").Int(-33)
	s.Key("int_128").Int(128)
	s.Key("int_65536").Uint(65536)
	s.Key("int_above_double").Int(1<<53 + 1)
	s.Key("int_max").Int(math.MaxInt64)
	s.Key("int_min").Int(math.MinInt64)
	s.Key("float_zero").Float(0)
	s.Key("float_one").Float(1)
	s.Key("float_tenth").Float(0.1)
	s.Key("float_negative").Float(-2.5e-300)
	s.Key("float_max").Float(math.MaxFloat64)
	s.Key("float_infinity").Float(math.Inf(1))
	s.Key("string_empty").String("")
	s.Key("string_ascii").String("hello")
	s.Key("string_unicode").String("Grüße, 世界 🚀")
	s.Key("string_with_nul").String("a\x00b")
	s.Key("string_32").String(strings.Repeat("s", 32))
	s.Key("string_300").Text([]byte(strings.Repeat("s", 300)))
	s.Key("bytes_empty").Bytes([]byte{})
	s.Key("bytes").Bytes([]byte{0, 1, 0xfe, 0xff})
	s.Key("list_empty").List().End()
	s.Key("list").List().Int(1).String("two").Float(3).Null().Bool(true).List().Int(4).End().End()
	s.Key("list_20").List()
	for range 20 {
		s.Int(7)
	}
	s.End()
	s.Key("map_empty").Map().End()
	s.Key("map").Map().
		Key("a").Int(1).
		Key("b").String("two").
		Key("c").Map().Key("d").List().End().End().
		End()
	addTimes(s)
	s.Key("point_2d").Point2D(graphmill.Point2D{SRID: graphmill.WGS84, X: 12, Y: 56})
	s.Key("point_3d").Point3D(graphmill.Point3D{SRID: graphmill.Cartesian3D, X: 1.5, Y: -2.5, Z: 3.5})
}

func addTimes(s graphmill.Statement) {
	t := time.Date(2026, 1, 31, 12, 30, 15, 123456789, time.UTC)
	s.Key("datetime_utc").DateTime(t)
	s.Key("datetime_utc_before_1970").DateTime(time.Date(1955, 11, 5, 6, 0, 0, 1, time.UTC))
	s.Key("datetime_offset").DateTime(t.Add(5 * time.Hour).In(time.FixedZone("", -5*60*60)))
	s.Key("datetime_zone").ZonedDateTime(graphmill.ZonedDateTime{
		Time: time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC), Zone: "Europe/Paris",
	})
	s.Key("date").Date(graphmill.DateOf(t))
	s.Key("date_before_1970").Date(-1)
	s.Key("local_time").LocalTime(graphmill.LocalTimeOf(time.Date(2026, 1, 1, 23, 59, 59, 999999999, time.UTC)))
	s.Key("time").Time(graphmill.TimeOf(time.Date(2026, 1, 1, 12, 30, 0, 500, time.FixedZone("", 2*60*60))))
	s.Key("local_datetime").LocalDateTime(graphmill.LocalDateTimeOf(time.Date(2026, 1, 31, 12, 30, 15, 1, time.UTC)))
	s.Key("duration").Duration(graphmill.Duration{Months: 14, Days: 3, Seconds: 4, Nanoseconds: 5})
	s.Key("duration_negative").Duration(graphmill.Duration{Months: -1, Days: -2, Seconds: -3, Nanoseconds: -4})
}
