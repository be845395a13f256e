package pulsar

import (
	"context"
	"errors"
	"sync"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// BrokerFacts is what one address of a service URL says of itself.
type BrokerFacts struct {
	Address string // host:port

	Version string // of the broker, as it calls itself; empty: it did not answer
	TLS     bool   // it speaks TLS at this address, and the service URL is pulsar://
	Login   bool   // it answers, wants a login before anything else, and none was configured

	// Fault is why it could not be asked; nil where TLS or Login is set, which are
	// matters of a stream's settings. Beside the codes of streams there are
	// "broker_silent" (it takes connections, and does not answer) and "no_broker" (it
	// answers, and not as a broker does).
	Fault *graphmill.Fault
}

// Diagnose asks each address of a service URL what it is, until ctx ends, with the
// TLS and the login of client. It changes nothing there. The error is of KindInvalid.
func Diagnose(ctx context.Context, serviceURL string, client ClientSettings) ([]BrokerFacts, error) {
	if err := graphmill.ValidateServiceURL("service_url", serviceURL); err != nil {
		return nil, err
	}
	cfg := Config{ServiceURL: serviceURL, Client: client}.withDefaults()
	hosts := Servers(serviceURL)
	facts := make([]BrokerFacts, len(hosts))
	var asking sync.WaitGroup
	for i, address := range hosts { // at once, so that a silent one leaves time for the others
		asking.Go(func() { facts[i] = cfg.diagnose(ctx, address) })
	}
	asking.Wait()
	return facts, nil
}

func (c *Config) diagnose(ctx context.Context, address string) BrokerFacts {
	facts := BrokerFacts{Address: address}
	links := newLinks(c) // one address's refusal says nothing of the others
	a, err := c.askAt(ctx, links, map[string]*asker{}, address, address)
	if err == nil {
		defer a.close()
		facts.Version = a.version
		return facts
	}
	facts.Fault = links.fault("ask the broker", err)
	_, failed := links.last()
	var none *notPulsar
	switch {
	case facts.Fault.Code == codeAuth && !c.Client.LogsIn():
		facts.Login, facts.Fault = true, nil
	case !withTLS(c.ServiceURL) && (tlsfault.IsReason(facts.Fault.Code) || errors.As(failed, &none)) && tlsfault.Offered(ctx, address):
		facts.TLS, facts.Fault = true, nil
	case errors.As(failed, &none):
		facts.Fault = ends("no_broker", address+" answers, and not as a broker of Pulsar does", "see which program listens there, and which port is the broker's: 6650, or 6651 with TLS, by default", failed)
	case errors.Is(failed, errSilent):
		facts.Fault = ends("broker_silent", address+" takes the connection, and then answers nothing",
			"see whether it is a broker, whether it is overloaded, and whether something between here and there keeps back what is sent", nil)
	}
	return facts
}

// DiagnoseAdmin tells what is wrong with the admin REST at an address, with the TLS and
// the login of client, or nil: it asks for the broker's health, which the broker finds
// out by sending a message to itself, and tells to superusers. The code "forbidden" is
// of another login, which may do for streams. The error is of KindInvalid.
func DiagnoseAdmin(ctx context.Context, adminURL string, client ClientSettings) (*graphmill.Fault, error) {
	cfg := Config{AdminURL: adminURL, Client: client}
	links := newLinks(&cfg)
	a, err := cfg.admin(links)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, graphmill.Invalid("admin_url", "an address is needed, as http://host:8080")
	}
	if err := a.health(ctx); err != nil {
		return links.fault("look at the broker's health", err), nil
	}
	return nil, nil
}

// errSilent is the time that has run out for an answer.
var errSilent = errors.New("the broker does not answer")
