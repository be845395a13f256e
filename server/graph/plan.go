package graph

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/graphmill/graphmill"
)

// Bounds of one coalesced statement. A longer run is several of them, which is
// the same: what bounds them is the memory that the driver and the database take
// for one message.
const (
	maxRunRows  = 10_000
	maxRunBytes = 16 << 20
)

// send is one statement to be sent: one or several statements of the work.
type send struct {
	query     string
	params    map[string]any
	first     int  // index of the work's first statement in it
	coalesced *use // not nil: it stands for a run of this text
}

// use is what a batch makes of one query text.
type use struct {
	text  string
	hash  textHash
	first int // index of its first statement
	count int // statements
	run   int // the longest run

	verdict verdict // as far as it is known
	why     string  // not empty: one by one, for this reason
}

// plan is how a work is executed.
type plan struct {
	work  graphmill.Work
	uses  []*use // in order of their first statements
	of    []*use // of each statement
	sizes []int  // of each statement's parameters, in bytes
	sends []send
}

// planWork decides what is sent. It asks the database about texts that it does
// not know yet.
func (s *Sink) planWork(ctx context.Context, w graphmill.Work) (*plan, error) {
	p := &plan{work: w}
	if err := p.measure(); err != nil {
		return nil, err
	}
	p.group()
	database := s.database(w.Database)
	for _, u := range p.uses {
		if n, no := refused(s.looked.needs(u), database, w.Allow); no {
			return nil, notAllowed(n, &w, &w.Statements[u.first])
		}
	}
	for _, u := range p.uses {
		if err := s.decide(ctx, w.Stream, database, u); err != nil {
			return nil, err
		}
		if n, no := refused(u.verdict.needs(), database, w.Allow); no {
			return nil, notAllowed(n, &w, &w.Statements[u.first])
		}
		switch {
		case !w.Coalesce:
			u.why = "COALESCE is off"
		case u.run < 2:
			u.why = whyNoRun
		}
	}
	for i := 0; i < len(p.of); {
		end := p.runEnd(i)
		p.addRun(i, end)
		i = end
	}
	return p, nil
}

// measure checks every statement before anything is sent.
func (p *plan) measure() error {
	p.sizes = make([]int, len(p.work.Statements))
	for i := range p.work.Statements {
		st := &p.work.Statements[i]
		n, err := measure(st)
		if err != nil {
			return &graphmill.Fault{
				Class: graphmill.FaultMessage, Code: codeMessage, Message: st.Message,
				Text: fmt.Sprintf("statement %d (%s): %v", i+1, shownText(st.Query.Text), err),
				Next: "mend the transformation: it returns a value of a type that there is not",
			}
		}
		p.sizes[i] = n
	}
	return nil
}

// shownText cuts a query for a message.
func shownText(query string) string {
	return clip(strings.Join(strings.Fields(clip(query, 400)), " "), 80)
}

// group finds the distinct texts, and the runs of each.
func (p *plan) group() {
	p.of = make([]*use, len(p.work.Statements))
	byQuery := map[*graphmill.Query]*use{} // statements of one text mostly share it
	byText := map[string]*use{}
	length := 0
	for i := range p.work.Statements {
		query := p.work.Statements[i].Query
		u := byQuery[query]
		if u == nil {
			if u = byText[query.Text]; u == nil {
				u = &use{text: query.Text, hash: sha256.Sum256([]byte(query.Text)), first: i}
				byText[query.Text] = u
				p.uses = append(p.uses, u)
			}
			byQuery[query] = u
		}
		p.of[i] = u
		u.count++
		if i > 0 && p.of[i-1] == u {
			length++
		} else {
			length = 1
		}
		u.run = max(u.run, length)
	}
}

// runEnd returns the end of the run that begins at i.
func (p *plan) runEnd(i int) int {
	end := i + 1
	for end < len(p.of) && p.of[end] == p.of[i] {
		end++
	}
	return end
}

// addRun adds the statements from start up to end, which have the same text.
func (p *plan) addRun(start, end int) {
	u := p.of[start]
	if end-start < 2 || u.why != "" {
		p.addPlain(start, end)
		return
	}
	rows, missing := p.rows(start, end, u.verdict.params)
	if missing != "" {
		// One by one the database says that the parameter is missing; in a map it
		// would be null.
		u.why = "a statement lacks the parameter " + clip(missing, 100)
		p.addPlain(start, end)
		return
	}
	for start < end {
		n := p.fitting(start, end)
		if n == 1 {
			p.addPlain(start, start+1)
		} else {
			p.sends = append(p.sends, send{
				query: u.verdict.query, params: map[string]any{rowsParameter: rows[:n:n]},
				first: start, coalesced: u,
			})
		}
		rows = rows[n:]
		start += n
	}
}

// fitting returns how many statements from start on fit into one, at least 1.
func (p *plan) fitting(start, end int) int {
	bytes := 0
	for i := start; i < end && i < start+maxRunRows; i++ {
		bytes += p.sizes[i]
		if bytes > maxRunBytes && i > start {
			return i - start
		}
	}
	return min(end-start, maxRunRows)
}

func (p *plan) addPlain(start, end int) {
	for i := start; i < end; i++ {
		st := &p.work.Statements[i]
		p.sends = append(p.sends, send{query: st.Query.Text, params: st.Parameters(), first: i})
	}
}

// rows makes the row of each statement: a map of the parameters that the text
// uses, no others. missing names one that a statement does not have.
func (p *plan) rows(start, end int, params []string) (rows []any, missing string) {
	rows = make([]any, 0, end-start)
	var query *graphmill.Query // of the statement before
	var places []int           // of params among the names of query
	for i := start; i < end; i++ {
		st := &p.work.Statements[i]
		if st.Query != query && st.Query.Names != nil {
			if places, missing = placesOf(params, st.Query.Names); missing != "" {
				return nil, missing
			}
		}
		query = st.Query
		row, missing := rowOf(st, params, places)
		if missing != "" {
			return nil, missing
		}
		rows = append(rows, row)
	}
	return rows, ""
}

// placesOf finds each of params among names.
func placesOf(params, names []string) (places []int, missing string) {
	at := make(map[string]int, len(names))
	for i, n := range names {
		at[n] = i
	}
	places = make([]int, len(params))
	for i, n := range params {
		var ok bool
		if places[i], ok = at[n]; !ok {
			return nil, n
		}
	}
	return places, ""
}

func rowOf(st *graphmill.Statement, params []string, places []int) (row map[string]any, missing string) {
	if st.Query.Names != nil {
		row = make(map[string]any, len(params))
		for i, n := range params {
			row[n] = st.Values[places[i]]
		}
		return row, ""
	}
	for _, n := range params {
		if _, ok := st.Params[n]; !ok {
			return nil, n
		}
	}
	if len(st.Params) == len(params) {
		return st.Parameters(), ""
	}
	row = make(map[string]any, len(params))
	for _, n := range params {
		row[n] = st.Params[n]
	}
	return row, ""
}

// unfold returns the sends with everything from the k-th on one by one.
func (p *plan) unfold(k int) []send {
	rest := plan{work: p.work, sends: p.sends[:k:k]}
	rest.addPlain(p.sends[k].first, len(p.work.Statements))
	return rest.sends
}
