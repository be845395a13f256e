package pulsarserver

import (
	"sort"
	"strings"
)

// protocolVersion is that of Pulsar 4.0, serverVersion what the server calls
// itself.
const (
	protocolVersion = 21
	serverVersion   = "Pulsar Server pulsarserver"
)

// connect lets a client in. A refused one is told why before the connection ends.
func (c *conn) connect(body message) (goOn, tell bool) {
	role, ok := c.s.authenticate(body)
	reply := c.s.ask(c, Command{Type: "CONNECT", Connection: c.id, Role: role})
	switch {
	case reply.Cut == CutBefore:
		return false, false
	case reply.Ignore:
		return true, false
	}
	failure := reply.Failure
	if failure == nil && !ok {
		failure = &Failure{"AuthenticationError", "Failed to authenticate"}
	}
	if failure != nil {
		m, out := newCommand("ERROR", "error")
		out.setUint("request_id", brokersOwn).setInt("error", errorCode(failure.Code)).setText("message", failure.Message)
		c.send(m)
		return false, true
	}
	c.role, c.connected = role, true
	if reply.Cut == CutAfter {
		return false, false
	}
	if reply.NoAnswer {
		return true, false
	}
	m, out := newCommand("CONNECTED", "connected")
	out.setText("server_version", serverVersion)
	out.setInt("protocol_version", min(protocolVersion, max(body.int("protocol_version"), 0)))
	out.setInt("max_message_size", int64(c.s.opts.MaxMessageSize))
	c.send(m)
	return true, false
}

// authenticate returns the role of the token that a CONNECT brings.
func (s *Server) authenticate(body message) (role string, ok bool) {
	if body.text("auth_method_name") != "token" {
		return s.roleOf("")
	}
	return s.roleOf(string(body.bytes("auth_data")))
}

// may asks for an action on a topic, and refuses the command where it is not
// allowed.
func (c *conn) may(typ string, body message, topic string, actions ...Action) bool {
	if c.s.authorized(c.role, topic, actions...) {
		return true
	}
	c.refuse(typ, body, "AuthorizationError", "Client is not authorized to "+unauthorized[typ])
	return false
}

// unauthorized is how the broker names what a client may not do.
var unauthorized = map[string]string{
	"PARTITIONED_METADATA":    "Get Partition Metadata",
	"LOOKUP":                  "Lookup",
	"GET_TOPICS_OF_NAMESPACE": "GetTopicsOfNamespace",
	"PRODUCER":                "Produce",
	"SUBSCRIBE":               "subscribe",
}

// name returns the full name in a command's field "topic", or refuses it.
func (c *conn) name(typ string, body message) (string, bool) {
	name, err := fullName(body.text("topic"))
	if err != nil {
		c.refuse(typ, body, "InvalidTopicName", err.Error())
		return "", false
	}
	return name, true
}

func (c *conn) partitionedMetadata(body message, _ []byte) {
	const typ = "PARTITIONED_METADATA"
	name, ok := c.name(typ, body)
	if !ok || !c.may(typ, body, name, Produce, Consume) {
		return
	}
	n, failure := c.s.resolve(name)
	if failure != nil {
		c.refuse(typ, body, failure.Code, failure.Message)
		return
	}
	m, out := newCommand("PARTITIONED_METADATA_RESPONSE", "partitionMetadataResponse")
	out.setUint("request_id", body.uint("request_id")).setUint("partitions", uint64(n)).setInt("response", 0)
	c.answer(m)
}

func (c *conn) lookup(body message, _ []byte) {
	const typ, found = "LOOKUP", 1
	name, ok := c.name(typ, body)
	if !ok || !c.may(typ, body, name, Produce, Consume) {
		return
	}
	if !c.s.namespaces[namespaceOf(name)] {
		c.refuse(typ, body, "TopicNotFound", "Namespace not found")
		return
	}
	m, out := newCommand("LOOKUP_RESPONSE", "lookupTopicResponse")
	out.setUint("request_id", body.uint("request_id")).setInt("response", found).setBool("authoritative", true)
	out.setBool("proxy_through_service_url", true) // as a broker that is alone
	if c.s.opts.TLS != nil {
		out.setText("brokerServiceUrlTls", c.s.url())
	} else {
		out.setText("brokerServiceUrl", c.s.url())
	}
	c.answer(m)
}

func (c *conn) topicsOfNamespace(body message, _ []byte) {
	const typ = "GET_TOPICS_OF_NAMESPACE"
	namespace := body.text("namespace")
	if !c.may(typ, body, scheme+strings.Trim(namespace, "/")+"/", Consume) {
		return
	}
	m, out := newCommand("GET_TOPICS_OF_NAMESPACE_RESPONSE", "getTopicsOfNamespaceResponse")
	out.setUint("request_id", body.uint("request_id")).setBool("filtered", false)
	if body.enum("mode") != "NON_PERSISTENT" {
		for _, name := range c.s.topicsIn(namespace) {
			out.addText("topics", name)
		}
	}
	c.answer(m)
}

// topicsIn returns the names of all topics of a namespace, partitions one by one.
func (s *Server) topicsIn(namespace string) []string {
	names := []string{}
	for name := range s.topics {
		if namespaceOf(name) == namespace {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

func (c *conn) getSchema(body message, _ []byte) {
	c.refuse("GET_SCHEMA", body, "TopicNotFound", "Topic not found or no-schema")
}
