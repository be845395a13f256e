package pulsar

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/setting"
)

// ClientSettings are what CONFIGS and CREDENTIALS make of a client. The zero
// value is a client by default: without a login, and where the service URL asks
// for TLS, with the authorities of the system.
type ClientSettings struct {
	operationTimeout, connectionTimeout time.Duration
	keepAlive, maxIdle                  time.Duration
	connectionsPerBroker                int
	listener, description               string
	lookup                              keyValues // of lookups, for load managers that look at them

	discovery time.Duration // pause between two looks for new partitions and topics; 0: the default

	reset              string    // where a subscription begins: "earliest", "latest", or not said
	receiverQueue      int       // messages of one partition; 0: not said
	totalReceiverQueue int       // messages of all partitions; 0: not said
	properties         keyValues // of the consumers, in the broker's statistics
	subscriptionProps  keyValues // of the subscription, when it is made
	replicated         bool
	maxChunked         int
	expireChunked      time.Duration

	raw      rawSecurity
	security security
}

// given tells where settings were given.
type given = setting.Given[ClientSettings]

// ParseConfigs reads CONFIGS and CREDENTIALS, which differ in nothing but what
// is shown of them. Notifications name what has no effect here, and what makes a
// connection unsafe. vault may be nil: there is nothing then that secret:NAME and
// the settings of files could name.
//
// Errors are *graphmill.Error: of KindInvalid, with the field ("configs" or
// "credentials") and the name of the entry, never its value; or what the vault
// says.
func ParseConfigs(configs, credentials map[string]string, vault setting.Vault) (ClientSettings, []string, error) {
	if vault == nil {
		vault = setting.NoVault{}
	}
	var s ClientSettings
	given, notes, err := settings.Take(&s, configs, credentials, vault)
	if err != nil {
		return ClientSettings{}, nil, err
	}
	for name, m := range map[string]*keyValues{"properties": &s.properties, "subscriptionProperties": &s.subscriptionProps, "lookupProperties": &s.lookup} {
		if m.err != nil {
			return ClientSettings{}, nil, graphmill.Invalid(given.Field(name), "the value of %s cannot be used: %v", name, m.err)
		}
	}
	more, err := s.secure(given, vault)
	if err != nil {
		return ClientSettings{}, nil, err
	}
	return s, append(notes, more...), nil
}

// StartFrom returns what subscriptionInitialPosition says, as START_FROM says it
// ("earliest", "latest"), or "" where it says nothing.
func StartFrom(configs, credentials map[string]string) string {
	switch v := strings.ToLower(configs[initialPosition] + credentials[initialPosition]); v {
	case graphmill.StartEarliest, graphmill.StartLatest:
		return v
	}
	return ""
}

// keyValues is a setting whose value is a map of texts, as an object of JSON.
type keyValues struct {
	m   map[string]string
	err error
}

func parseKeyValues(v setting.Value) keyValues {
	var kv keyValues
	if json.Unmarshal([]byte(v.Text), &kv.m) != nil { // its error may repeat the value
		kv.err = errors.New(`it is an object of JSON that holds texts, as {"name":"value"}`)
	}
	return kv
}

// Times of the client by default.
const (
	defaultOperationTimeout  = 10 * time.Second
	defaultConnectionTimeout = 5 * time.Second
)

// looksEvery takes the smaller of two settings that say the same.
func (s *ClientSettings) looksEvery(d time.Duration) {
	if s.discovery == 0 || d < s.discovery {
		s.discovery = d
	}
}

// queue is how many messages a consumer of one of so many partitions may hold
// back, where most are what the source wants at the most.
func (s *ClientSettings) queue(partitions, most int) int {
	if s.receiverQueue > 0 {
		most = min(most, s.receiverQueue)
	}
	if s.totalReceiverQueue > 0 {
		most = min(most, s.totalReceiverQueue/max(partitions, 1))
	}
	return max(most, 1)
}

// consumer sets in opts what is said of consumers.
func (s *ClientSettings) consumer(opts *pulsar.ConsumerOptions) {
	opts.Properties = s.properties.m
	opts.SubscriptionProperties = s.subscriptionProps.m
	opts.ReplicateSubscriptionState = s.replicated
}

// Warnings tells what of the settings has no effect, or is unsafe, with a service
// URL.
func (s *ClientSettings) Warnings(serviceURL string) []string {
	if withTLS(serviceURL) {
		return nil
	}
	var notes []string
	if s.security.mentionsTLS {
		notes = append(notes, "configs: the settings of TLS (tls...) have no effect: the service URL is pulsar://, and pulsar+ssl:// is the one with TLS")
	}
	if m := s.security.method; m == methodToken || m == methodBasic || m == methodOAuth2 {
		notes = append(notes, fmt.Sprintf("configs: the service URL is pulsar://, without TLS: the %s is sent as it is, for everybody on the way to read", cmp.Or(secretOf[m], "login")))
	}
	return notes
}

// LogsIn tells whether brokers are shown a login.
func (s *ClientSettings) LogsIn() bool {
	return s.security.method != "" && s.security.method != methodNone
}

// withTLS tells whether a service URL asks for TLS.
func withTLS(serviceURL string) bool { return strings.HasPrefix(serviceURL, "pulsar+ssl://") }
