package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// TestAStartWhosePositionsWereSettledSucceeds is of a first batch that fails before
// START looks: its answer must not depend on who is faster.
func TestAStartWhosePositionsWereSettledSucceeds(t *testing.T) {
	st := &stream{srv: &Server{cfg: Config{StartTimeout: time.Minute}}}
	r := newRun(st, graphmill.StreamSpec{Name: "s"}, StartRequest{})
	r.observed.opened = true
	close(r.opened)
	r.fault = &graphmill.Fault{Code: "transformation", Text: "told to fail"}
	close(r.done)
	for range 100 {
		require.NoError(t, st.awaitOpened(t.Context(), r))
	}
}
