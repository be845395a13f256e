package boltserver

import (
	"slices"
	"time"
)

// CoalescedParameter is the parameter of a statement that stands for several:
// a list with the parameters of each.
const CoalescedParameter = "rows"

// Statement is one RUN.
type Statement struct {
	Query    string
	Params   map[string]any // as the driver's own types: dbtype.Date, time.Time, ...
	Database string         // as the client named it; empty: the default one
}

// Rows returns the parameters of each of the statements that s stands for: the
// maps of the list "rows" where that is its only parameter, else its own
// parameters alone.
func (s Statement) Rows() []map[string]any {
	list, ok := s.Params[CoalescedParameter].([]any)
	if !ok || len(s.Params) != 1 {
		return []map[string]any{s.Params}
	}
	rows := make([]map[string]any, 0, len(list))
	for _, v := range list {
		row, ok := v.(map[string]any)
		if !ok {
			return []map[string]any{s.Params}
		}
		rows = append(rows, row)
	}
	return rows
}

// Transaction is what came between a BEGIN and its end, or one RUN outside of
// any.
type Transaction struct {
	ID         int64 // in the order of their beginnings
	Database   string
	Metadata   map[string]any
	Timeout    time.Duration // 0: none was asked for
	Bookmarks  []string
	ReadOnly   bool
	Statements []Statement // those that were not refused
}

// Committed returns the transactions that have been committed, in that order.
func (s *Server) Committed() []Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.committed)
}

// RolledBack returns the transactions that have ended otherwise: by ROLLBACK,
// RESET, a failure, or the end of their connection.
func (s *Server) RolledBack() []Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rolledBack)
}

// Autocommitted returns the statements that ran outside of a transaction, as
// transactions of one statement each. EXPLAIN and SHOW among them.
func (s *Server) Autocommitted() []Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.autocommit)
}

// UserAgents returns what the clients called themselves, one a connection.
func (s *Server) UserAgents() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.userAgents)
}

// Forget drops everything that has been recorded.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed, s.rolledBack, s.autocommit, s.userAgents = nil, nil, nil, nil
}

func (s *Server) record(list *[]Transaction, tx *Transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, *tx)
}
