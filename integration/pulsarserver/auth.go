package pulsarserver

import (
	"maps"
	"net/http"
	"strings"
)

// Action is what a role may be allowed to do with a topic.
type Action string

// The actions.
const (
	Produce Action = "produce"
	Consume Action = "consume"

	// Manage is to make and delete topics, and, with an empty topic, to ask for
	// the broker's health and for namespaces: what only superusers may.
	Manage Action = "manage"
)

// RequireTokens lets in, from now on, only those who show one of the tokens: the
// keys, whose values are the roles that they stand for. None: everybody.
// Connections that there are stay.
func (s *Server) RequireTokens(roles map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = maps.Clone(roles)
}

// Authorize makes allow say what roles may do, by the full name of the topic; to
// list topics it is that of the namespace with a slash behind it. It
// is asked with the server locked and may not call its methods. Looking a topic
// up, or its statistics, needs Produce or Consume. nil: everything.
func (s *Server) Authorize(allow func(role, topic string, action Action) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authorize = allow
}

func (s *Server) roleOf(token string) (role string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tokens) == 0 {
		return "", true
	}
	role, ok = s.tokens[token]
	return role, ok
}

// authorized tells whether a role may do one of the actions.
func (s *Server) authorized(role, topic string, actions ...Action) bool {
	if s.authorize == nil {
		return true
	}
	for _, a := range actions {
		if s.authorize(role, topic, a) {
			return true
		}
	}
	return false
}

// bearer returns the token of a request.
func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}
