package stack

import (
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

// freePorts returns n different TCP ports of 127.0.0.1 that nobody listens on.
// All are held until the last is found.
func freePorts(n int) ([]int, error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	ports := make([]int, 0, n)
	for range 50 * n {
		if len(ports) == n {
			break
		}
		port := lowPort + rand.IntN(highPort-lowPort)
		l, err := net.Listen("tcp", loopback(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for a free port: %w", err)
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("look for %d free ports from %d to %d: only %d found", n, lowPort, highPort-1, len(ports))
	}
	return ports, nil
}

// loopback returns the address of a port on this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
