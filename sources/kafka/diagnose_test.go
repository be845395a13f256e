package kafka_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

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
		f := kafka.Diagnose(t.Context(), addrs[0], kafka.ClientSettings{})
		require.Nil(t, f.Fault)
		require.ElementsMatch(t, addrs, f.Advertised)
		require.True(t, f.TopicIDs)
		require.NotEmpty(t, f.Version)
		require.False(t, f.Login || f.TLS)
	})
	t.Run("of before topic ids", func(t *testing.T) {
		f := kafka.Diagnose(t.Context(), start(kfake.MaxVersions(kversion.V2_7_0()))[0], kafka.ClientSettings{})
		require.Nil(t, f.Fault)
		require.False(t, f.TopicIDs)
	})
	t.Run("that wants a login", func(t *testing.T) {
		f := kafka.Diagnose(t.Context(), start(kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))[0], kafka.ClientSettings{})
		require.Nil(t, f.Fault)
		require.True(t, f.Login)
	})
	t.Run("that is not there", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l.Close()
		f := kafka.Diagnose(t.Context(), l.Addr().String(), kafka.ClientSettings{})
		require.Equal(t, "broker_unreachable", f.Fault.Code)
	})
	t.Run("that wants the login that is given, and another one", func(t *testing.T) {
		addr := start(kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))[0]
		for password, right := range map[string]bool{"p": true, "wrong": false} {
			settings, _, err := kafka.ParseConfigs(map[string]string{"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u"},
				map[string]string{"sasl.password": password}, nil)
			require.NoError(t, err)
			f := kafka.Diagnose(t.Context(), addr, settings)
			require.False(t, f.Login, "one is given")
			require.Equal(t, right, f.Fault == nil, password)
			require.Equal(t, right, len(f.Advertised) == 2, password)
		}
	})
	t.Run("that takes connections and says nothing", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections for it
		require.NoError(t, err)
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		f := kafka.Diagnose(ctx, l.Addr().String(), kafka.ClientSettings{})
		require.Equal(t, "broker_silent", f.Fault.Code)
	})
	t.Run("what answers and is no broker", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var answered sync.WaitGroup
		answered.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("220 mail.example.com ESMTP\r\n"))
				t.Cleanup(func() { _ = c.Close() })
			}
		})
		defer answered.Wait()
		defer l.Close()
		f := kafka.Diagnose(t.Context(), l.Addr().String(), kafka.ClientSettings{})
		require.Equal(t, "no_broker", f.Fault.Code)
	})
	t.Run("what is no address", func(t *testing.T) {
		require.NotNil(t, kafka.Diagnose(t.Context(), "", kafka.ClientSettings{}).Fault)
	})
}
