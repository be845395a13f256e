package pulsar

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// protocolVersion is the one that questions are asked in. It has the list of a
// namespace's topics, and challenges of logins.
const protocolVersion = 19

// maxRedirects is how often a lookup may be sent on to another broker.
const maxRedirects = 20

// asker asks one broker what the client library asks too late, too often, or not at
// all: whether it takes the login and why it does not, which topics there are without
// making them, and whether the topics may be consumed. It is for one goroutine.
type asker struct {
	cfg     *Config
	links   *links
	logical string            // host:port of the broker meant
	peers   map[string]*asker // all that are connected, by the broker meant; shared
	conn    net.Conn
	version string
	last    uint64 // request
}

// ask connects to the first host of the service URL that takes the connection, and
// logs in. Errors are faults of links.
func (c *Config) ask(ctx context.Context, links *links) (*asker, error) {
	var first error
	for _, host := range Servers(c.ServiceURL) {
		a, err := c.askAt(ctx, links, map[string]*asker{}, host, host)
		if err == nil {
			return a, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// Servers are the servers of a valid service URL as host:port, with the port by default
// where none is given.
func Servers(serviceURL string) []string {
	port := "6650"
	if withTLS(serviceURL) {
		port = "6651"
	}
	var all []string
	for host := range strings.SplitSeq(hosts(serviceURL), ", ") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		all = append(all, host)
	}
	return all
}

// askAt connects to a broker, by way of another address where that is a proxy's.
func (c *Config) askAt(ctx context.Context, links *links, peers map[string]*asker, logical, physical string) (*asker, error) {
	a := &asker{cfg: c, links: links, logical: logical, peers: peers}
	if err := a.dial(ctx, physical); err != nil {
		links.note(physical, err)
		return nil, links.fault("connect to "+physical, err)
	}
	if err := a.login(ctx, physical); err != nil {
		_ = a.conn.Close()
		links.note(physical, err)
		return nil, links.fault("log in at "+physical, err)
	}
	links.note(physical, nil)
	peers[logical] = a
	return a, nil
}

// close ends the connections to all brokers that have been asked.
func (a *asker) close() {
	for _, peer := range a.peers {
		_ = peer.conn.Close()
	}
}

// dial makes the connection, with TLS where the service URL asks for it.
func (a *asker) dial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.cfg.Client.connectionTimeout, defaultConnectionTimeout))
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	a.conn = raw
	if !withTLS(a.cfg.ServiceURL) {
		return nil
	}
	cfg := a.links.security.tlsConfig(func() { a.links.asked.Store(true) })
	if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
		return err
	}
	secured := tls.Client(raw, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		if ctx.Err() != nil {
			return fmt.Errorf("the TLS handshake with %s: %w", address, ctx.Err())
		}
		return a.explain(address, err)
	}
	a.conn = secured
	return nil
}

// explain finds out why the connection cannot be used: with TLS 1.3 a broker says
// only after the handshake that it does not accept the client's certificate, and one
// that expects TLS answers a client without it with an alert.
func (a *asker) explain(address string, err error) error {
	var none *notPulsar
	if !withTLS(a.cfg.ServiceURL) && errors.As(err, &none) && tlsfault.IsAnswer(none.first[:]) {
		return &tlsfault.Unusable{Why: tlsfault.Missing, Sure: true, Address: address, Err: errors.New("it answers with a TLS alert")}
	}
	return a.links.explain(address, err)
}

// login makes the client known to the broker.
func (a *asker) login(ctx context.Context, address string) error {
	login := &login{security: a.links.security, links: a.links}
	data, err := login.GetData()
	if err != nil {
		return err
	}
	connect := &connectCommand{
		ClientVersion: clientDescription, AuthMethodName: login.Name(), AuthData: data,
		ProtocolVersion: protocolVersion, FeatureFlags: featureFlags{SupportsAuthRefresh: true},
	}
	if a.logical != address {
		connect.ProxyTo = a.logical
	}
	reply, err := a.talk(ctx, command{Type: "CONNECT", Connect: connect})
	switch {
	case err != nil:
		if told := (*answer)(nil); errors.As(err, &told) {
			return err
		}
		return a.explain(address, err)
	case reply.Connected == nil:
		return &notPulsar{}
	}
	a.version = reply.Connected.ServerVersion
	return nil
}

// talk sends a command and returns the answer to it. A refusal is an *answer.
func (a *asker) talk(ctx context.Context, c command) (command, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.cfg.Client.operationTimeout, defaultOperationTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = a.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := writeCommand(a.conn, c); err != nil {
		return command{}, a.ended(ctx, err)
	}
	for {
		reply, err := readCommand(a.conn)
		if err != nil {
			return command{}, a.ended(ctx, err)
		}
		switch reply.Type {
		case "PING":
			err = writeCommand(a.conn, command{Type: "PONG", Pong: &struct{}{}})
		case "AUTH_CHALLENGE":
			err = a.answerChallenge()
		case "ERROR":
			if reply.Error == nil {
				return command{}, &notPulsar{}
			}
			return command{}, &answer{Code: reply.Error.Error, Message: reply.Error.Message}
		case "CONNECTED", "SUCCESS", "PARTITIONED_METADATA_RESPONSE", "LOOKUP_RESPONSE", "GET_TOPICS_OF_NAMESPACE_RESPONSE", "GET_LAST_MESSAGE_ID_RESPONSE":
			return reply, nil
		} // else it is about the consumer: who is active, its messages, the end of the topic
		if err != nil {
			return command{}, a.ended(ctx, err)
		}
	}
}

// ended returns the context's error where that is why the connection has.
func (a *asker) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errSilent, ctx.Err())
	}
	return err
}

// answerChallenge shows the login again, which a broker asks for when it expires.
func (a *asker) answerChallenge() error {
	login := &login{security: a.links.security, links: a.links}
	data, err := login.GetData()
	if err != nil {
		return err
	}
	r := &authResponse{ClientVersion: clientDescription, ProtocolVersion: protocolVersion}
	r.Response.AuthMethodName, r.Response.AuthData = login.Name(), data
	return writeCommand(a.conn, command{Type: "AUTH_RESPONSE", AuthResponse: r})
}

func (a *asker) request() uint64 {
	a.last++
	return a.last
}

// partitions returns the number of partitions of a topic, 0 where it is not
// partitioned, which may mean that it does not exist.
func (a *asker) partitions(ctx context.Context, topic string) (int, error) {
	reply, err := a.talk(ctx, command{Type: "PARTITIONED_METADATA", PartitionMetadata: &topicQuestion{Topic: topic, RequestID: a.request()}})
	if err != nil {
		return 0, err
	}
	is := reply.PartitionMetadataIs
	switch {
	case is == nil:
		return 0, &notPulsar{}
	case is.Response == "Failed" || is.Error != "":
		return 0, &answer{Code: cmp.Or(is.Error, "UnknownError"), Message: is.Message}
	}
	return is.Partitions, nil
}

// listed returns the names of the persistent topics of a namespace (tenant/name),
// each partition by its own, sorted; not nil where there are none.
func (a *asker) listed(ctx context.Context, namespace string) ([]string, error) {
	reply, err := a.talk(ctx, command{Type: "GET_TOPICS_OF_NAMESPACE", TopicsOfNamespace: &namespaceQuestion{a.request(), namespace, "PERSISTENT"}})
	if err != nil {
		return nil, err
	}
	if reply.TopicsOfNamespaceAre == nil {
		return nil, &notPulsar{}
	}
	topics := append([]string{}, reply.TopicsOfNamespaceAre.Topics...)
	slices.Sort(topics)
	return topics, nil
}

// owner returns the asker of the broker that has a topic.
func (a *asker) owner(ctx context.Context, topic string) (*asker, error) {
	at, authoritative := a, false
	for range maxRedirects {
		reply, err := at.talk(ctx, command{Type: "LOOKUP", LookupTopic: &lookupQuestion{
			Topic: topic, RequestID: at.request(), Authoritative: authoritative, Listener: a.cfg.Client.listener,
		}})
		if err != nil {
			return nil, err
		}
		is := reply.LookupTopicIs
		switch {
		case is == nil:
			return nil, &notPulsar{}
		case is.Response == "Failed" || is.Error != "":
			return nil, &answer{Code: cmp.Or(is.Error, "UnknownError"), Message: is.Message}
		}
		if at, err = at.follow(ctx, is); err != nil || is.Response == "Connect" {
			return at, err
		}
		authoritative = is.Authoritative
	}
	return nil, &answer{Code: "ServiceNotReady", Message: "the brokers send the lookup of the topic to each other"}
}

// follow goes to the broker that a lookup names.
func (a *asker) follow(ctx context.Context, is *lookupAnswer) (*asker, error) {
	text := is.URL
	if withTLS(a.cfg.ServiceURL) {
		text = is.URLTLS
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, &answer{Code: "ServiceNotReady", Message: "the lookup of the topic names no address of a broker"}
	}
	if peer := a.peers[u.Host]; peer != nil {
		return peer, nil
	}
	physical := u.Host
	if is.ThroughProxy {
		physical = a.conn.RemoteAddr().String()
	}
	return a.cfg.askAt(ctx, a.links, a.peers, u.Host, physical)
}

// readable tells, by no error, that a topic or a partition may be consumed: it makes a
// subscription that ends with the connection, of a name that begins like the
// stream's, for brokers that allow names by how they begin.
func (a *asker) readable(ctx context.Context, topic string) error {
	at, err := a.owner(ctx, topic)
	if err != nil {
		return err
	}
	_, err = at.subscribe(ctx, subscribeCommand{Topic: topic, Subscription: a.cfg.Subscription + "-graphmill-probe"})
	if told := (*answer)(nil); errors.As(err, &told) && a.links.answer("", told).Code == codeBusy { // somebody else looks
		return nil
	}
	return err
}

// subscribe makes an Exclusive consumer, which gets no messages, as it asks for none,
// and returns its number. The topic is not made where it is absent, unless that is
// asked for. What is not durable ends with the connection.
func (a *asker) subscribe(ctx context.Context, c subscribeCommand) (consumer uint64, err error) {
	id := a.request()
	c.SubType, c.ConsumerID, c.RequestID = "Exclusive", id, id
	_, err = a.talk(ctx, command{Type: "SUBSCRIBE", Subscribe: &c})
	return id, err
}

// missing tells why a topic is absent: its namespace may be. A lookup makes none.
func (a *asker) missing(ctx context.Context, topic string, absent error) error {
	if _, err := a.owner(ctx, topic); err != nil {
		if told := (*answer)(nil); errors.As(err, &told) && told.Code == "TopicNotFound" {
			return told
		}
	}
	return absent
}

// matching lists the topics that there are now of a pattern, without the numbers of
// their partitions, sorted. Errors are faults of links.
func (a *asker) matching(ctx context.Context, pattern string) ([]string, error) {
	namespace, name, err := graphmill.SplitTopicsPattern(pattern)
	if err != nil {
		return nil, err
	}
	listed, err := a.listed(ctx, namespace)
	if err != nil {
		return nil, a.links.fault("list the topics of "+namespace, err)
	}
	var topics []string
	for _, full := range listed {
		topic := partitionOf(full).Topic
		if own := topic[strings.LastIndex(topic, "/")+1:]; name.MatchString(own) && !strings.HasPrefix(own, "__") {
			topics = append(topics, topic)
		}
	}
	return slices.Compact(topics), nil
}
