package graphmill

import (
	"net"
	"strconv"
	"strings"
)

// ValidateBroker returns an error of KindInvalid that names field unless address
// is one of a broker: host:port, or a host alone, which means Kafka's port 9092.
// The error does not repeat the address: what is no address may hold a password.
func ValidateBroker(field, address string) error {
	host, port, err := net.SplitHostPort(address)
	if !strings.Contains(address, ":") {
		host, port, err = address, "9092", nil
	}
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || number == 0 || host == "" || strings.ContainsAny(host, "@/ ") {
		return Invalid(field, "an address is not of the form host:port, such as 127.0.0.1:9092")
	}
	return nil
}
