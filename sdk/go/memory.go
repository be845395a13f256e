package graphmill

// bufferSize is the size of a buffer that has to hold so many bytes.
//
// Two buffers hold what comes from the host and what goes to it, and each may have to
// hold 16 MiB or more in an instance that has 64 MiB. Large buffers that grow little by
// little leave holes in Go's heap that are too small for the next one. So they grow in
// few and large steps. Memory that is never written to costs the host nothing.
func bufferSize(needed int) int {
	for _, size := range [...]int{64 << 10, 1 << 20, 4 << 20, 20 << 20} {
		if needed <= size {
			return size
		}
	}
	return needed + needed/2
}
