//go:build e2e

package kafka_test

// real says that tests run against a real broker (see server).
const real = true
