package graphmill

import "encoding/binary"

// The wire form of sdk/ABI.md, version 1, as far as a guest has to know it.
const (
	requestMagic  = 0x31424d47 // "GMB1"
	responseMagic = 0x31524d47 // "GMR1"

	// null as a length means null; as a message index, the batch as a whole.
	null       = 0xffffffff
	wholeBatch = null

	requestHeaderSize  = 48
	messageSize        = 72 // the least stride of a message record
	topicSize          = 16
	headerEntrySize    = 16
	cursorAt           = 4
	responseHeaderSize = 28
	querySize          = 16
	nameSize           = 8
	statementSize      = 16
	failureSize        = 16

	failureRetry   = 1
	failureAborted = 2

	// maxDepth is how deep lists and maps may be nested, the parameters' own
	// map or list counted.
	maxDepth = 64

	// maxQueryText is the longest query text, in bytes.
	maxQueryText = 1 << 20
)

// Frames are little-endian, the MessagePack values in them big-endian.
var (
	le = binary.LittleEndian
	be = binary.BigEndian
)
