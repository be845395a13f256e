package graphmill

// The levels of the log.
const (
	levelDebug = iota
	levelInfo
	levelWarn
	levelError
)

// LogDebug writes a line to the server's log, tagged with stream and module. So
// do the other three, at their levels. The server drops lines beyond a hundred a
// second and says how many. In a native test the lines go to standard error.
func LogDebug(text string) { hostLog(levelDebug, text) }

// LogInfo is for what is worth knowing in normal operation.
func LogInfo(text string) { hostLog(levelInfo, text) }

// LogWarn is for what should be looked at.
func LogWarn(text string) { hostLog(levelWarn, text) }

// LogError is for what went wrong. It fails nothing: return an error for that.
func LogError(text string) { hostLog(levelError, text) }
