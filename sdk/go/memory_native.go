//go:build !wasip1

package graphmill

func bufferGrown(int) {}
