package main

import (
	"log/slog"
	"os"

	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

// keyFile is the file of the key that seals credentials, if it is named or there
// already; else empty.
func (s *serveSettings) keyFile() string {
	if s.secretKeyFile != "" {
		return s.secretKeyFile
	}
	own := server.SecretKeyFile(s.dataDir)
	if _, err := os.Stat(own); err != nil {
		return "" // made when it is needed
	}
	return own
}

// readers says who can read a file of secrets and should not, and how that is
// mended; empty: nobody, or there is none. A file may be its group's, as files that
// are mounted are; the server's own key was made for its owner alone.
func (s *serveSettings) readers(path string) (who, next string) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // told where it is read
	case info.Mode().Perm()&0o004 != 0:
		return "everybody on this machine", "chmod go-rwx " + path
	case info.Mode().Perm()&0o040 != 0 && path == server.SecretKeyFile(s.dataDir):
		return "its group", "chmod go-rwx " + path
	}
	return "", ""
}

// warnOfSecrets tells of files with secrets that others may read, and of a folder of them that nobody can.
func (s *serveSettings) warnOfSecrets(log *slog.Logger) {
	for _, f := range []struct{ flag, path string }{
		{"graph-password-file", s.graph.passwordFile}, {"token-file", s.tokenFile}, {"secret-key-file", s.keyFile()},
	} {
		if who, next := s.readers(f.path); who != "" {
			log.Warn(who+" can read a file of secrets", "setting", f.flag, "file", f.path, "next_step", next)
		}
	}
	if s.secretsDir == "" {
		return
	}
	// It may be mounted later; a wrong name would be told at the first START only.
	if _, err := os.ReadDir(s.secretsDir); err != nil {
		log.Warn("the folder of secrets cannot be read", "setting", "secrets-dir", "error", err)
	}
}

// openTokens reads the tokens that let callers in; nil: none is needed.
func (s *serveSettings) openTokens(log *slog.Logger) (*api.Tokens, error) {
	if s.tokenFile == "" {
		return nil, nil
	}
	tokens, err := api.OpenTokens(s.tokenFile, log)
	return tokens, asFlagOf(err)
}
