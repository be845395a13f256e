package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
)

const (
	minToken     = 16 // characters; fewer can be guessed
	maxTokens    = 1000
	maxTokenFile = 1 << 20 // bytes

	// tokensFresh is how long the tokens count without a look at the file.
	tokensFresh = time.Second

	// tokensPatience is how long a request waits for that look. A file on a mount
	// that hangs must not hold up more than the one that came first.
	tokensPatience = time.Second
)

// Tokens are the bearer tokens that let callers in, kept in a file: one a line,
// as TOKEN or NAME:TOKEN, where the name tells who it is in the log; "#" begins a
// comment line. The file is looked at again when it has changed, so that tokens
// are exchanged without a restart; a file that cannot be read then, or not in time,
// leaves the tokens as they were. Safe for concurrent use.
type Tokens struct {
	path string
	log  *slog.Logger
	read func(path string, known fileState) ([]token, fileState, error) // see readChanged

	mu      sync.Mutex
	known   []token
	looked  time.Time
	looking bool // a goroutine reads the file; it ends with the read, which nothing can cut short
	state   fileState
	told    string // the last error that was logged
}

// token is kept as a hash, so that all comparisons take the same time whatever
// the lengths.
type token struct {
	name string
	sum  [sha256.Size]byte
}

// fileState tells whether a file has changed, or another has taken its place: a
// copy may have the old one's time and size.
type fileState struct{ info fs.FileInfo }

func (s fileState) same(now fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, now) && s.info.ModTime().Equal(now.ModTime()) && s.info.Size() == now.Size()
}

// OpenTokens reads a file of tokens. Errors are of KindInvalid for token_file and
// repeat nothing of it.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: cmp.Or(log, slog.New(slog.DiscardHandler)), read: readChanged, looked: time.Now()}
	var err error
	if t.known, t.state, err = readTokens(path); err != nil {
		return nil, err
	}
	return t, nil
}

// FirstToken returns the first token of a file, for a client that shares it.
func FirstToken(path string) (string, error) {
	text, _, err := readTokenFile(path)
	if err != nil {
		return "", err
	}
	var first string
	err = eachToken(text, func(_, token string) {
		if first == "" {
			first = token
		}
	})
	return first, err
}

// owner returns the name of a token; ok tells whether it lets in.
func (t *Tokens) owner(presented string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(presented))
	found := -1
	known := t.current()
	for i := range known { // all of them, whichever it is
		if subtle.ConstantTimeCompare(sum[:], known[i].sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return "", false
	}
	return known[found].name, true
}

// current returns the tokens, read anew where the file has changed. One request at
// a time looks, and not for long; the others go by what is known.
func (t *Tokens) current() []token {
	known, look := t.knownNow()
	if !look {
		return known
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.look()
	}()
	patience := time.NewTimer(tokensPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		t.failed(fmt.Errorf("reading %s takes longer than %v", t.path, tokensPatience))
	}
	known, _ = t.knownNow()
	return known
}

// knownNow returns the tokens as they are known. look says that it is the caller's
// turn to look at the file.
func (t *Tokens) knownNow() (known []token, look bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look = !t.looking && time.Since(t.looked) >= tokensFresh
	t.looking = t.looking || look
	return t.known, look
}

// look reads the file, without holding the lock.
func (t *Tokens) look() {
	t.mu.Lock()
	last := t.state
	t.mu.Unlock()
	known, state, err := t.read(t.path, last)
	if err != nil {
		t.failed(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looking, t.looked = false, time.Now()
	if err != nil || known == nil {
		return
	}
	t.known, t.state, t.told = known, state, ""
	t.log.Info("tokens read anew", "file", t.path, "tokens", len(known))
}

// failed logs why the file cannot be read, once.
func (t *Tokens) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told != err.Error() {
		t.told = err.Error()
		t.log.Error("the tokens cannot be read anew; those from before count", "error", err)
	}
}

// readChanged reads a file of tokens; nil where it is the one that is known.
func readChanged(path string, known fileState) ([]token, fileState, error) {
	if info, err := os.Stat(path); err == nil && known.same(info) {
		return nil, known, nil
	}
	return readTokens(path)
}

func readTokens(path string) ([]token, fileState, error) {
	text, state, err := readTokenFile(path)
	if err != nil {
		return nil, state, err
	}
	var tokens []token
	err = eachToken(text, func(name, secret string) {
		tokens = append(tokens, token{name: name, sum: sha256.Sum256([]byte(secret))})
	})
	if err == nil && len(tokens) > maxTokens {
		err = graphmill.Invalid("token_file", "%d tokens, %d are the most", len(tokens), maxTokens)
	}
	return tokens, state, err
}

func readTokenFile(path string) ([]byte, fileState, error) {
	text, info, err := secret.ReadFile(path, maxTokenFile)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fileState{}, graphmill.Invalid("token_file", "read %s: %v", path, err)
	}
	return text, fileState{info}, nil
}

// tokenLine is TOKEN or NAME:TOKEN. A token is what may stand in a header (RFC
// 6750 allows less), but ":", so that the two forms cannot be taken for one
// another.
var tokenLine = regexp.MustCompile(`^(?:([a-zA-Z0-9_.@-]{1,100}):)?([!-9;-~]+)$`)

// eachToken calls f for every token of a file's text, and makes sure that there
// is one.
func eachToken(text []byte, f func(name, token string)) error {
	n := 0
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		m := tokenLine.FindSubmatch(line)
		switch {
		case m == nil:
			return graphmill.Invalid("token_file", "line %d is neither TOKEN nor NAME:TOKEN", i+1)
		case len(m[2]) < minToken:
			e := graphmill.Invalid("token_file", "the token of line %d has fewer than %d characters", i+1, minToken)
			e.Next = "to make one: openssl rand -hex 32"
			return e
		}
		f(string(m[1]), string(m[2]))
		n++
	}
	if n == 0 {
		e := graphmill.Invalid("token_file", "there is no token in it")
		e.Next = "to make one: openssl rand -hex 32"
		return e
	}
	return nil
}

// authorize lets a request in that needs no token or has one of ours, and
// returns the name of that.
func (s *service) authorize(r *http.Request) (owner string, err error) {
	if s.cfg.Tokens == nil || s.isOpen(r) {
		return "", nil
	}
	given := r.Header["Authorization"]
	if len(given) > 1 {
		return "", unauthorized("the request has more than one header Authorization; whose it is cannot be told")
	}
	scheme, presented, ok := strings.Cut(strings.Join(given, ""), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return "", unauthorized("this server lets in callers with a token only, and the request has none")
	}
	owner, ok = s.cfg.Tokens.owner(strings.TrimSpace(presented))
	if !ok {
		return "", unauthorized("the token of the request is not one of this server's")
	}
	return owner, nil
}

// isOpen tells what is answered without a token: the probes, and the metrics
// unless they are kept from others.
func (s *service) isOpen(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz":
		return true
	case metricsPath:
		return !s.cfg.MetricsAuth
	}
	return false
}

func unauthorized(text string) *Problem {
	p := newProblem(http.StatusUnauthorized, "unauthorized", "%s", text)
	p.NextStep = "give the file that holds it: --token-file FILE, or GRAPHMILL_TOKEN_FILE; in a request of your own: Authorization: Bearer TOKEN"
	return p
}

// refusalsPause is the shortest time between two log lines about callers that
// were not let in: whoever tries tokens shall not fill the disk.
const refusalsPause = 10 * time.Second

// refusals counts callers that were not let in. Safe for concurrent use.
type refusals struct {
	mu     sync.Mutex
	count  int // since the last line
	logged time.Time
}

func (f *refusals) tell(log *slog.Logger, from string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if time.Since(f.logged) < refusalsPause {
		return
	}
	log.Warn("callers without a valid token were refused", "requests", f.count, "last_from", from)
	f.count, f.logged = 0, time.Now()
}
