package kafka_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/graphmill/graphmill/sources/kafka"
)

func TestDiagnose(t *testing.T) {
	start := func(opts ...kfake.Opt) []string {
		b, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
		require.NoError(t, err)
		t.Cleanup(b.Close)
		return b.ListenAddrs()
	}
	t.Run("a broker", func(t *testing.T) {
		addrs := start()
		f := kafka.Diagnose(t.Context(), addrs[0])
		require.Nil(t, f.Fault)
		require.ElementsMatch(t, addrs, f.Advertised)
		require.True(t, f.TopicIDs)
		require.NotEmpty(t, f.Version)
		require.False(t, f.Login || f.TLS)
	})
	t.Run("of before topic ids", func(t *testing.T) {
		f := kafka.Diagnose(t.Context(), start(kfake.MaxVersions(kversion.V2_7_0()))[0])
		require.Nil(t, f.Fault)
		require.False(t, f.TopicIDs)
	})
	t.Run("that wants a login", func(t *testing.T) {
		f := kafka.Diagnose(t.Context(), start(kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))[0])
		require.Nil(t, f.Fault)
		require.True(t, f.Login)
	})
	t.Run("that is not there", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l.Close()
		f := kafka.Diagnose(t.Context(), l.Addr().String())
		require.Equal(t, "broker_unreachable", f.Fault.Code)
	})
	t.Run("what is no address", func(t *testing.T) {
		require.NotNil(t, kafka.Diagnose(t.Context(), "").Fault)
	})
}
