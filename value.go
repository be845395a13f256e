package graphmill

// Value is a parameter value of a statement: one of these Go types, however
// deeply nested, and nothing else.
//
//	nil                   null
//	bool
//	int64
//	float64               NaN and the infinities too
//	string                valid UTF-8
//	[]byte
//	[]any                 list of values
//	map[string]any        map of values
//	time.Time             a date and time with an offset or a zone, see below
//	dbtype.Date
//	dbtype.LocalTime
//	dbtype.Time           time of day with an offset
//	dbtype.LocalDateTime
//	dbtype.Duration
//	dbtype.Point2D
//	dbtype.Point3D
//
// The dbtype types are those of github.com/neo4j/neo4j-go-driver/v5, used as
// they are so that the driver sends them without any conversion. It reads the
// wall clock of the four temporal ones in their own location; ours have UTC, or
// a fixed offset for dbtype.Time.
//
// What the driver makes of a time.Time depends on the name of its zone. The
// name [OffsetZone] means an offset, and any other one a zone by name. A moment
// in UTC therefore has a zone of the name OffsetZone and the offset 0: sent as
// the zone named UTC it would be another value to Neo4j than what
// datetime("2026-01-31T00:00:00Z") makes, and MERGE would not find it.
//
// Values are read only: they may be shared by statements, and strings share the
// memory of the response that they came from.
type Value = any

// OffsetZone is the name of a time.Location by which the Bolt driver knows a
// fixed offset from a named zone. See [Value].
const OffsetZone = "Offset"
