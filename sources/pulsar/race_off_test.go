//go:build !race

package pulsar_test

const raceDetector = false
