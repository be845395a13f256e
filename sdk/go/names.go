package graphmill

// nameCache hands out copies of the few names that come with every batch, so that
// they can be kept by a handler and cost an allocation only when they are new.
type nameCache struct {
	lastStream string
	topics     []string // by topic index of the latest frame
	keys       map[string]string
}

// maxKeys bounds the header keys that are remembered.
const maxKeys = 1000

func (s *nameCache) stream(name []byte) string {
	if s.lastStream != string(name) {
		s.lastStream = string(name)
	}
	return s.lastStream
}

func (s *nameCache) topic(i uint32, name []byte) string {
	for uint32(len(s.topics)) <= i {
		s.topics = append(s.topics, "")
	}
	if s.topics[i] != string(name) {
		s.topics[i] = string(name)
	}
	return s.topics[i]
}

func (s *nameCache) headerKey(key []byte) string {
	if k, ok := s.keys[string(key)]; ok {
		return k
	}
	k := string(key)
	if s.keys == nil {
		s.keys = make(map[string]string)
	}
	if len(s.keys) < maxKeys {
		s.keys[k] = k
	}
	return k
}
