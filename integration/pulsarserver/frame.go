package pulsarserver

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is [total][command size][command], and behind SEND and MESSAGE what is
// sent: [0x0e01][crc32c][metadata size][metadata][payload]. Sizes are 4 bytes,
// big endian, and do not count themselves. The rest behind the command is kept
// and handed on as it came.

// DefaultMaxMessageSize is the limit of Options where they say nothing: that of
// the broker's default configuration.
const DefaultMaxMessageSize = 5 << 20

// frameMargin is what the broker lets a frame have beyond the largest message.
const frameMargin = 10 << 10

const magicChecksum = 0x0e01

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readFrame reads a command and what is behind it.
func readFrame(r *bufio.Reader, limit int) (command message, rest []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, nil, err
	}
	total, size := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if total < 4 || int64(total) > int64(limit) || size > total-4 {
		return message{}, nil, fmt.Errorf("a frame of %d bytes with a command of %d; the limit is %d", total, size, limit)
	}
	body := make([]byte, total-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, nil, err
	}
	command, err = decode(commandType(), body[:size])
	if err != nil {
		return message{}, nil, fmt.Errorf("decode a command: %w", err)
	}
	return command, body[size:], nil
}

// frameHead returns all of a frame that goes before rest.
func frameHead(command message, rest int) ([]byte, error) {
	b, err := command.encode()
	if err != nil {
		return nil, fmt.Errorf("encode a command: %w", err)
	}
	head := make([]byte, 8, 8+len(b))
	binary.BigEndian.PutUint32(head[:4], uint32(4+len(b)+rest))
	binary.BigEndian.PutUint32(head[4:], uint32(len(b)))
	return append(head, b...), nil
}

var errChecksum = errors.New("the checksum is wrong")

// readMetadata checks what came behind a SEND and returns its metadata.
func readMetadata(b []byte) (message, error) {
	if len(b) >= 6 && binary.BigEndian.Uint16(b) == magicChecksum {
		if crc32.Checksum(b[6:], castagnoli) != binary.BigEndian.Uint32(b[2:]) {
			return message{}, errChecksum
		}
		b = b[6:]
	}
	if len(b) < 4 {
		return message{}, errors.New("a message without metadata")
	}
	size := binary.BigEndian.Uint32(b)
	if int64(size) > int64(len(b)-4) {
		return message{}, errors.New("the metadata of a message are cut off")
	}
	return decode(metadataType(), b[4:4+size])
}
