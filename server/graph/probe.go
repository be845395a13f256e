package graph

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/graphmill/graphmill"
)

// maxProbe bounds a look at a server that has closed the connection.
const maxProbe = 2 * time.Second

// explainClosed finds out why a server closes connections as soon as they are
// there. One that speaks TLS does so when it is spoken to without, and the other
// way round; so does one that is going down, or a proxy with nobody behind it. So
// it is spoken to in the other way, without a word of who we are: if it answers,
// the scheme is wrong, and waiting does not help. Nil: there is nothing to say.
func (s *Sink) explainClosed(ctx context.Context, causes []error) *graphmill.Fault {
	if !wasClosed(causes) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(maxProbe, s.cfg.ConnectTimeout))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.target)
	if err != nil {
		return nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if strings.Contains(s.scheme, "+s") {
		if answersBolt(conn) {
			return faultTLS.whole("the database at " + s.target + " closes the connection when TLS begins, and answers without")
		}
		return nil
	}
	if answersTLS(ctx, conn) {
		return faultTLS.whole("the database at " + s.target + " speaks TLS only, and --graph-uri asks for none")
	}
	return nil
}

// wasClosed reports whether the other side has closed the connection.
func wasClosed(causes []error) bool {
	for _, err := range causes {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			return true
		}
	}
	return hasType(causes, "errorutil.TlsError")
}

// answersBolt begins to speak Bolt. Its handshake is a magic number and four
// versions; the answer is the version chosen, or zero.
func answersBolt(conn net.Conn) bool {
	hello := []byte{0x60, 0x60, 0xb0, 0x17, 0, 4, 4, 5, 0, 2, 4, 4, 0, 0, 0, 3, 0, 0, 0, 0}
	if _, err := conn.Write(hello); err != nil {
		return false
	}
	var version [4]byte
	_, err := io.ReadFull(conn, version[:])
	return err == nil && version[0] == 0 && version[3] != 0
}

// answersTLS begins to speak TLS. Which certificate it shows does not matter.
func answersTLS(ctx context.Context, conn net.Conn) bool {
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx) == nil
}
