package pulsar

import (
	"log/slog"
	"testing"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// The client has no other word for it: it acknowledges what it cannot read.
func TestASourceEndsWhereTheClientThrowsAnEntryAway(t *testing.T) {
	s, err := New(Config{ServiceURL: "pulsar://127.0.0.1:6650", Topics: []string{"t"}, Subscription: "s"}, &sourcetest.Observer{})
	require.NoError(t, err)
	s.links.onDiscard = s.discarded
	log := newClientLogger(slog.New(slog.DiscardHandler), s.links)
	of := log.SubLogger(pulsarlog.Fields{"topic": "persistent://public/default/t"})
	of.WithFields(pulsarlog.Fields{"msgID": "ledgerId:3 entryId:7", "validationError": "DecompressionError"}).Error(saysDiscarded)
	err = s.Open(t.Context())
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, codeUnreadable, f.Code)
	require.Equal(t, graphmill.FaultSetup, f.Class)
	for _, part := range []string{"persistent://public/default/t", "ledgerId:3 entryId:7", "DecompressionError"} {
		require.Contains(t, f.Text, part)
	}
	require.NoError(t, s.Close(t.Context()))
}
