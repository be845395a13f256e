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

	mu      sync.Mutex
	token   neo4j.AuthToken
	refused bool // since it was read
}

func newPassword(cfg *Config) *password {
	p := &password{user: cfg.User, read: cfg.ReadPassword, log: cfg.Logger, token: neo4j.NoAuth()}
	if p.user != "" {
		p.token = neo4j.BasicAuth(p.user, cfg.Password, "")
	}
	return p
}

// wasRefused notes that the database has not let the server in.
func (p *password) wasRefused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
}

// GetAuthToken implements auth.TokenManager.
func (p *password) GetAuthToken(context.Context) (neo4j.AuthToken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused && p.read != nil {
		p.refused = false
		text, err := p.read()
		if err != nil {
			p.log.Warn("the password of the database cannot be read anew; the one from before is used", "error", err)
			return p.token, nil
		}
		p.token = neo4j.BasicAuth(p.user, text, "")
	}
	return p.token, nil
}

// HandleSecurityException implements auth.TokenManager. Nothing is tried again
// here: what was refused is told, and attempts lock accounts.
func (p *password) HandleSecurityException(context.Context, neo4j.AuthToken, *db.Neo4jError) (bool, error) {
	return false, nil
}
