package server

import (
	"time"

	"github.com/graphmill/graphmill"
)

// rateSamples covers the longest rate, a sample a second.
const rateSamples = 61

// rates remembers how far a count had come in each of the last seconds. It is
// for one goroutine at a time.
type rates struct {
	samples [rateSamples]rateSample
	next    int
	taken   int
}

type rateSample struct {
	at    time.Time
	total int64
}

// sample notes the count. It is called once a second.
func (r *rates) sample(at time.Time, total int64) {
	r.samples[r.next] = rateSample{at, total}
	r.next = (r.next + 1) % rateSamples
	r.taken = min(r.taken+1, rateSamples)
}

// over returns the increase a second within the last window, or since the first
// sample where that is later.
func (r *rates) over(window time.Duration) float64 {
	if r.taken < 2 {
		return 0
	}
	last := r.ago(1)
	first := last
	for i := 2; i <= r.taken; i++ {
		s := r.ago(i)
		if last.at.Sub(s.at) > window+window/20 { // ticks are not that even
			break
		}
		first = s
	}
	elapsed := last.at.Sub(first.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return float64(last.total-first.total) / elapsed
}

// ago returns the i-th last sample, from 1 on.
func (r *rates) ago(i int) rateSample {
	return r.samples[(r.next-i+rateSamples)%rateSamples]
}

func (r *rates) describe() graphmill.Rates {
	return graphmill.Rates{MessagesPerSecond10s: r.over(10 * time.Second), MessagesPerSecond1m: r.over(time.Minute)}
}

// partitionRates are the rates of the partitions in which something was acknowledged
// within the longest rate. It is for one goroutine at a time.
type partitionRates map[graphmill.TopicPartition]*partitionRate

type partitionRate struct {
	messages int64 // acknowledged
	rates    rates
}

// count adds the messages of a batch, which come in runs of one partition.
func (p partitionRates) count(at time.Time, messages []graphmill.Message) {
	for first := 0; first < len(messages); {
		tp := messages[first].TopicPartition()
		next := first + 1
		for next < len(messages) && messages[next].Partition == tp.Partition && messages[next].Topic == tp.Topic {
			next++
		}
		r := p[tp]
		if r == nil {
			r = &partitionRate{}
			r.rates.sample(at, 0)
			p[tp] = r
		}
		r.messages += int64(next - first)
		first = next
	}
}

// sample is called once a second.
func (p partitionRates) sample(at time.Time) {
	for tp, r := range p {
		r.rates.sample(at, r.messages)
		if r.rates.taken == rateSamples && r.rates.over(2*time.Minute) == 0 {
			delete(p, tp)
		}
	}
}

// over returns the rate of a partition over the last window.
func (p partitionRates) over(tp graphmill.TopicPartition, window time.Duration) float64 {
	if r := p[tp]; r != nil {
		return r.rates.over(window)
	}
	return 0
}
