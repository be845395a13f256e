package pulsar

import (
	"cmp"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/prometheus/client_golang/prometheus"
)

// clientDescription stands behind the client's version in the broker's statistics.
const clientDescription = "graphmill"

// connect makes a client. Nothing is dialled yet. links is told how its
// connections fare.
//
// A client does what it is asked for again and again until its operation timeout is
// over, and never looks at a context: its calls are bounded by nothing else.
func (c *Config) connect(links *links) (pulsar.Client, error) {
	cl, err := pulsar.NewClient(c.clientOptions(links))
	if err != nil {
		return nil, fmt.Errorf("make a Pulsar client: %w", err)
	}
	return cl, nil
}

func (c *Config) clientOptions(links *links) pulsar.ClientOptions {
	s := &c.Client
	opts := pulsar.ClientOptions{
		URL:                     c.ServiceURL,
		OperationTimeout:        cmp.Or(s.operationTimeout, defaultOperationTimeout),
		ConnectionTimeout:       cmp.Or(s.connectionTimeout, defaultConnectionTimeout),
		KeepAliveInterval:       s.keepAlive,
		ConnectionMaxIdleTime:   s.maxIdle,
		MaxConnectionsPerBroker: s.connectionsPerBroker,
		ListenerName:            s.listener,
		LookupProperties:        s.lookup.m,
		Description:             cmp.Or(s.description, clientDescription),
		Logger:                  newClientLogger(c.Logger, links),
		Authentication:          &login{security: &s.security, links: links},
		MetricsCardinality:      pulsar.MetricsCardinalityNone,
		// A registry of its own, which nobody reads: its figures are of all streams
		// together, and ours are in /metrics.
		MetricsRegisterer: prometheus.NewRegistry(),
	}
	if withTLS(c.ServiceURL) {
		// The client checks the host's name of the address that it dials, since no
		// other is set here: lookups lead to brokers of other names.
		opts.TLSConfig = s.security.tlsConfig(func() { links.asked.Store(true) })
	}
	return opts
}
