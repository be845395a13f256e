package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// byteCount is the value of a flag that takes a size: 1048576, 1024KiB, 1MiB.
type byteCount int64

var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
}

// String returns the size with the largest unit that leaves no rest.
func (b *byteCount) String() string {
	n, unit := int64(*b), ""
	for _, u := range byteUnits {
		if n != 0 && int64(*b)%u.factor == 0 {
			n, unit = int64(*b)/u.factor, u.suffix
		}
	}
	return strconv.FormatInt(n, 10) + unit
}

// Type is shown by the help.
func (b *byteCount) Type() string { return "size" }

// Set reads a size.
func (b *byteCount) Set(s string) error {
	digits, factor := strings.TrimSuffix(s, "B"), int64(1)
	for _, u := range byteUnits {
		if d, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, factor = d, u.factor
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("it is a number of bytes, such as 1048576 or 1MiB")
	}
	*b = byteCount(n * factor)
	return nil
}

// millis is the value of a flag that takes a duration, where a bare integer is
// milliseconds.
type millis time.Duration

// String returns the duration.
func (m *millis) String() string { return time.Duration(*m).String() }

// Type is shown by the help.
func (m *millis) Type() string { return "duration" }

// Set reads a duration.
func (m *millis) Set(s string) error {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && n >= 0 {
		*m = millis(time.Duration(n) * time.Millisecond)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("it is a duration such as 500ms or 2s; a bare integer is milliseconds")
	}
	*m = millis(d)
	return nil
}
