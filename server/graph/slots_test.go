package graph

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func served(turn <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

func TestSlotsFollowTheLanes(t *testing.T) {
	s := newSlots(20)
	var turns []<-chan struct{}
	count := func() (n int) {
		for _, turn := range turns {
			if served(turn) {
				n++
			}
		}
		return n
	}
	for range 40 {
		turns = append(turns, s.take())
	}
	require.Equal(t, spareSlots, count())
	require.Equal(t, spareSlots+4, s.resize(4))
	require.Equal(t, spareSlots+4, count(), "those who waited go on")
	require.Equal(t, 20, s.resize(1000), "the most that there may be")
	require.Equal(t, 20, count())
	require.True(t, served(turns[19]))
	require.False(t, served(turns[20]), "first come, first served")

	require.Equal(t, spareSlots, s.resize(0))
	for range 12 {
		s.release()
	}
	require.Equal(t, 20, count(), "fewer lanes: nobody gets what is given back")
	s.release()
	require.Equal(t, 21, count())
	require.Equal(t, spareSlots, s.resize(-1))
}

func TestSlotIsNotLostOnWhoeverLeaves(t *testing.T) {
	s := newSlots(1)
	first, second, third := s.take(), s.take(), s.take()
	require.True(t, served(first))
	s.leave(second)
	s.release()
	require.True(t, served(third))
	s.leave(third) // it left just when its slot came
	require.True(t, served(s.take()))
}

func TestSlotsDrain(t *testing.T) {
	s := newSlots(2)
	require.True(t, served(s.take()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, s.drain(ctx))
	late := s.take()
	require.False(t, served(late), "none is given any more")
	done := make(chan bool)
	go func() { done <- s.drain(t.Context()) }()
	s.release()
	require.True(t, <-done)
	require.True(t, s.drain(t.Context()), "a second time")
	require.False(t, served(late))
	s.leave(late)
}

func TestSlotsUnderLoad(t *testing.T) {
	s := newSlots(5)
	var mu sync.Mutex
	var most, now int
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			turn := s.take()
			if i%7 == 0 {
				s.leave(turn)
				return
			}
			<-turn
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			s.resize(i)
			mu.Lock()
			now--
			mu.Unlock()
			s.release()
		})
	}
	wg.Wait()
	used, _ := s.state()
	require.Zero(t, used)
	require.LessOrEqual(t, most, 5)
}
