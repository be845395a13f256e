package pulsarserver

import "math"

func (c *conn) subscribe(body message, _ []byte) {
	const typ = "SUBSCRIBE"
	name, ok := c.name(typ, body)
	if !ok || !c.may(typ, body, name, Consume) {
		return
	}
	id := body.uint("consumer_id")
	if c.consumers[id] != nil { // asked for twice
		c.succeed(body)
		return
	}
	t, failure := c.s.topicFor(name, body.bool("force_topic_creation"))
	if failure == nil {
		failure = t.admit(body)
	}
	if failure != nil {
		c.refuse(typ, body, failure.Code, failure.Message)
		return
	}
	sub := t.subs[body.text("subscription")]
	if sub == nil {
		sub = newSubscription(t, body.text("subscription"), body.bool("durable"), t.start(body))
		t.subs[sub.name] = sub
	}
	sub.kind = body.enum("subType")
	cons := &consumer{id: id, name: body.text("consumer_name"), priority: body.int("priority_level"), conn: c, sub: sub}
	c.consumers[id] = cons
	sub.attach(cons)
	c.succeed(body)
}

// admit says why a consumer may not attach to the subscription that it asks for.
func (t *topic) admit(body message) *Failure {
	kind := body.enum("subType")
	switch {
	case kind != Exclusive && kind != Failover:
		return &Failure{"NotAllowedError", "this test broker has Exclusive and Failover subscriptions only"}
	case body.text("subscription") == "":
		return &Failure{"ProducerBusy", "Empty subscription name"} // that is what it says
	}
	sub := t.subs[body.text("subscription")]
	switch {
	case sub == nil:
	case sub.durable && !body.bool("durable"):
		return &Failure{"NotAllowedError", "Durable subscription with the same name already exists."}
	case !sub.durable && body.bool("durable"):
		return &Failure{"NotAllowedError", "NonDurable subscription with the same name already exists."}
	case len(sub.consumers) == 0:
	case sub.kind != kind:
		return &Failure{"ConsumerBusy", "Subscription is of different type"}
	case kind == Exclusive:
		return &Failure{"ConsumerBusy", "Exclusive consumer is already connected"}
	}
	return nil
}

// start returns the index of the entry that a new subscription begins with. That
// of the id that a reader names is sent too: it may be a batch that the reader has
// had in part, and the client drops what it has had.
func (t *topic) start(body message) int {
	if !body.bool("durable") && body.has("start_message_id") {
		return t.at(body.get("start_message_id").messageID())
	}
	if body.enum("initialPosition") == "Earliest" {
		return 0
	}
	return len(t.entries)
}

func (c *conn) flow(body message, _ []byte) {
	cons := c.consumers[body.uint("consumer_id")]
	if cons == nil {
		return
	}
	if body.uint("messagePermits") == 0 {
		c.cut()
		return
	}
	cons.permits = min(cons.permits+int64(body.uint("messagePermits")), math.MaxInt32)
	cons.sub.dispatch()
}

// redeliver sends everything again that is not acknowledged, whatever ids are
// named, since those of Exclusive and Failover subscriptions stay in order.
func (c *conn) redeliver(body message, _ []byte) {
	if cons := c.consumers[body.uint("consumer_id")]; cons != nil && cons.sub.active == cons {
		cons.sub.rewind()
	}
}

// consumer returns the consumer that a command speaks of, or refuses it.
func (c *conn) consumer(body message) *consumer {
	cons := c.consumers[body.uint("consumer_id")]
	if cons == nil {
		c.refuse("", body, "MetadataError", "Consumer not found")
	}
	return cons
}

// seek closes the active consumer, which need not be the one that asks, moves the
// subscription, and then answers.
func (c *conn) seek(body message, _ []byte) {
	cons := c.consumer(body)
	if cons == nil {
		return
	}
	t := cons.sub.topic
	switch {
	case body.has("message_id"):
		cons.sub.reset(t.at(body.get("message_id").messageID()))
	case body.has("message_publish_time"):
		cons.sub.reset(t.since(body.uint("message_publish_time")))
	default:
		c.refuse("", body, "MetadataError", "Message id and message publish time were not present")
		return
	}
	c.succeed(body)
}

func (c *conn) lastMessageID(body message, _ []byte) {
	cons := c.consumer(body)
	if cons == nil {
		return
	}
	t := cons.sub.topic
	m, out := newCommand("GET_LAST_MESSAGE_ID_RESPONSE", "getLastMessageIdResponse")
	out.setUint("request_id", body.uint("request_id"))
	last := MessageID{-1, -1}
	batch := int64(-1)
	if n := len(t.entries); n > 0 {
		last = t.entries[n-1].id
		if t.entries[n-1].batched {
			batch = int64(t.entries[n-1].messages) - 1
		}
	}
	out.sub("last_message_id").setMessageID(last, t.partition).setInt("batch_index", batch)
	out.sub("consumer_mark_delete_position").setMessageID(t.before(cons.sub.mark), t.partition)
	c.answer(m)
}

// unsubscribe ends a subscription whose only consumer asks for it.
func (c *conn) unsubscribe(body message, _ []byte) {
	cons := c.consumer(body)
	if cons == nil {
		return
	}
	sub := cons.sub
	if len(sub.consumers) > 1 {
		c.refuse("", body, "MetadataError", "Unconnected or shared consumer attempting to unsubscribe")
		return
	}
	delete(c.consumers, cons.id)
	sub.detach(cons)
	delete(sub.topic.subs, sub.name)
	c.succeed(body)
}

func (c *conn) closeConsumer(body message, _ []byte) {
	id := body.uint("consumer_id")
	if cons := c.consumers[id]; cons != nil {
		delete(c.consumers, id)
		cons.sub.detach(cons)
	}
	c.succeed(body)
}
