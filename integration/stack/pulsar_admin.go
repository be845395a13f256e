package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The admin REST interface, as far as tests need it. A topic may be named in
// each way that clients know: orders, tenant/namespace/orders,
// persistent://tenant/namespace/orders. With PulsarConfig.Token the superuser
// asks.

// AdminError is an answer of the admin interface that is no success.
type AdminError struct {
	Request string // "PUT /admin/v2/..."
	Status  int    // of HTTP: 404 absent, 409 there already, 401 no login or no right
	Reason  string // in the broker's words
}

// Error says what was asked and why it was refused.
func (e *AdminError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.Request, e.Status, http.StatusText(e.Status), e.Reason)
}

// Admin sends a request to the admin interface: one that has no method here. The
// path begins with /admin/; body is sent as JSON unless it is nil; the answer is
// decoded from JSON unless answer is nil. A refusal is an *AdminError.
func (p *Pulsar) Admin(ctx context.Context, method, path string, body, answer any) error {
	request := method + " " + path
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %w", request, err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.AdminURL()+path, content)
	if err != nil {
		return fmt.Errorf("%s: %w", request, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if p.token {
		req.Header.Set("Authorization", "Bearer "+p.Token(PulsarSuperuser))
	}
	req.Close = true // no idle connection that outlives the test
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", request, err)
	}
	if resp.StatusCode/100 != 2 {
		return &AdminError{Request: request, Status: resp.StatusCode, Reason: refusal(b)}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("%s: read the answer: %w", request, err)
	}
	return nil
}

// refusal takes the reason out of an answer like {"reason":"Topic not found"}.
func refusal(answer []byte) string {
	var r struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(answer, &r) == nil && r.Reason != "" {
		return r.Reason
	}
	return strings.TrimSpace(string(answer))
}

// TopicPath returns the path of a topic in the admin interface, for Admin:
// /admin/v2/persistent/public/default/orders.
func TopicPath(topic string) string {
	domain, name, qualified := strings.Cut(topic, "://")
	if !qualified {
		domain, name = "persistent", topic
	}
	if !strings.Contains(name, "/") {
		name = "public/default/" + name
	}
	parts := strings.SplitN(name, "/", 3) // a topic's own name may hold slashes
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/admin/v2/" + domain + "/" + strings.Join(parts, "/")
}

// CreateTopic makes a topic with so many partitions, or with 0 one that is not
// partitioned. One that is there already is an *AdminError with the status 409.
func (p *Pulsar) CreateTopic(ctx context.Context, topic string, partitions int) error {
	if partitions == 0 {
		return p.Admin(ctx, http.MethodPut, TopicPath(topic), nil, nil)
	}
	return p.Admin(ctx, http.MethodPut, TopicPath(topic)+"/partitions", partitions, nil)
}

// ExpandTopic raises the number of partitions of a partitioned topic.
func (p *Pulsar) ExpandTopic(ctx context.Context, topic string, partitions int) error {
	return p.Admin(ctx, http.MethodPost, TopicPath(topic)+"/partitions", partitions, nil)
}

// Partitions returns the number of partitions of a topic, 0 if it is not
// partitioned.
func (p *Pulsar) Partitions(ctx context.Context, topic string) (int, error) {
	var metadata struct {
		Partitions int `json:"partitions"`
	}
	err := p.Admin(ctx, http.MethodGet, TopicPath(topic)+"/partitions", nil, &metadata)
	return metadata.Partitions, err
}

// DeleteTopic deletes a topic, partitioned or not, with its subscriptions. Who is
// connected to it is cut off.
func (p *Pulsar) DeleteTopic(ctx context.Context, topic string) error {
	partitions, err := p.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	path := TopicPath(topic)
	if partitions > 0 {
		path += "/partitions"
	}
	return p.Admin(ctx, http.MethodDelete, path+"?force=true", nil, nil)
}

// CreateNamespace makes the namespace tenant/name, and the tenant if that is
// absent.
func (p *Pulsar) CreateNamespace(ctx context.Context, namespace string) error {
	tenant, _, ok := strings.Cut(namespace, "/")
	if !ok {
		return fmt.Errorf("create the namespace %q: it has to be tenant/name", namespace)
	}
	err := p.Admin(ctx, http.MethodPut, "/admin/v2/tenants/"+url.PathEscape(tenant), struct {
		Clusters []string `json:"allowedClusters"`
	}{[]string{"standalone"}}, nil)
	var refused *AdminError
	if err != nil && !(errors.As(err, &refused) && refused.Status == http.StatusConflict) {
		return err
	}
	return p.Admin(ctx, http.MethodPut, "/admin/v2/namespaces/"+namespace, nil, nil)
}

// Grant gives a role rights in a namespace: produce, consume. They replace those
// that the role has there; none takes all away.
func (p *Pulsar) Grant(ctx context.Context, namespace, role string, actions ...string) error {
	path := "/admin/v2/namespaces/" + namespace + "/permissions/" + url.PathEscape(role)
	if len(actions) == 0 {
		return p.Admin(ctx, http.MethodDelete, path, nil, nil)
	}
	return p.Admin(ctx, http.MethodPost, path, actions, nil)
}

// TopicStats is what a broker tells of a topic.
type TopicStats struct {
	MessagesIn    int64                        `json:"msgInCounter"` // since the broker has loaded the topic
	Subscriptions map[string]SubscriptionStats `json:"subscriptions"`
	Partitions    map[string]TopicStats        `json:"partitions"` // by full name; of a partitioned topic
}

// SubscriptionStats is what a broker tells of a subscription.
type SubscriptionStats struct {
	Type      string          `json:"type"`       // Exclusive, Failover, Shared, Key_Shared; empty or None where nobody was connected yet
	Backlog   int64           `json:"msgBacklog"` // entries that are not acknowledged: a batch of a producer is one
	Unacked   int64           `json:"unackedMessages"`
	Consumers []ConsumerStats `json:"consumers"` // connected now
	Active    string          `json:"activeConsumerName"`
}

// ConsumerStats is what a broker tells of a connected consumer.
type ConsumerStats struct {
	Name string `json:"consumerName"`
}

// Stats asks for the counts of a topic. Those of a partitioned topic are sums,
// with each partition's own in Partitions. The backlog is counted, not estimated.
func (p *Pulsar) Stats(ctx context.Context, topic string) (TopicStats, error) {
	var stats TopicStats
	partitions, err := p.Partitions(ctx, topic)
	if err != nil {
		return stats, err
	}
	path := TopicPath(topic) + "/stats?"
	if partitions > 0 {
		path = TopicPath(topic) + "/partitioned-stats?perPartition=true&"
	}
	err = p.Admin(ctx, http.MethodGet, path+"getPreciseBacklog=true", nil, &stats)
	return stats, err
}

// Subscriptions returns the names of a topic's subscriptions, sorted.
func (p *Pulsar) Subscriptions(ctx context.Context, topic string) ([]string, error) {
	var names []string
	err := p.Admin(ctx, http.MethodGet, TopicPath(topic)+"/subscriptions", nil, &names)
	slices.Sort(names)
	return names, err
}
