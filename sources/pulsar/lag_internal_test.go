package pulsar

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestLagOfIDs(t *testing.T) {
	at := func(ledger, entry int64, index int32) graphmill.MessageID {
		return graphmill.MessageID{Ledger: ledger, Entry: entry, Index: index}
	}
	for name, c := range map[string]struct {
		next, last graphmill.MessageID
		some       bool
		want       int64
	}{
		"nothing there":                      {next: at(7, 0, 0), want: 0},
		"nothing there, nothing read":        {want: 0},
		"behind the last entry":              {next: at(7, 5, 0), last: at(7, 4, 9), some: true, want: 0},
		"in a ledger that is still empty":    {next: at(8, 0, 0), last: at(7, 4, 9), some: true, want: 0},
		"at the last entry":                  {next: at(7, 4, 0), last: at(7, 4, 0), some: true, want: 1},
		"within the last entry":              {next: at(7, 4, 3), last: at(7, 4, 9), some: true, want: 1},
		"at the last message of an entry":    {next: at(7, 4, 9), last: at(7, 4, 9), some: true, want: 1},
		"earlier in the ledger":              {next: at(7, 0, 0), last: at(7, 4, 9), some: true, want: 5},
		"in an earlier ledger":               {next: at(6, 4, 0), last: at(7, 4, 9), some: true, want: -1},
		"at the beginning, wherever that is": {last: at(7, 4, 9), some: true, want: -1},
	} {
		require.Equal(t, c.want, lag(c.next, c.last, c.some), name)
	}
}
