package frame

import (
	"math"
	"path"
	"strings"
	"time"
	_ "time/tzdata" // zone ids mean the same on a host without a zone database

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
)

// Extension types of parameter values.
const (
	ExtTimestamp      = -1
	ExtDate           = 1
	ExtLocalTime      = 2
	ExtTime           = 3
	ExtLocalDateTime  = 4
	ExtOffsetDateTime = 5
	ExtZonedDateTime  = 6
	ExtDuration       = 7
	ExtPoint2D        = 8
	ExtPoint3D        = 9
)

// Ranges of temporal values. Dates are those of the years -999,999,999 to
// 999,999,999, offsets those within 18 hours: what java.time, and so Neo4j,
// knows. All arithmetic of Go's time package is exact within them.
const (
	secondsPerDay = 24 * 60 * 60
	nanosPerDay   = secondsPerDay * 1_000_000_000
	maxNanos      = 999_999_999

	minDay    = -365_243_219_162
	maxDay    = 365_241_780_471
	minSecond = minDay * secondsPerDay
	maxSecond = maxDay*secondsPerDay + secondsPerDay - 1
	maxOffset = 18 * 60 * 60

	maxZoneID = 100 // bytes
)

// Bounds of the decoder's caches of locations.
const (
	cachedOffsets = 1024
	cachedZones   = 1024
)

// zoneCost is what a zone takes that is not cached, in bytes, roughly.
const zoneCost = 8 << 10

// extension reads the type and the payload of n bytes.
func (r *valueReader) extension(n int) (any, error) {
	typ, err := r.take("the type of an extension", 1)
	if err != nil {
		return nil, err
	}
	start := r.at
	payload, err := r.take("an extension", n)
	if err != nil {
		return nil, err
	}
	if !r.d.spend(valueCost + timeCost) {
		return nil, r.d.tooLarge("")
	}
	x := extReader{s: payload}
	v := x.value(r.d, int8(typ[0]))
	if !r.d.spend(0) {
		return nil, r.d.tooLarge("")
	}
	if x.fault == "" && len(x.s) > 0 {
		x.fault = "the payload is longer than its value"
	}
	if x.fault != "" {
		r.at = start
		return nil, r.errorf("extension %d of %d bytes: %s", int8(typ[0]), n, x.fault)
	}
	return v, nil
}

// extReader reads the payload of an extension, all of it big-endian. The first
// fault is kept and the reads after it give zero, so that the form of a payload
// can be read off the code.
type extReader struct {
	s     string
	fault string
}

func (x *extReader) value(d *Decoder, typ int8) any {
	switch typ {
	case ExtTimestamp:
		return x.timestamp()
	case ExtDate:
		days := x.within("days", x.i64(), minDay, maxDay)
		return dbtype.Date(time.Unix(days*secondsPerDay, 0).UTC())
	case ExtLocalTime:
		return dbtype.LocalTime(clock(x.nanosOfDay(), time.UTC))
	case ExtTime:
		nanos := x.nanosOfDay()
		return dbtype.Time(clock(nanos, d.offset(x.offset())))
	case ExtLocalDateTime:
		return dbtype.LocalDateTime(x.moment().UTC())
	case ExtOffsetDateTime:
		t := x.moment()
		return t.In(d.offset(x.offset()))
	case ExtZonedDateTime:
		t := x.moment()
		return t.In(x.zone(d))
	case ExtDuration:
		return dbtype.Duration{
			Months: x.i64(), Days: x.i64(), Seconds: x.i64(),
			Nanos: int(x.within("nanoseconds", int64(int32(x.u32())), -maxNanos, maxNanos)),
		}
	case ExtPoint2D:
		return dbtype.Point2D{SpatialRefId: x.u32(), X: x.f64(), Y: x.f64()}
	case ExtPoint3D:
		return dbtype.Point3D{SpatialRefId: x.u32(), X: x.f64(), Y: x.f64(), Z: x.f64()}
	default:
		x.fail("the type is not known")
		return nil
	}
}

// timestamp reads MessagePack's own timestamp, in any of its three lengths.
func (x *extReader) timestamp() time.Time {
	var seconds, nanos int64
	switch len(x.s) {
	case 4:
		seconds = int64(x.u32())
	case 8:
		v := uint64(x.i64())
		seconds, nanos = int64(v&(1<<34-1)), int64(v>>34)
	case 12:
		nanos = int64(x.u32())
		seconds = x.i64()
	default:
		x.fail("a timestamp has 4, 8 or 12")
	}
	seconds = x.within("seconds", seconds, minSecond, maxSecond)
	nanos = x.within("nanoseconds", nanos, 0, maxNanos)
	return time.Unix(seconds, nanos).In(utc)
}

// utc is UTC under the name that makes the Bolt driver send an offset.
var utc = time.FixedZone(graphmill.OffsetZone, 0)

// moment reads seconds and nanoseconds.
func (x *extReader) moment() time.Time {
	seconds := x.within("seconds", x.i64(), minSecond, maxSecond)
	nanos := x.within("nanoseconds", int64(x.u32()), 0, maxNanos)
	return time.Unix(seconds, nanos)
}

func (x *extReader) nanosOfDay() int64 {
	return x.within("nanoseconds of the day", x.i64(), 0, nanosPerDay-1)
}

func (x *extReader) offset() int32 {
	return int32(x.within("offset seconds", int64(int32(x.u32())), -maxOffset, maxOffset))
}

// clock is a time of day on the date that the Bolt driver uses for it.
func clock(nanos int64, loc *time.Location) time.Time {
	return time.Date(0, 0, 0, 0, 0, int(nanos/1e9), int(nanos%1e9), loc)
}

// offset returns the location of a fixed offset.
func (d *Decoder) offset(seconds int32) *time.Location {
	if seconds == 0 {
		return utc
	}
	loc, ok := d.offsets[seconds]
	if !ok {
		loc = time.FixedZone(graphmill.OffsetZone, int(seconds))
		if d.offsets == nil || len(d.offsets) >= cachedOffsets {
			d.offsets = make(map[int32]*time.Location)
		}
		d.offsets[seconds] = loc
	}
	return loc
}

// zone reads the rest of the payload as the id of a time zone.
func (x *extReader) zone(d *Decoder) *time.Location {
	id := x.s
	x.s = ""
	if x.fault != "" {
		return time.UTC
	}
	if loc, ok := d.zones[id]; ok {
		return loc
	}
	// LoadLocation would take the first two for UTC and for the zone of this machine,
	// and finds the file of a zone by many other paths too.
	if id == "" || id == "Local" || len(id) > maxZoneID || path.Clean(id) != id {
		x.fail("the zone id is not known")
		return time.UTC
	}
	id = strings.Clone(id) // the location keeps it
	loc, err := time.LoadLocation(id)
	if err != nil {
		x.fail("the zone id is not known")
		return time.UTC
	}
	if d.zones == nil || len(d.zones) >= cachedZones {
		d.zones = make(map[string]*time.Location)
	}
	d.zones[id] = loc
	d.memory -= zoneCost // which the caller looks at
	return loc
}

func (x *extReader) fail(text string) {
	if x.fault == "" {
		x.fault = text
	}
}

// within returns v, or 0 and a fault where it is out of range.
func (x *extReader) within(what string, v, low, high int64) int64 {
	if v < low || v > high {
		x.fail(what + " out of range")
		return 0
	}
	return v
}

func (x *extReader) take(n int) uint64 {
	if len(x.s) < n {
		x.fail("the payload is too short")
		x.s = ""
		return 0
	}
	v := bigEndian(x.s[:n])
	x.s = x.s[n:]
	return v
}

func (x *extReader) u32() uint32  { return uint32(x.take(4)) }
func (x *extReader) i64() int64   { return int64(x.take(8)) }
func (x *extReader) f64() float64 { return math.Float64frombits(x.take(8)) }
