package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// convert makes what is handed over of one partition out of its records, which
// are not empty. Payloads, keys and header values stay where they are, in the
// client's decompressed batch. Control records move the position only.
func convert(tp graphmill.TopicPartition, topicID string, records []*kgo.Record) graphmill.Fetch {
	messages, headers := 0, 0
	for _, r := range records {
		if !r.Attrs.IsControl() {
			messages++
			headers += len(r.Headers)
		}
	}
	f := graphmill.Fetch{
		Next: graphmill.Position{
			TopicPartition: tp,
			TopicID:        topicID,
			Offset:         records[len(records)-1].Offset + 1,
		},
	}
	if messages == 0 {
		return f
	}
	f.Messages = make([]graphmill.Message, 0, messages)
	slab := make([]graphmill.Header, 0, headers) // all headers of the fetch
	for _, r := range records {
		if r.Attrs.IsControl() {
			continue
		}
		m := graphmill.Message{
			Topic:      tp.Topic,
			Partition:  tp.Partition,
			Offset:     r.Offset,
			Payload:    r.Value,
			Key:        r.Key,
			Timestamp:  r.Timestamp.UnixMilli(),
			BrokerTime: -1,
		}
		if r.Attrs.TimestampType() == timestampByBroker {
			m.BrokerTime = m.Timestamp
		}
		if len(r.Headers) > 0 {
			from := len(slab)
			for _, h := range r.Headers {
				slab = append(slab, graphmill.Header{Key: h.Key, Value: h.Value})
			}
			m.Headers = slab[from:len(slab):len(slab)]
		}
		f.Messages = append(f.Messages, m)
	}
	return f
}

// timestampByBroker is the type of a record's timestamp where the topic keeps
// the time of appending (message.timestamp.type=LogAppendTime).
const timestampByBroker = 1
