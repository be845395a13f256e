package pulsar

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

const (
	standingAsked = 3 * time.Second // for an answer of the admin interface
	maxStats      = 16 << 20        // bytes of a topic's statistics
)

// activeConsumer asks the admin interface for the name of the consumer that a
// partition belongs to.
func (s *Source) activeConsumer(ctx context.Context, tp graphmill.TopicPartition) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, standingAsked)
	defer cancel()
	url := strings.TrimSuffix(s.cfg.AdminURL, "/") + "/admin/v2/" + strings.Replace(partitionName(tp), "://", "/", 1) + "/stats"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if err := s.cfg.Client.security.header(req); err != nil {
		return "", err
	}
	resp, err := s.web.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the admin interface answers %s", resp.Status)
	}
	var stats struct {
		Subscriptions map[string]struct {
			Active string `json:"activeConsumerName"`
		} `json:"subscriptions"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStats)).Decode(&stats); err != nil {
		return "", fmt.Errorf("read the statistics of %s: %w", tp, err)
	}
	return stats.Subscriptions[s.cfg.Subscription].Active, nil
}
