package main

import (
	"fmt"
	"net"
	"net/netip"
)

// checkExposed refuses to serve the API beyond this machine by accident.
func (s *serveSettings) checkExposed() error {
	return checkExposure("listen", s.listen, s.noAuth || s.tokenFile != "")
}

// checkExposure refuses to serve beyond this machine by accident, without a
// login.
func checkExposure(flag, address string, allowed bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return wrongUsage("--%s %q is no address such as 127.0.0.1:7480", flag, address)
	}
	if allowed || isLocal(host) {
		return nil
	}
	return exposed(flag, address)
}

func exposed(flag, address string) error {
	return &usageError{
		text: fmt.Sprintf("--%s %s would serve everyone who can reach this machine, without a login", flag, address),
		next: "let in callers with a token only (--token-file FILE), listen on 127.0.0.1, or say --insecure-no-auth where the network is closed",
	}
}

func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func isLocalAddr(addr net.Addr) bool {
	host, _, err := net.SplitHostPort(addr.String())
	return err == nil && isLocal(host)
}
