package kafka

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/setting"
)

// given tells where settings were given.
type given = setting.Given[ClientSettings]

// ClientSettings are what CONFIGS and CREDENTIALS make of a client. The zero
// value is a client by default: without TLS and login.
type ClientSettings struct {
	clientID, rack string

	family                      string // of addresses: "any", "v4", "v6"
	requestTimeout, dialTimeout time.Duration
	idleTimeout                 time.Duration
	backoff, maxBackoff         time.Duration
	metadataMax                 time.Duration

	session, heartbeat, rebalance time.Duration

	reset                    string
	fetchMin, fetchMax       int32
	partitionMax, receiveMax int32
	fetchWait                time.Duration

	raw      rawSecurity
	security security
}

// ParseConfigs reads CONFIGS and CREDENTIALS, which differ in nothing but what
// is shown of them. Notifications name what has no effect here. vault may be
// nil: there is nothing then that secret:NAME and *.location could name.
//
// Errors are *graphmill.Error: of KindInvalid, with the field ("configs" or
// "credentials") and the name of the entry, never its value; or what the vault
// says.
func ParseConfigs(configs, credentials map[string]string, vault setting.Vault) (ClientSettings, []string, error) {
	if vault == nil {
		vault = setting.NoVault{}
	}
	var s ClientSettings
	given, notes, err := properties.Take(&s, configs, credentials, vault)
	if err != nil {
		return ClientSettings{}, nil, err
	}
	if err := s.agree(given); err != nil {
		return ClientSettings{}, nil, err
	}
	more, err := s.secure(given, vault)
	if err != nil {
		return ClientSettings{}, nil, err
	}
	return s, append(notes, more...), nil
}

// agree checks what entries say together, and completes it.
func (s *ClientSettings) agree(given given) error {
	if s.reset == "error" {
		e := graphmill.Invalid(given.Field(resetName), "auto.offset.reset cannot be error: a stream has to begin somewhere, and a position that is lost ends it anyway")
		e.Next = "say where to begin with START_FROM (--start-from, start_from)"
		return e
	}
	session := cmp.Or(s.session, DefaultSessionTimeout)
	if s.heartbeat >= session {
		return graphmill.Invalid(given.Field("heartbeat.interval.ms"), "heartbeat.interval.ms is not less than session.timeout.ms (%d)", session.Milliseconds())
	}
	if s.maxBackoff > 0 && s.maxBackoff < cmp.Or(s.backoff, minBackoff) {
		return graphmill.Invalid(given.Field("reconnect.backoff.max.ms"), "reconnect.backoff.max.ms is less than reconnect.backoff.ms (%d)", cmp.Or(s.backoff, minBackoff).Milliseconds())
	}
	return nil
}

// resetName is the setting that says where to begin.
const resetName = "auto.offset.reset"

// StartFrom returns what auto.offset.reset says, as START_FROM says it
// ("earliest", "latest"), or "" where it says nothing.
func StartFrom(configs, credentials map[string]string) string {
	switch strings.ToLower(configs[resetName] + credentials[resetName]) {
	case "smallest", "earliest", "beginning":
		return graphmill.StartEarliest
	case "largest", "latest", "end":
		return graphmill.StartLatest
	}
	return ""
}

// metadataAge takes the smaller of two settings that say the same.
func (s *ClientSettings) metadataAge(d time.Duration) {
	if s.metadataMax == 0 || d < s.metadataMax {
		s.metadataMax = d
	}
}

// answerOverhead is what an answer may hold beside the messages that were asked
// for.
const answerOverhead = 64 << 10

// fetchLimits bounds what may be asked of a broker, and of a partition, in
// bytes on the wire.
func (s *ClientSettings) fetchLimits() (total, partition int32) {
	total = cmp.Or(s.fetchMax, maxFetchBytes)
	if s.receiveMax > 0 {
		total = min(total, s.receiveMax-answerOverhead)
	}
	return total, min(total, cmp.Or(s.partitionMax, total))
}

// Pauses of the client before it tries again.
const (
	minBackoff  = 250 * time.Millisecond
	longBackoff = 5 * time.Second
)

// pauseAfter is the pause after so many failures in a row, with jitter.
func (s *ClientSettings) pauseAfter(failures int) time.Duration {
	first := cmp.Or(s.backoff, minBackoff)
	most := max(cmp.Or(s.maxBackoff, longBackoff), first)
	d := first << min(max(failures-1, 0), 16)
	d = time.Duration(float64(min(d, most)) * (0.8 + 0.4*rand.Float64()))
	return min(d, most)
}

// options are those of every client.
func (s *ClientSettings) options(links *links) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.Dialer((&dialer{family: s.family, timeout: cmp.Or(s.dialTimeout, dialTimeout), security: &s.security, links: links}).dial),
		kgo.RequestTimeoutOverhead(cmp.Or(s.requestTimeout, requestTimeout)),
		kgo.MetadataMaxAge(cmp.Or(s.metadataMax, metadataMaxAge)),
		kgo.RetryBackoffFn(s.pauseAfter),
	}
	if s.idleTimeout > 0 {
		opts = append(opts, kgo.ConnIdleTimeout(s.idleTimeout))
	}
	if s.receiveMax > 0 {
		opts = append(opts, kgo.BrokerMaxReadBytes(s.receiveMax))
	}
	if login := s.security.login(links); login != nil {
		opts = append(opts, kgo.SASL(login))
	}
	return opts
}

// reading are the options of clients that consume.
func (s *ClientSettings) reading() []kgo.Opt {
	opts := []kgo.Opt{kgo.FetchMaxWait(cmp.Or(s.fetchWait, fetchMaxWait))}
	if s.fetchMin > 0 {
		opts = append(opts, kgo.FetchMinBytes(s.fetchMin))
	}
	if s.rack != "" {
		opts = append(opts, kgo.Rack(s.rack))
	}
	return opts
}
