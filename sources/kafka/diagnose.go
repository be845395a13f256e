package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// BrokerFacts is what one address says of itself.
type BrokerFacts struct {
	Address string

	Version    string   // the release that its API versions fit best; empty: it did not answer
	TopicIDs   bool     // it tells a topic from one of the same name that was there before
	Advertised []string // host:port that it gives out for the brokers of the cluster, sorted
	TLS        bool     // it speaks TLS at this address, and no TLS was configured
	Login      bool     // it answers, wants a login before anything else, and none was configured

	// Fault is why it could not be asked all of it; nil where TLS or Login is
	// set, which are matters of a stream's settings. Beside the codes of streams
	// there are "broker_silent" (it takes connections, and does not answer) and
	// "no_broker" (it answers, and not as a broker does).
	Fault *graphmill.Fault
}

// Diagnose asks one address of a broker what it is, until ctx ends, with the TLS
// and the login of client. It changes nothing there.
func Diagnose(ctx context.Context, address string, client ClientSettings) BrokerFacts {
	facts := BrokerFacts{Address: address}
	cfg := Config{Brokers: []string{address}, Topics: []string{"none"}, Client: client}.withDefaults()
	if err := cfg.validate(); err != nil {
		facts.Fault = ends("invalid", err.Error(), "", nil)
		return facts
	}
	links, greeting := newLinks(&cfg), &greeting{}
	cl, err := cfg.connect(ctx, links, kgo.WithHooks(greeting), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
	if err != nil {
		facts.Fault = ends("invalid", err.Error(), "", nil)
		return facts
	}
	defer cl.Close()
	seed := cl.SeedBrokers()[0]
	// The cluster first: before a login, brokers answer one question for their
	// versions, which is the client's own, and then close the connection.
	err = facts.askCluster(ctx, seed)
	switch {
	case err == nil:
		if err := facts.askVersions(ctx, seed); err != nil {
			facts.Fault = links.fault("ask the broker for its version", err)
		}
	case greeting.answered.Load() && client.security.mechanism == "" && closedOrRefused(err):
		facts.Login = true
	case greeting.answered.Load():
		facts.Fault = links.fault("ask the broker for the cluster", err)
	case client.security.tls == nil && tlsfault.Offered(ctx, address):
		facts.TLS = true
	default:
		facts.Fault = notAnswered(ctx, address, links, links.fault("ask the broker for the cluster", err))
	}
	return facts
}

// greeting is a hook of the client that tells whether what listens is a broker:
// the first thing that the client does is to ask for its versions.
type greeting struct{ answered atomic.Bool }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (g *greeting) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == kmsg.ApiVersions.Int16() && e2e.Err() == nil {
		g.answered.Store(true)
	}
}

// notAnswered tells more of an address that has not answered as a broker: a fault
// that says only that nobody answers is wrong of one that takes connections.
func notAnswered(ctx context.Context, address string, links *links, f *graphmill.Fault) *graphmill.Fault {
	switch {
	case !links.reached.Load() || f.Code != codeUnreachable:
		return f
	case ctx.Err() != nil:
		return ends("broker_silent", address+" takes the connection, and then answers nothing",
			"see whether it is a broker, whether it is overloaded, and whether something between here and there keeps back what is sent", nil)
	}
	return ends("no_broker", address+" answers, and not as a broker does", "see which program listens there, and which port is the broker's", f.Err)
}

func (f *BrokerFacts) askVersions(ctx context.Context, broker *kgo.Broker) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "graphmill", "doctor"
	answer, err := broker.Request(ctx, req)
	if err != nil {
		return err
	}
	versions, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok {
		return fmt.Errorf("an answer of another kind: %T", answer)
	}
	if err := kerr.ErrorForCode(versions.ErrorCode); err != nil {
		return err
	}
	f.Version = kversion.FromApiVersionsResponse(versions).VersionGuess()
	return nil
}

// metadataWithIDs is the version of Metadata from which on topics have ids.
const metadataWithIDs = 10

func (f *BrokerFacts) askCluster(ctx context.Context, broker *kgo.Broker) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	answer, err := broker.Request(ctx, req)
	if err != nil {
		return err
	}
	cluster, ok := answer.(*kmsg.MetadataResponse)
	if !ok {
		return fmt.Errorf("an answer of another kind: %T", answer)
	}
	f.TopicIDs = cluster.Version >= metadataWithIDs
	for _, b := range cluster.Brokers {
		f.Advertised = append(f.Advertised, net.JoinHostPort(b.Host, fmt.Sprint(b.Port)))
	}
	slices.Sort(f.Advertised)
	return nil
}

// closedOrRefused tells how brokers meet a client that should have logged in:
// with an error, or by closing the connection.
func closedOrRefused(err error) bool {
	var eof *kgo.ErrFirstReadEOF
	return isRefusal(err) || errors.As(err, &eof) || tlsfault.HasEnded(err)
}
