package graph

import (
	"context"
	"log/slog"
	"sync"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/db"
)

// password is what the driver logs in with. It is read anew after a login was
// refused, and not before: one that was exchanged counts from the next START on,
// and a file that is changed before the database is disturbs nobody who is let in.
// It implements the driver's auth.TokenManager. Safe for concurrent use.
type password struct {
	user string
	read func() (string, error) // nil: it never changes
	log  *slog.Logger

	logins *logins // whoever logs in asks there first

	mu       sync.Mutex
	text     string
	refused  bool // since it was read
	unproven bool // it is another one than before, and nobody has been let in by it
}

func newPassword(cfg *Config, logins *logins) *password {
	return &password{user: cfg.User, read: cfg.ReadPassword, log: cfg.Logger, logins: logins, text: cfg.Password}
}

// wasRefused notes that the database has not let the server in.
func (p *password) wasRefused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
}

// wasRight notes that the database has let the server in.
func (p *password) wasRight() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unproven = false
}

// GetAuthToken implements auth.TokenManager. It is asked for each connection that
// the driver hands out. One that there was is logged in anew where the password is
// another one since.
func (p *password) GetAuthToken(ctx context.Context) (neo4j.AuthToken, error) {
	for {
		if err := p.logins.admit(ctx, p.renew()); err != nil {
			return neo4j.AuthToken{}, err
		}
		if token, ok := p.token(); ok {
			return token, nil
		}
	}
}

// renew reads the password anew where it was refused. It reports whether it is not
// known to be right.
func (p *password) renew() (unproven bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused && p.read != nil {
		p.refused = false
		text, err := p.read()
		switch {
		case err != nil:
			p.log.Warn("the password of the database cannot be read anew; the one from before is used", "error", err)
		case text != p.text:
			p.text, p.unproven = text, true
		}
	}
	return p.unproven
}

// token is not ok where the password has been refused while a permit was waited
// for: it is to be read anew first.
func (p *password) token() (_ neo4j.AuthToken, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.refused && p.read != nil:
		return neo4j.AuthToken{}, false
	case p.user == "":
		return neo4j.NoAuth(), true
	}
	return neo4j.BasicAuth(p.user, p.text, ""), true
}

// HandleSecurityException implements auth.TokenManager. Nothing is tried again
// here: what was refused is told, and attempts lock accounts.
func (p *password) HandleSecurityException(context.Context, neo4j.AuthToken, *db.Neo4jError) (bool, error) {
	return false, nil
}
