package pulsar

import (
	"reflect"
	"unsafe"
)

// Crash ends a source as the end of its process would: its connections are cut, and
// the broker is told nothing.
func Crash(s *Source) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	Cut(s)
	s.finish(true)
}

// Cut cuts the connections of a source. It connects again by itself.
func Cut(s *Source) {
	// The client drops connections only after it has closed its consumers.
	field := reflect.ValueOf(s.cl).Elem().FieldByName("cnxPool")
	pool := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	for _, conn := range pool.MethodByName("GetConnections").Call(nil)[0].Seq2() {
		conn.Elem().MethodByName("Close").Call(nil)
	}
}

// Asked is how many messages the consumer of the first partition asks for beforehand.
func Asked(s *Source) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.order[0].current; c != nil {
		return c.queue
	}
	return 0
}
