package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, which is 100 wherever Go runs Linux.
const ticksPerSecond = 100

// cpuTime returns the processor time that a process has used so far; 0 if it is
// gone.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field, in parentheses, may hold anything.
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0
	}
	user, uerr := strconv.ParseInt(fields[11], 10, 64)
	system, serr := strconv.ParseInt(fields[12], 10, 64)
	if uerr != nil || serr != nil {
		return 0
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond
}
