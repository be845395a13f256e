package pulsarserver

import (
	"errors"
	"fmt"
)

// producer is one producer of a connection.
type producer struct {
	id    uint64 // of the connection's choice
	name  string
	topic *topic
	conn  *conn
}

func (c *conn) produce(body message, _ []byte) {
	const typ = "PRODUCER"
	name, ok := c.name(typ, body)
	if !ok || !c.may(typ, body, name, Produce) {
		return
	}
	id := body.uint("producer_id")
	if known := c.producers[id]; known != nil { // asked for twice
		c.answerProducer(body, known)
		return
	}
	t, failure := c.s.topicFor(name, true)
	if failure != nil {
		c.refuse(typ, body, failure.Code, failure.Message)
		return
	}
	p := &producer{id: id, name: body.text("producer_name"), topic: t, conn: c}
	if p.name == "" {
		c.s.lastProducer++
		p.name = fmt.Sprintf("standalone-0-%d", c.s.lastProducer)
	}
	for other := range t.producers {
		if other.name == p.name {
			c.refuse(typ, body, "ProducerBusy", fmt.Sprintf("Producer with name '%s' is already connected to topic", p.name))
			return
		}
	}
	t.producers[p] = struct{}{}
	c.producers[id] = p
	c.answerProducer(body, p)
}

func (c *conn) answerProducer(body message, p *producer) {
	m, out := newCommand("PRODUCER_SUCCESS", "producer_success")
	out.setUint("request_id", body.uint("request_id")).setText("producer_name", p.name)
	out.setInt("last_sequence_id", -1).setBool("producer_ready", true)
	c.answer(m)
}

// receive takes what a producer sends.
func (c *conn) receive(body message, rest []byte) {
	p := c.producers[body.uint("producer_id")]
	metadata, err := readMetadata(rest)
	switch {
	case errors.Is(err, errChecksum) && p != nil:
		c.refuse("SEND", body, "ChecksumError", "Checksum failed on the broker")
		return
	case err != nil || p == nil: // maybe sent before the client learnt that the producer is closed
		c.cut()
		return
	}
	e := entry{data: rest, messages: 1, published: metadata.uint("publish_time"), batched: metadata.has("num_messages_in_batch")}
	if e.batched {
		e.messages = max(1, int(metadata.int("num_messages_in_batch")))
	}
	id := p.topic.append(e)
	m, out := newCommand("SEND_RECEIPT", "send_receipt")
	out.setUint("producer_id", p.id).setUint("sequence_id", body.uint("sequence_id"))
	out.setUint("highest_sequence_id", body.uint("highest_sequence_id"))
	out.sub("message_id").setMessageID(id, p.topic.partition)
	c.answer(m)
}

func (c *conn) closeProducer(body message, _ []byte) {
	id := body.uint("producer_id")
	if p := c.producers[id]; p != nil {
		delete(p.topic.producers, p)
		delete(c.producers, id)
	}
	c.succeed(body)
}
