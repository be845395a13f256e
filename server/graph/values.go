package graph

import (
	"fmt"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
)

// maxValueDepth is beyond what a transformation may return; it keeps a cyclic
// value from ending the process.
const maxValueDepth = 200

// measure checks that the driver can send every parameter of a statement, and
// returns about how many bytes they take. The driver itself finds out only when
// half of a message has been written, and then drops the connection.
func measure(s *graphmill.Statement) (int, error) {
	if s.Query.Names != nil && len(s.Values) != len(s.Query.Names) {
		return 0, fmt.Errorf("%d values for %d parameters", len(s.Values), len(s.Query.Names))
	}
	total := 0
	add := func(name string, v any) error {
		n, err := measureValue(v, 0)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", clip(name, 100), err)
		}
		total += len(name) + n
		return nil
	}
	if s.Query.Names != nil {
		for i, v := range s.Values {
			if err := add(s.Query.Names[i], v); err != nil {
				return 0, err
			}
		}
		return total, nil
	}
	for name, v := range s.Params {
		if err := add(name, v); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// measureValue follows the list of types at graphmill.Value.
func measureValue(v any, depth int) (int, error) {
	if depth > maxValueDepth {
		return 0, fmt.Errorf("the value is nested more than %d deep", maxValueDepth)
	}
	const scalar = 9 // a marker and eight bytes
	switch v := v.(type) {
	case nil, bool, int64, float64:
		return scalar, nil
	case string:
		return scalar + len(v), nil
	case []byte:
		return scalar + len(v), nil
	case []any:
		total := scalar
		for _, e := range v {
			n, err := measureValue(e, depth+1)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	case map[string]any:
		total := scalar
		for k, e := range v {
			n, err := measureValue(e, depth+1)
			if err != nil {
				return 0, err
			}
			total += len(k) + n
		}
		return total, nil
	case time.Time, dbtype.Date, dbtype.LocalTime, dbtype.Time, dbtype.LocalDateTime,
		dbtype.Duration, dbtype.Point2D, dbtype.Point3D:
		return 4 * scalar, nil
	}
	return 0, fmt.Errorf("a %T cannot be sent", v)
}
