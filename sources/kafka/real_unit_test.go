//go:build !e2e

package kafka_test

const real = false
