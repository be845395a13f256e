//go:build !wasip1

package graphmill

func hostLog(level int32, text string) {
	println([...]string{"debug", "info", "warn", "error"}[level] + ": " + text)
}
