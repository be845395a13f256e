package boltserver

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Tags of the messages of Bolt 5.4.
const (
	msgHello     = 0x01
	msgGoodbye   = 0x02
	msgReset     = 0x0f
	msgRun       = 0x10
	msgBegin     = 0x11
	msgCommit    = 0x12
	msgRollback  = 0x13
	msgDiscard   = 0x2f
	msgPull      = 0x3f
	msgTelemetry = 0x54
	msgRoute     = 0x66
	msgLogon     = 0x6a
	msgLogoff    = 0x6b

	msgSuccess = 0x70
	msgRecord  = 0x71
	msgIgnored = 0x7e
	msgFailure = 0x7f
)

// maxMessage bounds the memory that one client takes.
const maxMessage = 256 << 20

// magic opens a Bolt connection.
const magic = 0x6060b017

// handshake settles the protocol version, which is always 5.4.
func handshake(r io.Reader, w io.Writer) error {
	var hello [20]byte
	if _, err := io.ReadFull(r, hello[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(hello[:]) != magic {
		return errors.New("the client does not speak Bolt")
	}
	for i := 4; i < len(hello); i += 4 {
		back, minor, major := hello[i+1], hello[i+2], hello[i+3]
		if major == 5 && minor >= 4 && minor-min(back, minor) <= 4 {
			_, err := w.Write([]byte{0, 0, 4, 5})
			return err
		}
	}
	w.Write([]byte{0, 0, 0, 0}) // no version in common; the connection ends anyway
	return errors.New("the client does not offer Bolt 5.4")
}

// readMessage reads the chunks of one message. Memory is taken as bytes arrive,
// not as they are announced.
func readMessage(r *bufio.Reader) (structure, error) {
	var message []byte
	for {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return structure{}, err
		}
		size := int(binary.BigEndian.Uint16(head[:]))
		if size == 0 {
			if len(message) == 0 {
				continue // keep-alive
			}
			return decodeMessage(message)
		}
		if len(message)+size > maxMessage {
			return structure{}, fmt.Errorf("a message is larger than %d bytes", maxMessage)
		}
		start := len(message)
		message = append(message, make([]byte, size)...)
		if _, err := io.ReadFull(r, message[start:]); err != nil {
			return structure{}, err
		}
	}
}

// writeMessage writes one message in chunks.
func writeMessage(w *bufio.Writer, tag byte, fields ...any) error {
	b, err := appendValue(nil, structure{tag: tag, fields: fields})
	if err != nil {
		return err
	}
	return writeChunks(w, b)
}

// writeChunks writes a message that is packed.
func writeChunks(w *bufio.Writer, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 0xffff)
		var head [2]byte
		binary.BigEndian.PutUint16(head[:], uint16(n))
		w.Write(head[:]) // an error shows at Flush
		w.Write(b[:n])
		b = b[n:]
	}
	_, err := w.Write([]byte{0, 0})
	return err
}
