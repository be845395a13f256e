package graphmill

import "time"

// The values of a graph database that Go has no type for. A moment with an
// offset is a time.Time; see [Statement.DateTime].

// Date is a day: the number of days since 1970-01-01.
type Date int64

// DateOf returns the day that t shows in its own location.
func DateOf(t time.Time) Date {
	seconds := wallSeconds(t)
	if seconds < 0 {
		seconds -= secondsPerDay - 1 // division rounds to zero, a day begins before it
	}
	return Date(seconds / secondsPerDay)
}

// LocalTime is a time of day without an offset, in nanoseconds since midnight:
// 0 to 86,399,999,999,999.
type LocalTime int64

// LocalTimeOf returns the time of day that t shows in its own location.
func LocalTimeOf(t time.Time) LocalTime {
	return LocalTime(((t.Hour()*60+t.Minute())*60+t.Second())*int(time.Second) + t.Nanosecond())
}

// Time is a time of day with an offset from UTC.
type Time struct {
	Local  LocalTime
	Offset int32 // seconds east of UTC, -64,800 to 64,800
}

// TimeOf returns the time of day and the offset that t shows in its own location.
func TimeOf(t time.Time) Time {
	_, offset := t.Zone()
	return Time{LocalTimeOf(t), int32(offset)}
}

// LocalDateTime is a day and a time of day without an offset.
type LocalDateTime struct {
	Seconds     int64  // as if in UTC, since 1970-01-01T00:00:00
	Nanoseconds uint32 // 0 to 999,999,999
}

// LocalDateTimeOf returns the day and time that t shows in its own location.
func LocalDateTimeOf(t time.Time) LocalDateTime {
	return LocalDateTime{wallSeconds(t), uint32(t.Nanosecond())}
}

// ZonedDateTime is a moment together with a time zone by name, such as
// Europe/Berlin. The database knows the zone's rules; the module need not.
type ZonedDateTime struct {
	Time time.Time // the moment; its location does not matter
	Zone string
}

// Duration is an amount of time in four parts that the database keeps apart,
// since a month has no fixed number of days, nor a day of seconds. Each may be
// negative.
type Duration struct {
	Months, Days, Seconds int64
	Nanoseconds           int32 // -999,999,999 to 999,999,999
}

// DurationOf returns d in seconds and nanoseconds.
func DurationOf(d time.Duration) Duration {
	return Duration{Seconds: int64(d / time.Second), Nanoseconds: int32(d % time.Second)}
}

// The usual coordinate reference systems.
const (
	WGS84       = 4326 // longitude, latitude in degrees
	WGS84_3D    = 4979 // and height in metres
	Cartesian   = 7203
	Cartesian3D = 9157
)

// Point2D is a point. With WGS84, X is the longitude and Y the latitude.
type Point2D struct {
	SRID uint32
	X, Y float64
}

// Point3D is a point in space. With WGS84_3D, X is the longitude, Y the latitude
// and Z the height.
type Point3D struct {
	SRID    uint32
	X, Y, Z float64
}

// Ranges of temporal values: the years -999,999,999 to 999,999,999 and offsets
// within 18 hours, which is what Neo4j knows.
const (
	secondsPerDay = 24 * 60 * 60
	nanosPerDay   = secondsPerDay * 1_000_000_000
	maxNanos      = 999_999_999

	minDay    = -365_243_219_162
	maxDay    = 365_241_780_471
	minSecond = minDay * secondsPerDay
	maxSecond = maxDay*secondsPerDay + secondsPerDay - 1
	maxOffset = 18 * 60 * 60

	maxZone = 100 // bytes of a zone's name
)

// wallSeconds is what the clock of t's location shows, as if that were UTC.
func wallSeconds(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}
