package pulsarserver

// Ack is an acknowledgement that has come and that no hook has refused.
type Ack struct {
	Topic, Subscription, Consumer string
	IDs                           []MessageID // entries; of a cumulative one the last
	Cumulative                    bool

	// Partial says that the client has some messages of the entry only. Such an
	// entry is not acknowledged; a cumulative one acknowledges those before it.
	Partial bool
}

func (c *conn) acknowledge(body message, _ []byte) {
	cons := c.consumers[body.uint("consumer_id")]
	if cons == nil {
		return
	}
	sub, t := cons.sub, cons.sub.topic
	list := body.list("message_id")
	record := Ack{Topic: t.name, Subscription: sub.name, Consumer: cons.name, Cumulative: body.enum("ack_type") == "Cumulative"}
	record.IDs, record.Partial = ids(list)
	switch {
	case !record.Cumulative:
		for i, m := range list {
			at := t.at(record.IDs[i])
			if m.length("ack_set") == 0 && at < len(t.entries) && t.entries[at].id == record.IDs[i] {
				sub.ack(at)
			}
		}
	case len(list) != 1, record.IDs[0].Compare(t.last()) > 0: // which the broker drops and does not call an error
	case record.Partial:
		sub.ackBefore(t.at(record.IDs[0]))
	default:
		sub.ackBefore(t.after(record.IDs[0]))
	}
	c.s.acks = append(c.s.acks, record)
	c.answerAck(body, "", "")
}

// answerAck answers an ACK that asks for it; code is empty where all is well.
func (c *conn) answerAck(body message, code, text string) {
	if !body.has("request_id") {
		return
	}
	m, out := newCommand("ACK_RESPONSE", "ackResponse")
	out.setUint("consumer_id", body.uint("consumer_id")).setUint("request_id", body.uint("request_id"))
	if code != "" {
		out.setInt("error", errorCode(code)).setText("message", text)
	}
	c.answer(m)
}
