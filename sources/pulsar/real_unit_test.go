//go:build !e2e

package pulsar_test

import "testing"

// startReal is nil: tests run on a Pulsar in the process (see startServer).
var startReal func(*testing.T) server

// stopReal has nothing to do.
func stopReal() error { return nil }
