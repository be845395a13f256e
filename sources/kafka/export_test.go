package kafka

// Buffered tells what the client of a source has fetched and not handed out.
func Buffered(s *Source) (messages, bytes int64) {
	return s.cl.BufferedFetchRecords(), s.cl.BufferedFetchBytes()
}
