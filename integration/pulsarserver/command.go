package pulsarserver

// handler is how a command is carried out, with the server locked. field is where
// in BaseCommand the rest of the command stands.
type handler struct {
	field string
	do    func(c *conn, body message, rest []byte)
}

// handlers returns those of commands on a connection that has been accepted.
func handlers() map[string]handler {
	return map[string]handler{
		"PING":                              {"ping", (*conn).ping},
		"PONG":                              {"pong", (*conn).pong},
		"PARTITIONED_METADATA":              {"partitionMetadata", (*conn).partitionedMetadata},
		"LOOKUP":                            {"lookupTopic", (*conn).lookup},
		"GET_TOPICS_OF_NAMESPACE":           {"getTopicsOfNamespace", (*conn).topicsOfNamespace},
		"GET_SCHEMA":                        {"getSchema", (*conn).getSchema},
		"PRODUCER":                          {"producer", (*conn).produce},
		"SEND":                              {"send", (*conn).receive},
		"CLOSE_PRODUCER":                    {"close_producer", (*conn).closeProducer},
		"SUBSCRIBE":                         {"subscribe", (*conn).subscribe},
		"FLOW":                              {"flow", (*conn).flow},
		"ACK":                               {"ack", (*conn).acknowledge},
		"REDELIVER_UNACKNOWLEDGED_MESSAGES": {"redeliverUnacknowledgedMessages", (*conn).redeliver},
		"SEEK":                              {"seek", (*conn).seek},
		"GET_LAST_MESSAGE_ID":               {"getLastMessageId", (*conn).lastMessageID},
		"UNSUBSCRIBE":                       {"unsubscribe", (*conn).unsubscribe},
		"CLOSE_CONSUMER":                    {"close_consumer", (*conn).closeConsumer},
	}
}

// unsupported are commands with a request id whose answer is always an error.
var unsupported = map[string]string{
	"CONSUMER_STATS":            "consumerStats",
	"GET_OR_CREATE_SCHEMA":      "getOrCreateSchema",
	"NEW_TXN":                   "newTxn",
	"ADD_PARTITION_TO_TXN":      "addPartitionToTxn",
	"ADD_SUBSCRIPTION_TO_TXN":   "addSubscriptionToTxn",
	"END_TXN":                   "endTxn",
	"TC_CLIENT_CONNECT_REQUEST": "tcClientConnectRequest",
	"WATCH_TOPIC_LIST":          "watchTopicList",
	"WATCH_TOPIC_LIST_CLOSE":    "watchTopicListClose",
}

// brokersOwn is the request id of commands that the broker sends unasked: -1.
const brokersOwn = ^uint64(0)

// handle carries out one command. The connection ends where goOn is false, and
// where tell is true not before what has been sent has been written.
func (c *conn) handle(m message, rest []byte) (goOn, tell bool) {
	typ := m.enum("type")
	if typ == "CONNECT" && !c.connected {
		return c.connect(m.get("connect"))
	}
	h, known := c.s.handlers[typ]
	if !known {
		h.field, known = unsupported[typ]
		h.do = (*conn).refuseUnsupported
	}
	if !c.connected || !known {
		return false, false // as the broker ends it
	}
	body := m.get(h.field)
	cmd := c.describe(typ, body)
	reply := c.s.ask(c, cmd)
	switch {
	case reply.Cut == CutBefore:
		return false, false
	case reply.Ignore:
		return true, false
	case reply.Failure != nil:
		c.refuse(typ, body, reply.Failure.Code, reply.Failure.Message)
		return true, false
	}
	c.mute = reply.NoAnswer || reply.Cut == CutAfter
	c.s.mu.Lock()
	h.do(c, body, rest)
	if reply.DropConsumers {
		for id, cons := range c.consumers {
			cons.sub.detach(cons)
			delete(c.consumers, id)
		}
	}
	c.s.mu.Unlock()
	c.mute = false
	return reply.Cut != CutAfter, false
}

// ask asks the hook, and waits where it says so.
func (s *Server) ask(c *conn, cmd Command) Reply {
	hook := s.hooks.Load().OnCommand
	if hook == nil {
		return Reply{}
	}
	reply := hook(cmd)
	if reply.Wait != nil {
		select {
		case <-reply.Wait:
		case <-c.gone:
			return Reply{Cut: CutBefore}
		}
	}
	return reply
}

// describe tells a hook of a command.
func (c *conn) describe(typ string, body message) Command {
	cmd := Command{Type: typ, Connection: c.id, Role: c.role}
	if body.look("topic") != nil {
		cmd.Topic, _ = fullName(body.text("topic"))
	}
	switch typ {
	case "SUBSCRIBE":
		cmd.Subscription, cmd.Consumer = body.text("subscription"), body.text("consumer_name")
	case "ACK":
		cmd.IDs, cmd.Partial = ids(body.list("message_id"))
		cmd.Cumulative = body.enum("ack_type") == "Cumulative"
	case "REDELIVER_UNACKNOWLEDGED_MESSAGES":
		cmd.IDs, _ = ids(body.list("message_ids"))
	case "SEEK":
		if body.has("message_id") {
			cmd.IDs = []MessageID{body.get("message_id").messageID()}
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if body.look("consumer_id") != nil {
		if cons := c.consumers[body.uint("consumer_id")]; cons != nil {
			cmd.Topic, cmd.Subscription, cmd.Consumer = cons.sub.topic.name, cons.sub.name, cons.name
		}
	}
	if body.look("producer_id") != nil {
		if p := c.producers[body.uint("producer_id")]; p != nil {
			cmd.Topic = p.topic.name
		}
	}
	return cmd
}

func ids(list []message) (out []MessageID, partial bool) {
	for _, m := range list {
		out = append(out, m.messageID())
		partial = m.length("ack_set") > 0
	}
	return out, partial
}

// refuse answers a command by an error, in the form that it has for that.
func (c *conn) refuse(typ string, body message, code, text string) {
	switch typ {
	case "PARTITIONED_METADATA":
		m, out := newCommand("PARTITIONED_METADATA_RESPONSE", "partitionMetadataResponse")
		out.setUint("request_id", body.uint("request_id")).setInt("response", lookupFailed[typ])
		out.setInt("error", errorCode(code)).setText("message", text)
		c.answer(m)
	case "LOOKUP":
		m, out := newCommand("LOOKUP_RESPONSE", "lookupTopicResponse")
		out.setUint("request_id", body.uint("request_id")).setInt("response", lookupFailed[typ])
		out.setInt("error", errorCode(code)).setText("message", text)
		c.answer(m)
	case "SEND":
		m, out := newCommand("SEND_ERROR", "send_error")
		out.setUint("producer_id", body.uint("producer_id")).setUint("sequence_id", body.uint("sequence_id"))
		out.setInt("error", errorCode(code)).setText("message", text)
		c.answer(m)
	case "ACK":
		c.answerAck(body, code, text)
	case "GET_SCHEMA":
		m, out := newCommand("GET_SCHEMA_RESPONSE", "getSchemaResponse")
		out.setUint("request_id", body.uint("request_id"))
		out.setInt("error_code", errorCode(code)).setText("error_message", text)
		c.answer(m)
	default:
		if body.look("request_id") == nil {
			return // nobody waits for an answer
		}
		m, out := newCommand("ERROR", "error")
		out.setUint("request_id", body.uint("request_id"))
		out.setInt("error", errorCode(code)).setText("message", text)
		c.answer(m)
	}
}

// lookupFailed are the numbers of Failed in the answers to the two commands.
var lookupFailed = map[string]int64{"PARTITIONED_METADATA": 1, "LOOKUP": 2}

func (c *conn) refuseUnsupported(body message, _ []byte) {
	c.refuse("", body, "NotAllowedError", "this test broker does not do that")
}

// succeed answers a command that has no answer of its own.
func (c *conn) succeed(body message) {
	m, out := newCommand("SUCCESS", "success")
	out.setUint("request_id", body.uint("request_id"))
	c.answer(m)
}

func (c *conn) ping(message, []byte) {
	m, _ := newCommand("PONG", "pong")
	c.answer(m)
}

func (c *conn) pong(message, []byte) {}
