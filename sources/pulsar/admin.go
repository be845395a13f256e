package pulsar

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

const (
	// adminTimeout bounds one request to the admin REST.
	adminTimeout = 10 * time.Second

	// maxAdminAnswer bounds what it may answer, in bytes. The statistics of a topic
	// grow with its subscriptions, ledgers and producers.
	maxAdminAnswer = 16 << 20

	// maxAdminRedirects is how often a broker may send a request on to the one that
	// has the topic.
	maxAdminRedirects = 5

	codeAdmin            = "admin_unreachable" // the admin REST does not answer, or not as one
	codeSubscriptionGone = "subscription_absent"
)

// admin asks the admin REST of the brokers what the binary protocol does not tell.
// It is safe for concurrent use.
type admin struct {
	base  *url.URL
	http  *http.Client
	links *links
}

// admin makes a client of Config.AdminURL, or returns nil where there is none. The
// error is of KindInvalid.
func (c *Config) admin(links *links) (*admin, error) {
	if c.AdminURL == "" {
		return nil, nil
	}
	base, err := ParseAdminURL("admin_url", c.AdminURL)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       links.security.tlsConfig(func() { links.asked.Store(true) }),
		TLSHandshakeTimeout:   cmp.Or(c.Client.connectionTimeout, defaultConnectionTimeout),
		ResponseHeaderTimeout: adminTimeout,
		DisableKeepAlives:     true, // questions are seldom, and nobody closes the client
	}
	a := &admin{base: base, links: links}
	a.http = &http.Client{Transport: transport, Timeout: adminTimeout, CheckRedirect: a.follow}
	return a, nil
}

// ParseAdminURL checks the address of an admin REST: http://host:port or https://. The
// error is of KindInvalid, names field, and does not repeat the address.
func ParseAdminURL(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, graphmill.Invalid(field, "an address is not of the form http://host:8080 or https://host:8443")
	}
	return u, nil
}

// follow lets brokers send a request on to each other, and shows the login there,
// which net/http keeps to the first host: but never from https to http, and never to
// what is no part of the admin REST.
func (a *admin) follow(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxAdminRedirects:
		return errors.New("the brokers send the request to each other")
	case req.URL.Scheme != via[0].URL.Scheme:
		return errors.New("the request is sent on to " + req.URL.Scheme + "://")
	case !strings.HasPrefix(req.URL.Path, "/admin/v2/"):
		return errors.New("the request is sent on to what is no admin REST")
	}
	return a.links.security.header(req)
}

// refusal is what the admin REST answers when it does not do what is asked for.
type refusal struct {
	status int
	reason string // in the broker's words
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the admin REST answers %d: %s", r.status, r.reason)
}

// do sends a request and reads the answer into into, unless it is nil. The error is a
// *refusal, or that of the way there.
func (a *admin) do(ctx context.Context, method, path string, query url.Values, into any) error {
	u := a.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return err
	}
	if err := a.links.security.header(req); err != nil {
		return err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxAdminAnswer:
		return fmt.Errorf("the answer is longer than %d bytes", maxAdminAnswer)
	case resp.StatusCode/100 != 2:
		return &refusal{resp.StatusCode, a.links.security.conceal(reasonOf(body))}
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer cannot be read as that of an admin REST: %w", err)
	}
	return nil
}

// reasonOf takes the reason out of an answer like {"reason":"Topic not found"}.
func reasonOf(body []byte) string {
	var r struct {
		Reason string `json:"reason"`
	}
	const most = 300
	if json.Unmarshal(body, &r) != nil || r.Reason == "" {
		return "no reason is given"
	}
	reason, _, _ := strings.Cut(strings.ToValidUTF8(r.Reason, "?"), "\n")
	if len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "") + "..."
	}
	return reason
}

// fault makes the fault of what went wrong while doing something by the admin REST.
func (a *admin) fault(doing string, err error) *graphmill.Fault {
	var r *refusal
	var f *graphmill.Fault
	var issuer *issuerError
	if errors.As(err, &f) {
		return f
	}
	if errors.As(err, &issuer) {
		return issuer.fault()
	}
	if errors.As(err, &r) {
		return a.refused(doing, r)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	client := tlsfault.Client{Asked: a.links.asked.Load(), Shown: a.links.security.certificate != nil}
	if why, sure, shown := tlsfault.Explain(err, client); why != "" && a.base.Scheme == "https" {
		return (&tlsfault.Unusable{Why: why, Sure: sure, Address: a.base.Host, Err: shown}).Fault(tlsNext, a.links.hasRun.Load())
	}
	return waits(codeAdmin, fmt.Sprintf("%s: the admin REST at %s does not answer", doing, a.base.Host), "check --pulsar-admin-url, and that the address can be reached from here", err)
}

// refused makes the fault of a refusal.
func (a *admin) refused(doing string, r *refusal) *graphmill.Fault {
	told := &answer{Code: "UnknownError", Message: r.reason}
	lower := strings.ToLower(r.reason)
	switch {
	case r.status == http.StatusUnauthorized && (lower == "no reason is given" || strings.Contains(lower, "authentic")):
		return a.links.refused(r)
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		told.Code = "AuthorizationError"
	case r.status == http.StatusNotFound && strings.Contains(lower, "subscription"):
		return waits(codeSubscriptionGone, doing+": the subscription does not exist", "", r)
	case r.status == http.StatusNotFound && !isNamespace(lower) && !strings.Contains(lower, "topic"):
		return waits(codeAdmin, fmt.Sprintf("%s: what answers at %s is no admin REST", doing, a.base.Host), "check --pulsar-admin-url", r)
	case r.status == http.StatusNotFound:
		told.Code = "TopicNotFound"
	}
	return a.links.answer(doing, told)
}

// health tells, by no error, that the broker works, which tries to send a message to
// itself. It needs the rights of a superuser. The error is a fault.
func (a *admin) health(ctx context.Context) error {
	if err := a.do(ctx, http.MethodGet, "/admin/v2/brokers/health", nil, nil); err != nil {
		return a.fault("look at the broker's health", err)
	}
	return nil
}

// cursor is what the admin REST tells of a subscription of one partition.
type cursor struct {
	next      graphmill.MessageID // behind what is acknowledged without a gap
	backlog   int64               // entries that are not acknowledged
	active    string              // the consumer that gets the messages
	consumers []graphmill.GroupMember
}

// cursor asks for a subscription of one partition. It is nil where that does not
// exist. The error is a fault.
func (a *admin) cursor(ctx context.Context, tp graphmill.TopicPartition, subscription string) (*cursor, error) {
	name := partitionName(tp)
	doing := "ask the admin REST for subscription " + strconv.Quote(subscription) + " of " + name
	var stats struct {
		Subscriptions map[string]struct {
			Backlog   int64  `json:"msgBacklog"`
			Active    string `json:"activeConsumerName"`
			Consumers []struct {
				Name    string `json:"consumerName"`
				Address string `json:"address"`
			} `json:"consumers"`
		} `json:"subscriptions"`
	}
	if err := a.do(ctx, http.MethodGet, topicPath(name)+"/stats", url.Values{"getPreciseBacklog": {"true"}}, &stats); err != nil {
		return nil, a.fault(doing, err)
	}
	of, ok := stats.Subscriptions[subscription]
	if !ok {
		return nil, nil
	}
	s := &cursor{backlog: of.Backlog, active: of.Active}
	for _, c := range of.Consumers {
		s.consumers = append(s.consumers, graphmill.GroupMember{ClientID: c.Name, Host: strings.TrimPrefix(c.Address, "/")})
	}
	var internal struct {
		Cursors map[string]struct {
			MarkDelete string `json:"markDeletePosition"`
		} `json:"cursors"`
	}
	if err := a.do(ctx, http.MethodGet, topicPath(name)+"/internalStats", nil, &internal); err != nil {
		return nil, a.fault(doing, err)
	}
	cursor, ok := internal.Cursors[url.QueryEscape(subscription)]
	if !ok {
		if cursor, ok = internal.Cursors[subscription]; !ok {
			return nil, nil // it has ended between the two questions
		}
	}
	var err error
	if s.next, err = nextOf(cursor.MarkDelete); err != nil {
		return nil, a.fault(doing, err)
	}
	return s, nil
}

// nextOf returns the first message behind an entry, which the broker writes as
// ledger:entry; the entry before a ledger's first one is -1.
func nextOf(entry string) (graphmill.MessageID, error) {
	l, e, _ := strings.Cut(entry, ":")
	ledger, err := strconv.ParseInt(l, 10, 64)
	if err != nil || ledger < 0 {
		return graphmill.MessageID{}, fmt.Errorf("%q is no position of a cursor", entry)
	}
	n, err := strconv.ParseInt(e, 10, 64)
	if err != nil || n < -1 {
		return graphmill.MessageID{}, fmt.Errorf("%q is no position of a cursor", entry)
	}
	return graphmill.MessageID{Ledger: ledger, Entry: n + 1}, nil
}

// topicPath is the path of a topic, or of a partition, by its full name.
func topicPath(full string) string {
	_, rest, _ := strings.Cut(full, "://")
	parts := strings.SplitN(rest, "/", 3)
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/admin/v2/persistent/" + strings.Join(parts, "/")
}
