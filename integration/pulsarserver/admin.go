package pulsarserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// admin returns the handler of the admin interface: of its many requests those
// that tests and Graphmill make.
func (s *Server) admin() http.Handler {
	const topics, topic = "/admin/v2/persistent/{tenant}/{namespace}", "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
	mux := http.NewServeMux()
	route := func(pattern string, do func(request) (any, *refusal), needs ...Action) {
		if needs == nil {
			needs = []Action{Produce, Consume}
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serveAdmin(w, r, do, needs) })
	}
	route("GET /admin/v2/brokers/health", func(request) (any, *refusal) { return raw("ok"), nil }, Manage)
	route("GET /admin/v2/namespaces/{tenant}", s.getNamespaces, Manage)
	route("GET /admin/v2/namespaces/{tenant}/{namespace}/topics", s.getTopics)
	route("GET "+topics, s.getTopics)
	route("GET "+topics+"/partitioned", s.getPartitioned)
	route("PUT "+topic, s.putTopic, Manage)
	route("DELETE "+topic, s.deleteOnlyTopic, Manage)
	route("GET "+topic+"/partitions", s.getPartitions)
	route("PUT "+topic+"/partitions", s.putPartitions, Manage)
	route("POST "+topic+"/partitions", s.postPartitions, Manage)
	route("DELETE "+topic+"/partitions", s.deletePartitions, Manage)
	route("GET "+topic+"/stats", s.getStats)
	route("GET "+topic+"/partitioned-stats", s.getPartitionedStats)
	route("GET "+topic+"/internalStats", s.getInternalStats)
	route("GET "+topic+"/subscriptions", s.getSubscriptions)
	route("PUT "+topic+"/subscription/{subscription}", s.putSubscription)
	route("DELETE "+topic+"/subscription/{subscription}", s.deleteSubscription)
	route("POST "+topic+"/subscription/{subscription}/resetcursor", s.resetToID)
	route("POST "+topic+"/subscription/{subscription}/resetcursor/{ms}", s.resetToTime)
	return mux
}

// maxAdminBody bounds what is read of a request.
const maxAdminBody = 1 << 20

// request is a request with what its path names.
type request struct {
	*http.Request
	namespace string // tenant/namespace
	topic     string // the full name; empty: none is named
}

// force tells whether what others use is to be deleted too.
func (r request) force() bool { return r.URL.Query().Get("force") == "true" }

// decode reads the body.
func (r request) decode(into any) *refusal {
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxAdminBody)).Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	return nil
}

// refusal is an answer other than success.
type refusal struct {
	status int
	reason string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// raw is an answer that is not JSON.
type raw string

// serveAdmin asks the hook, checks who asks, and answers. A result of nil is an
// answer without content.
func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request, do func(request) (any, *refusal), needs []Action) {
	if !s.awake(r.Context().Done()) {
		return
	}
	if hook := s.hooks.Load().OnAdmin; hook != nil {
		if status := hook(r); status != 0 {
			writeAdmin(w, nil, refuse(status, "%s", http.StatusText(status)))
			return
		}
	}
	role, ok := s.roleOf(bearer(r))
	if !ok {
		http.Error(w, "Authentication required", http.StatusUnauthorized) // not as JSON
		return
	}
	req := request{Request: r}
	if tenant, namespace := r.PathValue("tenant"), r.PathValue("namespace"); namespace != "" {
		req.namespace = tenant + "/" + namespace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.namespace != "" && !s.namespaces[req.namespace] {
		writeAdmin(w, nil, refuse(http.StatusNotFound, "Namespace not found"))
		return
	}
	if topic := r.PathValue("topic"); topic != "" {
		req.topic = scheme + req.namespace + "/" + topic
	}
	if refused := s.refuseRole(role, req, needs); refused != nil {
		writeAdmin(w, nil, refused)
		return
	}
	result, refused := do(req)
	writeAdmin(w, result, refused)
}

// refuseRole says why a role may not do what it asks for. Which of the two
// statuses the broker answers follows from no rule that can be seen.
func (s *Server) refuseRole(role string, r request, needs []Action) *refusal {
	target, status := r.topic, http.StatusUnauthorized
	if r.topic == "" && r.namespace != "" {
		target, status = scheme+r.namespace+"/", http.StatusForbidden
	}
	if r.topic != "" && needs[0] == Manage {
		status = http.StatusForbidden
	}
	if s.authorized(role, target, needs...) {
		return nil
	}
	return refuse(status, "Unauthorized to validate the operation for originalRole [null] and clientRole [%s]", role)
}

func writeAdmin(w http.ResponseWriter, result any, refused *refusal) {
	w.Header().Set("Content-Type", "application/json")
	switch result := result.(type) {
	case nil:
		if refused == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.WriteHeader(refused.status)
		json.NewEncoder(w).Encode(map[string]string{"reason": refused.reason})
	case raw:
		w.Write([]byte(result))
	default:
		json.NewEncoder(w).Encode(result)
	}
}

func (s *Server) getNamespaces(r request) (any, *refusal) {
	tenant := r.PathValue("tenant") + "/"
	names := []string{}
	for name := range s.namespaces {
		if strings.HasPrefix(name, tenant) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, refuse(http.StatusNotFound, "Tenant not found")
	}
	return names, nil
}

func (s *Server) getTopics(r request) (any, *refusal) { return s.topicsIn(r.namespace), nil }

func (s *Server) getPartitioned(r request) (any, *refusal) {
	names := []string{}
	for name := range s.partitioned {
		if namespaceOf(name) == r.namespace {
			names = append(names, name)
		}
	}
	return names, nil
}

// topicOf returns the topic that the path names, which is not a partitioned one.
func (s *Server) topicOf(r request) (*topic, *refusal) {
	if t := s.topics[r.topic]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
}

// subscriptionsOf returns the subscription that the path names, one a partition
// where the topic is partitioned.
func (s *Server) subscriptionsOf(r request) ([]*subscription, *refusal) {
	name := r.PathValue("subscription")
	topics := s.partsOf(r.topic)
	if len(topics) == 0 {
		return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
	}
	var subs []*subscription
	for _, t := range topics {
		if sub := t.subs[name]; sub != nil {
			subs = append(subs, sub)
		}
	}
	if len(subs) == 0 {
		return nil, refuse(http.StatusNotFound, "Subscription %s not found for topic %s", name, r.topic)
	}
	return subs, nil
}

// partsOf returns a topic that is not partitioned, or the partitions of one.
func (s *Server) partsOf(full string) []*topic {
	if t := s.topics[full]; t != nil {
		return []*topic{t}
	}
	var parts []*topic
	for i := range s.partitioned[full] {
		if t := s.topics[partitionName(full, i)]; t != nil { // else deleted by itself
			parts = append(parts, t)
		}
	}
	return parts
}

func (s *Server) putTopic(r request) (any, *refusal) {
	if s.exists(r.topic) {
		return nil, refuse(http.StatusConflict, "This topic already exists")
	}
	s.create(r.topic, 0)
	return nil, nil
}

func (s *Server) putPartitions(r request) (any, *refusal) {
	var n int
	if refused := r.decode(&n); refused != nil {
		return nil, refused
	}
	switch {
	case s.exists(r.topic):
		return nil, refuse(http.StatusConflict, "This topic already exists")
	case n < 1 || n > maxPartitions:
		return nil, refuse(http.StatusNotAcceptable, "Number of partitions should be in the range 1 to %d", maxPartitions)
	}
	s.create(r.topic, n)
	return nil, nil
}

func (s *Server) postPartitions(r request) (any, *refusal) {
	var n int
	if refused := r.decode(&n); refused != nil {
		return nil, refused
	}
	now, ok := s.partitioned[r.topic]
	switch {
	case !ok:
		return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
	case n < now || n > maxPartitions:
		return nil, refuse(http.StatusUnprocessableEntity, "Desired partitions %d can't be less than the current partitions %d.", n, now)
	}
	s.addPartitions(r.topic, n)
	return nil, nil
}

func (s *Server) getPartitions(r request) (any, *refusal) {
	if !s.exists(r.topic) {
		return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
	}
	return struct {
		Partitions int  `json:"partitions"`
		Deleted    bool `json:"deleted"`
	}{s.partitioned[r.topic], false}, nil
}

func (s *Server) deleteOnlyTopic(r request) (any, *refusal) {
	if _, refused := s.topicOf(r); refused != nil {
		return nil, refused
	}
	return nil, s.deleteByAdmin(r)
}

func (s *Server) deletePartitions(r request) (any, *refusal) {
	if _, ok := s.partitioned[r.topic]; !ok {
		return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
	}
	return nil, s.deleteByAdmin(r)
}

func (s *Server) deleteByAdmin(r request) *refusal {
	if n := s.users(r.topic); n > 0 && !r.force() {
		return refuse(http.StatusPreconditionFailed, "Topic has %d connected producers/consumers", n)
	}
	s.delete(r.topic)
	return nil
}

func (s *Server) putSubscription(r request) (any, *refusal) {
	var from string
	if refused := r.decode(&from); refused != nil {
		return nil, refused
	}
	name := r.PathValue("subscription")
	topics := s.partsOf(r.topic)
	if len(topics) == 0 {
		return nil, refuse(http.StatusNotFound, "Topic %s not found", r.topic)
	}
	for _, t := range topics {
		if t.subs[name] != nil {
			return nil, refuse(http.StatusConflict, "Subscription already exists for topic")
		}
	}
	for _, t := range topics {
		start := len(t.entries)
		if from == "earliest" {
			start = 0
		}
		t.subs[name] = newSubscription(t, name, true, start)
	}
	return nil, nil
}

func (s *Server) deleteSubscription(r request) (any, *refusal) {
	subs, refused := s.subscriptionsOf(r)
	if refused != nil {
		return nil, refused
	}
	for _, sub := range subs {
		if len(sub.consumers) > 0 && !r.force() {
			return nil, refuse(http.StatusPreconditionFailed, "Subscription has active connected consumers")
		}
	}
	for _, sub := range subs {
		sub.closeConsumers()
		delete(sub.topic.subs, sub.name)
	}
	return nil, nil
}

// resetToID makes the entry that is named, unlike SEEK, the next to be sent.
func (s *Server) resetToID(r request) (any, *refusal) {
	var id struct {
		LedgerID int64 `json:"ledgerId"`
		EntryID  int64 `json:"entryId"`
	}
	if refused := r.decode(&id); refused != nil {
		return nil, refused
	}
	subs, refused := s.subscriptionsOf(r)
	if refused != nil {
		return nil, refused
	}
	for _, sub := range subs {
		sub.reset(sub.topic.at(MessageID{id.LedgerID, id.EntryID}))
	}
	return nil, nil
}

func (s *Server) resetToTime(r request) (any, *refusal) {
	ms, err := strconv.ParseInt(r.PathValue("ms"), 10, 64)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the time is not a number of ms: %v", err)
	}
	subs, refused := s.subscriptionsOf(r)
	if refused != nil {
		return nil, refused
	}
	for _, sub := range subs {
		sub.reset(sub.topic.since(uint64(max(ms, 0))))
	}
	return nil, nil
}
