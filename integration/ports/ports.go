// Package ports finds TCP ports for servers that are stopped and started again on the
// same port, which is not to be another's meanwhile.
package ports

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports are taken from below the ranges that Linux (32768) and macOS (49152)
// give to outgoing connections. A port of those ranges is not safe for a server
// that tests stop and start again: meanwhile the kernel may lend it to any
// client, and a client that keeps dialling it on loopback can even be connected
// to itself.
const (
	lowPort  = 20000
	highPort = 32000 // exclusive
)

// attempts bounds how often Listen draws a port that somebody listens on.
const attempts = 1000

// Listen listens on an address; empty: on a port of 127.0.0.1 that nobody listens on.
// The caller closes it.
func Listen(address string) (net.Listener, error) {
	if address != "" {
		return listen(address)
	}
	for range attempts {
		l, err := listen(Loopback(lowPort + rand.IntN(highPort-lowPort)))
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("look for a free port: %w", err)
		}
	}
	return nil, fmt.Errorf("look for a free port from %d to %d: %d are taken", lowPort, highPort-1, attempts)
}

func listen(address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", address)
}

// Free returns n different TCP ports of 127.0.0.1 that nobody listens on. All are held
// until the last is found.
func Free(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := Listen("")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Loopback returns the address of a port on this machine.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
