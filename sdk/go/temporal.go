package graphmill

import (
	"math"
	"time"
	"unicode/utf8"
)

// The setters of the values that only graph databases have. A value out of the
// range that its type allows makes the message fail.

// DateTime gives a moment with the offset from UTC that its location has at that
// moment. For a zone by name see [Statement.ZonedDateTime].
func (s Statement) DateTime(v time.Time) Statement {
	_, offset := v.Zone()
	s.within("the year", v.Unix(), minSecond, maxSecond)
	s.within("the offset", int64(offset), -maxOffset, maxOffset)
	s.r.next(s.generation)
	s.r.putDateTime(v)
	return s
}

// ZonedDateTime gives a moment with a time zone by name.
func (s Statement) ZonedDateTime(v ZonedDateTime) Statement {
	seconds := v.Time.Unix()
	s.within("the year", seconds, minSecond, maxSecond)
	if v.Zone == "" || len(v.Zone) > maxZone || !utf8.ValidString(v.Zone) {
		s.r.fail(s.r.wrong("a time zone needs a name such as Europe/Berlin"))
		return s.Null()
	}
	s.r.next(s.generation)
	if s.r.room(len(v.Zone)) {
		b := s.r.putExt(extZonedDateTime, 12+len(v.Zone))
		be.PutUint64(b, uint64(seconds))
		be.PutUint32(b[8:], uint32(v.Time.Nanosecond()))
		copy(b[12:], v.Zone)
	}
	return s
}

// LocalDateTime gives a day and a time of day without an offset.
func (s Statement) LocalDateTime(v LocalDateTime) Statement {
	s.within("the year", v.Seconds, minSecond, maxSecond)
	s.within("the nanoseconds", int64(v.Nanoseconds), 0, maxNanos)
	b := s.ext(extLocalDateTime, 12)
	be.PutUint64(b, uint64(v.Seconds))
	be.PutUint32(b[8:], v.Nanoseconds)
	return s
}

// Date gives a day.
func (s Statement) Date(v Date) Statement {
	s.within("the year", int64(v), minDay, maxDay)
	be.PutUint64(s.ext(extDate, 8), uint64(v))
	return s
}

// LocalTime gives a time of day without an offset.
func (s Statement) LocalTime(v LocalTime) Statement {
	s.within("the time of day", int64(v), 0, nanosPerDay-1)
	be.PutUint64(s.ext(extLocalTime, 8), uint64(v))
	return s
}

// Time gives a time of day with an offset.
func (s Statement) Time(v Time) Statement {
	s.within("the time of day", int64(v.Local), 0, nanosPerDay-1)
	s.within("the offset", int64(v.Offset), -maxOffset, maxOffset)
	b := s.ext(extTime, 12)
	be.PutUint64(b, uint64(v.Local))
	be.PutUint32(b[8:], uint32(v.Offset))
	return s
}

// Duration gives an amount of time.
func (s Statement) Duration(v Duration) Statement {
	s.within("the nanoseconds", int64(v.Nanoseconds), -maxNanos, maxNanos)
	b := s.ext(extDuration, 28)
	be.PutUint64(b, uint64(v.Months))
	be.PutUint64(b[8:], uint64(v.Days))
	be.PutUint64(b[16:], uint64(v.Seconds))
	be.PutUint32(b[24:], uint32(v.Nanoseconds))
	return s
}

// Point2D gives a point.
func (s Statement) Point2D(v Point2D) Statement {
	b := s.ext(extPoint2D, 20)
	be.PutUint32(b, v.SRID)
	be.PutUint64(b[4:], math.Float64bits(v.X))
	be.PutUint64(b[12:], math.Float64bits(v.Y))
	return s
}

// Point3D gives a point in space.
func (s Statement) Point3D(v Point3D) Statement {
	b := s.ext(extPoint3D, 28)
	be.PutUint32(b, v.SRID)
	be.PutUint64(b[4:], math.Float64bits(v.X))
	be.PutUint64(b[12:], math.Float64bits(v.Y))
	be.PutUint64(b[20:], math.Float64bits(v.Z))
	return s
}

// ext begins an extension value of fixed size and returns where its payload goes.
func (s Statement) ext(kind byte, size int) []byte {
	s.r.next(s.generation)
	return s.r.putExt(kind, size)
}

// within fails the statement where v is out of range.
func (s Statement) within(what string, v, low, high int64) {
	if v < low || v > high {
		s.r.fail(s.r.wrong(what + " of a value is out of range"))
	}
}
