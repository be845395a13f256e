package wasmhost_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

func TestStoredBytesAreReadOnceHoweverManyLoadThem(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	bytes := Guest(Unreachable).Bytes()
	var reads atomic.Int32
	read := func(context.Context) ([]byte, error) {
		reads.Add(1)
		return bytes, nil
	}
	var loaders sync.WaitGroup
	modules := make(chan *wasmhost.Module, 50)
	for range 50 {
		loaders.Go(func() {
			m, err := h.LoadStored(t.Context(), sha256.Sum256(bytes), read)
			if assert.NoError(t, err) {
				modules <- m
			}
		})
	}
	loaders.Wait()
	require.EqualValues(t, 1, reads.Load())
	close(modules)
	for m := range modules {
		require.NoError(t, m.Close(t.Context()))
	}
	m, err := h.LoadStored(t.Context(), sha256.Sum256(bytes), read)
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context()))
	require.EqualValues(t, 2, reads.Load(), "nobody had it any more")
}

func TestStoredBytesThatCannotBeHadFailThisLoadOnly(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	bytes := Guest(Unreachable).Bytes()
	sum := sha256.Sum256(bytes)
	gone := errors.New("the disk is gone")
	_, err := h.LoadStored(t.Context(), sum, func(context.Context) ([]byte, error) { return nil, gone })
	require.ErrorIs(t, err, gone)
	_, err = h.LoadStored(t.Context(), sum, func(context.Context) ([]byte, error) { return []byte("others"), nil })
	require.ErrorContains(t, err, "SHA-256")
	_, err = h.LoadStored(t.Context(), sha256.Sum256(nil), func(context.Context) ([]byte, error) { return nil, nil })
	require.ErrorContains(t, err, "WebAssembly")

	m, err := h.LoadStored(t.Context(), sum, func(context.Context) ([]byte, error) { return bytes, nil })
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context()))
}

func TestADefectWhileAModuleIsLoadedHoldsUpNobodyElse(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	bytes := Guest(Unreachable).Bytes()
	sum := sha256.Sum256(bytes)
	require.Panics(t, func() {
		_, _ = h.LoadStored(t.Context(), sum, func(context.Context) ([]byte, error) { panic("a defect") })
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := h.LoadStored(ctx, sum, func(context.Context) ([]byte, error) { return bytes, nil })
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context()))
}

// Whoever has the bytes is not refused because somebody else, who asked for the
// same module a moment before, could not read them.
func TestWhoHasTheBytesLoadsThemWhereAnotherCannotReadThem(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	bytes := Guest(Unreachable).Bytes()
	for range 50 {
		reading, begun := make(chan struct{}), make(chan struct{})
		var loaders sync.WaitGroup
		loaders.Go(func() {
			_, err := h.LoadStored(t.Context(), sha256.Sum256(bytes), func(context.Context) ([]byte, error) {
				close(reading)
				<-begun
				for range 100 {
					runtime.Gosched() // the other has its chance to come before this fails
				}
				return nil, errors.New("it was removed")
			})
			assert.ErrorContains(t, err, "it was removed")
		})
		<-reading
		loaders.Go(func() {
			close(begun)
			m, err := h.Load(t.Context(), bytes)
			if assert.NoError(t, err) {
				assert.NoError(t, m.Close(t.Context()))
			}
		})
		loaders.Wait()
	}
}
