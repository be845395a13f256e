//go:build race

package wasmhost_test

func init() { raceDetector = true }
