package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedianAndInterval(t *testing.T) {
	for name, c := range map[string]struct {
		values            []float64
		median, low, high float64
	}{
		"one value":                         {[]float64{3}, 3, 3, 3},
		"an even number":                    {[]float64{4, 1, 2, 3}, 2.5, 1, 4},
		"five: the extremes":                {[]float64{5, 1, 4, 2, 3}, 3, 1, 5},
		"nine: all but one at either end":   {[]float64{9, 1, 8, 2, 7, 3, 6, 4, 5}, 5, 2, 8},
		"twelve: all but two at either end": {[]float64{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 6.5, 3, 10},
	} {
		t.Run(name, func(t *testing.T) {
			low, high := interval(c.values)
			require.Equal(t, c.median, median(c.values))
			require.Equal(t, c.low, low)
			require.Equal(t, c.high, high)
		})
	}
}

func TestSample(t *testing.T) {
	const samples = "# TYPE a counter\na{stream=\"s\"} 1e+06\na{stream=\"s2\"} 7\nb 2\n"
	require.Equal(t, 1e6, sample(samples, `a{stream="s"}`))
	require.Equal(t, 7.0, sample(samples, `a{stream="s2"}`))
	require.Zero(t, sample(samples, `a{stream="s3"}`))
}
