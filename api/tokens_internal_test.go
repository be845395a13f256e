package api

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFileOfTokensThatHangsHoldsUpNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("anne:0123456789abcdef\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tokens, err := OpenTokens(path, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		hung := make(chan struct{})
		fresh := []token{{name: "ben", sum: tokens.known[0].sum}}
		tokens.read = func(string, fileState) ([]token, fileState, error) {
			<-hung
			return fresh, fileState{}, nil
		}
		owner := func() (string, time.Duration) {
			began := time.Now()
			name, ok := tokens.owner("0123456789abcdef")
			require.True(t, ok)
			return name, time.Since(began)
		}
		<-time.After(2 * tokensFresh)
		var waited sync.WaitGroup
		waited.Go(func() {
			name, took := owner()
			require.Equal(t, "anne", name, "the last good set counts")
			require.Equal(t, tokensPatience, took, "the one that looks has some patience")
		})
		synctest.Wait()
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for range 100 { // also long after
			name, took := owner()
			require.Equal(t, "anne", name)
			require.Zero(t, took, "the others wait for nothing")
			<-second.C
		}
		waited.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "takes longer than 1s"), "it is logged once:\n%s", &log)

		close(hung)
		synctest.Wait()
		name, _ := owner()
		require.Equal(t, "ben", name, "what the read brings counts once it is there")
	})
}
