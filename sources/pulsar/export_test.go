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
	cl := s.cl
	s.mu.Unlock()
	// The client has no way to drop its connections but by closing its consumers.
	field := reflect.ValueOf(cl).Elem().FieldByName("cnxPool")
	pool := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	for _, conn := range pool.MethodByName("GetConnections").Call(nil)[0].Seq2() {
		conn.Elem().MethodByName("Close").Call(nil)
	}
	s.end()
	s.workers.Wait()
	cl.Close()
}
