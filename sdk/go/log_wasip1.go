package graphmill

//go:wasmimport graphmill log
func hostLog(level int32, text string)
