package patience_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

func TestUntil(t *testing.T) {
	away := &graphmill.Fault{Class: graphmill.FaultTransient, Code: "away"}
	absent := &graphmill.Fault{Class: graphmill.FaultTransient, Code: "absent"}
	refused := &graphmill.Fault{Class: graphmill.FaultSetup, Code: "refused"}
	cases := map[string]struct {
		found func(after time.Duration) *graphmill.Fault
		want  *graphmill.Fault
		took  time.Duration
	}{
		"all is well": {found: func(time.Duration) *graphmill.Fault { return nil }},
		"what has to be mended is told at once": {
			found: func(time.Duration) *graphmill.Fault { return refused }, want: refused,
		},
		"what stays as it is is told after a second": {
			found: func(time.Duration) *graphmill.Fault { return absent }, want: absent, took: time.Second,
		},
		"the second is counted anew once something else has been found": {
			found: func(after time.Duration) *graphmill.Fault {
				if after == 750*time.Millisecond {
					return away
				}
				return absent
			}, want: absent, took: 2 * time.Second,
		},
		"a broker that is away is waited for": {
			found: func(after time.Duration) *graphmill.Fault {
				if after < 5*time.Second {
					return away
				}
				return nil
			}, took: 5 * time.Second,
		},
		"a broker that stays away is told when the time is over": {
			found: func(time.Duration) *graphmill.Fault { return away }, want: away, took: 10 * time.Second,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				err := patience.Until(ctx, func(context.Context) *graphmill.Fault { return c.found(time.Since(start)) },
					func(f *graphmill.Fault) bool { return f == absent })
				if c.want == nil {
					require.NoError(t, err)
				} else {
					require.Equal(t, error(c.want), err)
				}
				require.Equal(t, c.took, time.Since(start))
			})
		})
	}
}

func TestUntilTellsWhatWasFoundBeforeTheLookThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		absent := &graphmill.Fault{Class: graphmill.FaultTransient, Code: "absent"}
		looks := 0
		err := patience.Until(ctx, func(ctx context.Context) *graphmill.Fault {
			if looks++; looks == 1 {
				return absent
			}
			<-ctx.Done()
			return &graphmill.Fault{Class: graphmill.FaultTransient, Code: "away", Err: ctx.Err()}
		}, func(*graphmill.Fault) bool { return false })
		require.Equal(t, error(absent), err)
	})
}

func TestUntilEndsWithWhoeverAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := patience.Until(ctx, func(context.Context) *graphmill.Fault {
		cancel()
		return &graphmill.Fault{Class: graphmill.FaultTransient, Code: "away"}
	}, func(*graphmill.Fault) bool { return false })
	require.ErrorIs(t, err, context.Canceled)
}
