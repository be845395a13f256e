package pulsar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// existing returns the partitions of all topics that the stream reads, sorted. A topic
// that is absent is a fault, as is a pattern that nothing matches.
func (c *Config) existing(ctx context.Context, links *links) ([]graphmill.TopicPartition, error) {
	there, absent, err := c.survey(ctx, links)
	if err != nil {
		return nil, err
	}
	if f := c.missing(there, absent); f != nil {
		return nil, f
	}
	return there, nil
}

// survey returns the partitions of the topics that the stream reads, sorted, and the
// named topics that are absent. It asks in ways that make no topic: a broker may make
// those that somebody subscribes to.
func (c *Config) survey(ctx context.Context, links *links) (there []graphmill.TopicPartition, absent []string, err error) {
	a, err := c.ask(ctx, links)
	if err != nil {
		return nil, nil, err
	}
	defer a.close()
	topics := c.Topics
	if c.Pattern != "" {
		if topics, err = a.matching(ctx, c.Pattern); err != nil {
			return nil, nil, err
		}
	}
	listed := map[string][]string{} // names, by namespace
	for _, topic := range topics {
		n, err := a.partitions(ctx, topic)
		if told := (*answer)(nil); errors.As(err, &told) && told.Code == "TopicNotFound" {
			err = a.missing(ctx, topic, told)
		}
		if err != nil {
			f := links.fault("look for topic "+topic, err)
			if f.Code != codeTopicAbsent {
				return nil, nil, f
			}
			absent = append(absent, topic)
			continue
		}
		for p := range n {
			there = append(there, graphmill.TopicPartition{Topic: topic, Partition: int32(p)})
		}
		if n > 0 {
			continue
		}
		namespace := namespaceOf(topic)
		names, asked := listed[namespace]
		if !asked {
			if names, err = a.listed(ctx, namespace); err != nil && !isForbidden(links.fault("list the topics of "+namespace, err)) {
				return nil, nil, links.fault("list the topics of "+namespace, err)
			} else if err != nil { // it may be that the topic alone is allowed
				names = nil
			}
			listed[namespace] = names
		}
		if names != nil && !slices.Contains(names, topic) {
			absent = append(absent, topic)
			continue
		}
		there = append(there, graphmill.TopicPartition{Topic: topic, Partition: -1})
	}
	sortPartitions(there)
	return there, absent, nil
}

// missing is the fault of what a survey has not found, or nil.
func (c *Config) missing(there []graphmill.TopicPartition, absent []string) *graphmill.Fault {
	switch {
	case len(absent) > 1:
		return waits(codeTopicAbsent, "topics "+strings.Join(absent, ", ")+" do not exist", "create them, or correct the names", nil)
	case len(absent) == 1:
		return waits(codeTopicAbsent, "topic "+absent[0]+" does not exist", "create it, or correct the name", nil)
	case len(there) == 0:
		return waits(codeTopicAbsent, fmt.Sprintf("no topic matches %s", c.Pattern), "create a topic that it matches, or correct it", nil)
	}
	return nil
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
