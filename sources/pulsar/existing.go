package pulsar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// existing returns the partitions of all topics that the stream reads, sorted. It
// asks in ways that make no topic: a broker may make those that somebody subscribes
// to. A topic that is absent is a fault, as is a pattern that nothing matches.
func (c *Config) existing(ctx context.Context, links *links) ([]graphmill.TopicPartition, error) {
	a, err := c.ask(ctx, links)
	if err != nil {
		return nil, err
	}
	defer a.close()
	topics := c.Topics
	if c.Pattern != "" {
		if topics, err = a.matching(ctx, c.Pattern); err != nil {
			return nil, err
		}
		if len(topics) == 0 {
			return nil, waits(codeTopicAbsent, fmt.Sprintf("no topic matches %s", c.Pattern), "create a topic that it matches, or correct it", nil)
		}
	}
	var tps []graphmill.TopicPartition
	var absent []string
	listed := map[string][]string{} // names, by namespace
	for _, topic := range topics {
		n, err := a.partitions(ctx, topic)
		if told := (*answer)(nil); errors.As(err, &told) && told.Code == "TopicNotFound" {
			err = a.missing(ctx, topic, told)
		}
		if err != nil {
			f := links.fault("look for topic "+topic, err)
			if f.Code != codeTopicAbsent {
				return nil, f
			}
			absent = append(absent, topic)
			continue
		}
		for p := range n {
			tps = append(tps, graphmill.TopicPartition{Topic: topic, Partition: int32(p)})
		}
		if n > 0 {
			continue
		}
		namespace := namespaceOf(topic)
		names, asked := listed[namespace]
		if !asked {
			if names, err = a.listed(ctx, namespace); err != nil && !isForbidden(links.fault("list the topics of "+namespace, err)) {
				return nil, links.fault("list the topics of "+namespace, err)
			} else if err != nil { // it may be that the topic alone is allowed
				names = nil
			}
			listed[namespace] = names
		}
		if names != nil && !slices.Contains(names, topic) {
			absent = append(absent, topic)
			continue
		}
		tps = append(tps, graphmill.TopicPartition{Topic: topic, Partition: -1})
	}
	if len(absent) > 0 {
		is := "topic " + absent[0] + " does not exist"
		if len(absent) > 1 {
			is = "topics " + strings.Join(absent, ", ") + " do not exist"
		}
		return nil, waits(codeTopicAbsent, is, "create it, or correct the name", nil)
	}
	sortPartitions(tps)
	return tps, nil
}

// namespaceOf is tenant/namespace of a topic's full name.
func namespaceOf(topic string) string {
	_, rest, _ := strings.Cut(topic, "://")
	if i := strings.Index(rest, "/"); i >= 0 {
		if j := strings.Index(rest[i+1:], "/"); j >= 0 {
			return rest[:i+1+j]
		}
	}
	return rest
}

func isForbidden(err error) bool {
	var f *graphmill.Fault
	return errors.As(err, &f) && f.Code == codeForbidden
}
