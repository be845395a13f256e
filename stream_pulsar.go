package graphmill

import (
	"regexp"
	"strings"
)

// Types of a Pulsar subscription. Shared and Key_Shared are not offered: they do
// not keep the order.
const (
	SubscriptionFailover  = "failover"  // several servers share the partitions
	SubscriptionExclusive = "exclusive" // one server reads
)

const (
	maxPulsarTopicLength  = 1024 // bytes
	maxPatternLength      = 1024 // bytes
	maxSubscriptionLength = 255  // bytes
	maxServiceURLLength   = 4096 // bytes

	pulsarDomain    = "persistent://"
	pulsarNamespace = "public/default/" // of topics that name none
)

// validatePulsar checks what only a Pulsar stream has.
func (s *StreamSpec) validatePulsar() error {
	if err := onlyOf(SourceNameKafka, []sourceOption{
		{"bootstrap_servers", strings.Join(s.BootstrapServers, ",")}, {"consumer_group", s.ConsumerGroup},
	}); err != nil {
		return err
	}
	switch {
	case s.TopicsPattern == "":
		if err := validateTopics(s.Topics, validatePulsarTopic, PulsarTopic); err != nil {
			return err
		}
	case len(s.Topics) > 0:
		return Invalid("topics_pattern", "topics are given too; only one of the two can be meant").
			advise("give topics, or the pattern in their place")
	default:
		if err := validateTopicsPattern(s.TopicsPattern); err != nil {
			return err
		}
	}
	if s.ServiceURL != "" {
		if err := ValidateServiceURL("service_url", s.ServiceURL); err != nil {
			return err
		}
	}
	if s.SubscriptionType != SubscriptionFailover && s.SubscriptionType != SubscriptionExclusive {
		return Invalid("subscription_type", "%s is not one of %q; Shared and Key_Shared do not keep the order of messages: they give those of one partition to several consumers at once",
			clip(s.SubscriptionType), []string{SubscriptionFailover, SubscriptionExclusive}).
			advise("use failover, by which servers share the partitions and each keeps its order; more partitions let more servers work")
	}
	switch {
	case len(s.Subscription) > maxSubscriptionLength:
		return Invalid("subscription", "the name has %d bytes, %d are the most", len(s.Subscription), maxSubscriptionLength)
	case strings.Contains(s.Subscription, "/"):
		return Invalid("subscription", "%s cannot be the name of a subscription: there is a '/' in it", clip(s.Subscription))
	}
	return printable("subscription", s.Subscription)
}

// PulsarTopic returns the full name of a topic: persistent://public/default/NAME
// for NAME, as Pulsar's clients read it.
func PulsarTopic(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	if strings.Count(name, "/") == 2 {
		return pulsarDomain + name
	}
	return pulsarDomain + pulsarNamespace + name
}

var (
	pulsarTopicName = regexp.MustCompile(`^persistent://[-=:.\w]+/[-=:.\w]+/[^\s/,]+$`)
	pulsarPartition = regexp.MustCompile(`-partition-\d+$`)
)

// validatePulsarTopic takes NAME, tenant/namespace/NAME and
// persistent://tenant/namespace/NAME.
func validatePulsarTopic(i int, t string) error {
	full := PulsarTopic(t)
	switch {
	case len(t) > maxPulsarTopicLength:
		return Invalid("topics", "the name of topic %d has %d bytes, %d are the most", i+1, len(t), maxPulsarTopicLength)
	case strings.HasPrefix(t, "non-persistent://"):
		return Invalid("topics", "%s is not persistent: its messages cannot be acknowledged, and are lost when nobody reads", clip(t))
	case !isPrintable(t):
		return printable("topics", t)
	case !pulsarTopicName.MatchString(full):
		return Invalid("topics", "%s cannot be a topic: NAME or persistent://TENANT/NAMESPACE/NAME", clip(t))
	case pulsarPartition.MatchString(t):
		return Invalid("topics", "%s is one partition of a topic; name the topic, the servers share its partitions", clip(t))
	}
	return nil
}

// SplitTopicsPattern parts the pattern of topics: the namespace that they are in,
// as tenant/namespace, and the expression that the last part of their names is
// matched by, as a whole.
func SplitTopicsPattern(pattern string) (namespace string, name *regexp.Regexp, err error) {
	full := PulsarTopic(pattern)
	rest, ok := strings.CutPrefix(full, pulsarDomain)
	parts := strings.SplitN(rest, "/", 3)
	if !ok || len(parts) != 3 || parts[2] == "" || !pulsarTopicName.MatchString(pulsarDomain+parts[0]+"/"+parts[1]+"/x") {
		return "", nil, Invalid("topics_pattern", "%s is no pattern of topics: EXPRESSION or persistent://TENANT/NAMESPACE/EXPRESSION", clip(pattern))
	}
	name, err = regexp.Compile(`^(?:` + parts[2] + `)$`)
	if err != nil {
		return "", nil, Invalid("topics_pattern", "%s is no regular expression: %v", clip(pattern), err)
	}
	return parts[0] + "/" + parts[1], name, nil
}

func validateTopicsPattern(pattern string) error {
	if len(pattern) > maxPatternLength {
		return Invalid("topics_pattern", "it has %d bytes, %d are the most", len(pattern), maxPatternLength)
	}
	if err := printable("topics_pattern", pattern); err != nil {
		return err
	}
	_, _, err := SplitTopicsPattern(pattern)
	return err
}

// ValidateServiceURL returns an error of KindInvalid that names field unless address is
// that of a Pulsar: pulsar://host:port or pulsar+ssl://host:port, with more
// hosts behind commas. Without a port it is 6650, with TLS 6651. The error does not
// repeat the address, in which a password may stand by mistake.
func ValidateServiceURL(field, address string) error {
	scheme, hosts, ok := strings.Cut(address, "://")
	switch {
	case scheme == "http" || scheme == "https":
		return Invalid(field, "an address that begins with %s:// is that of Pulsar's admin REST, not of its brokers", scheme).
			advise("give the brokers' address, such as pulsar://127.0.0.1:6650; that of the admin REST goes to the server's --pulsar-admin-url")
	case !ok || scheme != "pulsar" && scheme != "pulsar+ssl" || len(address) > maxServiceURLLength:
		return Invalid(field, "an address is not of the form pulsar://host:port or pulsar+ssl://host:port").
			advise("begin it with pulsar://, with TLS pulsar+ssl://, such as pulsar://127.0.0.1:6650; more hosts stand behind commas: pulsar://a:6650,b:6650")
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(hosts, "/"), ",") {
		switch {
		case strings.Contains(host, "@"):
			return Invalid(field, "there is an '@' in an address, and a login has no place there").
				advise("name host and port alone; logins are given as credentials: token, or userId and password")
		case ValidateBroker(field, host) != nil:
			return Invalid(field, "an address is not of the form %s://host:port, such as %s://127.0.0.1:6650", scheme, scheme).
				advise("name host and port alone, more of them behind commas: " + scheme + "://HOST:PORT,HOST:PORT")
		}
	}
	return nil
}
