// Package frametest is the guest's half of the wire form: it reads request
// frames, writes response frames and encodes parameter values. Tests, the golden
// frames and the conformance kit use it; the server does not.
package frametest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
	"github.com/tinylib/msgp/msgp"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
)

var be = binary.BigEndian

// AppendValue appends the MessagePack encoding of a parameter value, map keys
// sorted. It panics on a type that is none.
func AppendValue(b []byte, v graphmill.Value) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case bool:
		return msgp.AppendBool(b, v)
	case int64:
		return msgp.AppendInt64(b, v)
	case float64:
		return msgp.AppendFloat64(b, v)
	case string:
		return msgp.AppendString(b, v)
	case []byte:
		return msgp.AppendBytes(b, v)
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, e := range v {
			b = AppendValue(b, e)
		}
		return b
	case map[string]any:
		b = msgp.AppendMapHeader(b, uint32(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = AppendValue(msgp.AppendString(b, k), v[k])
		}
		return b
	default:
		return appendExtension(b, v)
	}
}

func appendExtension(b []byte, v any) []byte {
	switch v := v.(type) {
	case time.Time:
		return appendDateTime(b, v)
	case dbtype.Date:
		return AppendExt(b, frame.ExtDate, u64(wallSeconds(time.Time(v))/(24*60*60)))
	case dbtype.LocalTime:
		return AppendExt(b, frame.ExtLocalTime, u64(nanosOfDay(time.Time(v))))
	case dbtype.Time:
		_, offset := time.Time(v).Zone()
		return AppendExt(b, frame.ExtTime, be.AppendUint32(u64(nanosOfDay(time.Time(v))), uint32(int32(offset))))
	case dbtype.LocalDateTime:
		t := time.Time(v)
		return AppendExt(b, frame.ExtLocalDateTime, be.AppendUint32(u64(wallSeconds(t)), uint32(t.Nanosecond())))
	case dbtype.Duration:
		p := be.AppendUint64(be.AppendUint64(u64(v.Months), uint64(v.Days)), uint64(v.Seconds))
		return AppendExt(b, frame.ExtDuration, be.AppendUint32(p, uint32(int32(v.Nanos))))
	case dbtype.Point2D:
		p := be.AppendUint32(nil, v.SpatialRefId)
		return AppendExt(b, frame.ExtPoint2D, f64(f64(p, v.X), v.Y))
	case dbtype.Point3D:
		p := be.AppendUint32(nil, v.SpatialRefId)
		return AppendExt(b, frame.ExtPoint3D, f64(f64(f64(p, v.X), v.Y), v.Z))
	default:
		panic(fmt.Sprintf("frametest: a %T is no parameter value", v))
	}
}

// appendDateTime tells an offset from a zone as the Bolt driver does, and UTC by
// its offset.
func appendDateTime(b []byte, t time.Time) []byte {
	name, offset := t.Zone()
	p := be.AppendUint32(u64(t.Unix()), uint32(t.Nanosecond()))
	switch {
	case name == graphmill.OffsetZone && offset == 0:
		return AppendExt(b, frame.ExtTimestamp, be.AppendUint64(be.AppendUint32(nil, uint32(t.Nanosecond())), uint64(t.Unix())))
	case name == graphmill.OffsetZone:
		return AppendExt(b, frame.ExtOffsetDateTime, be.AppendUint32(p, uint32(int32(offset))))
	default:
		return AppendExt(b, frame.ExtZonedDateTime, append(p, t.Location().String()...))
	}
}

// AppendExt appends an extension of any type and payload, in its shortest form.
func AppendExt(b []byte, typ int8, payload []byte) []byte {
	switch n := len(payload); {
	case n == 1 || n == 2 || n == 4 || n == 8 || n == 16:
		b = append(b, map[int]byte{1: 0xd4, 2: 0xd5, 4: 0xd6, 8: 0xd7, 16: 0xd8}[n])
	case n < 1<<8:
		b = append(b, 0xc7, byte(n))
	case n < 1<<16:
		b = be.AppendUint16(append(b, 0xc8), uint16(n))
	default:
		b = be.AppendUint32(append(b, 0xc9), uint32(n))
	}
	return append(append(b, byte(typ)), payload...)
}

func u64(v int64) []byte { return be.AppendUint64(nil, uint64(v)) }

func f64(b []byte, v float64) []byte { return be.AppendUint64(b, math.Float64bits(v)) }

// wallSeconds are the seconds since the epoch of the wall clock in t's own
// location.
func wallSeconds(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

func nanosOfDay(t time.Time) int64 {
	h, m, s := t.Clock()
	return int64(h*3600+m*60+s)*1e9 + int64(t.Nanosecond())
}
