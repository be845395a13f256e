package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/graphmill/graphmill/integration/stack"
)

// broker is where the messages go: a real Kafka, or the one that is embedded in
// "graphmill dev".
type broker struct {
	address  string
	embedded bool
}

// startBroker starts a Kafka where Java and Maven are there. Else the broker is
// started with the server.
func (d *demo) startBroker(ctx context.Context) error {
	why := stack.Check(ctx)
	if why == nil {
		var k *stack.Kafka
		if k, why = stack.StartKafka(ctx, stack.KafkaConfig{Dir: filepath.Join(d.dir, "kafka"), Log: d.out}); why == nil {
			d.onEnd(k.Close)
			d.broker = broker{address: k.Brokers()[0]}
			d.say("  a real Kafka, from Maven artifacts, at %s", d.broker.address)
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	port, err := freePort(9092)
	if err != nil {
		return err
	}
	d.broker = broker{address: fmt.Sprintf("127.0.0.1:%d", port), embedded: true}
	d.say("  the broker embedded in graphmill, at %s, since Kafka cannot be started: %v", d.broker.address, why)
	return nil
}
