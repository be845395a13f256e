package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/stretchr/testify/require"
)

// disk is a file on a disk that fails when it is told to.
type disk struct {
	*os.File
	writes, syncs, truncates error
	written                  int // bytes that are written although writes fail
}

func (d *disk) WriteAt(b []byte, at int64) (int, error) {
	if d.writes != nil {
		n, _ := d.File.WriteAt(b[:d.written], at)
		return n, d.writes
	}
	return d.File.WriteAt(b, at)
}

func (d *disk) Sync() error {
	if d.syncs != nil {
		return d.syncs
	}
	return d.File.Sync()
}

func (d *disk) Truncate(size int64) error {
	if d.truncates != nil {
		return d.truncates
	}
	return d.File.Truncate(size)
}

func TestDiskThatFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		fail    disk
		code    string
		unknown bool
	}{
		{"full", disk{writes: syscall.ENOSPC, written: 10}, codeDiskFull, false},
		{"quota used up", disk{writes: &os.PathError{Op: "write", Err: syscall.EDQUOT}}, codeDiskFull, false},
		{"broken", disk{writes: syscall.EIO}, codeUnwritable, false},
		{"full at fsync", disk{syncs: syscall.ENOSPC}, codeDiskFull, false},
		{"broken at fsync, and the line cannot be taken back", disk{syncs: syscall.EIO, truncates: syscall.EIO}, codeUnwritable, true},
		{"full, and the half of the line cannot be taken back", disk{writes: syscall.ENOSPC, written: 10, truncates: syscall.EIO}, codeDiskFull, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "l")
			s, err := Open(path, nil)
			require.NoError(t, err)
			defer s.Close(t.Context())
			position := func(offset int64) []graphmill.Position {
				return []graphmill.Position{{TopicPartition: graphmill.TopicPartition{Topic: "t"}, Offset: offset}}
			}
			run := func(offset int64) error {
				_, err := s.Execute(t.Context(), graphmill.Work{Stream: "a", Last: position(offset)})
				return err
			}
			require.NoError(t, run(1))
			before, err := os.ReadFile(path)
			require.NoError(t, err)

			good := s.file.(*os.File)
			tc.fail.File = good
			s.file = &tc.fail
			for attempt := range 2 {
				err := run(2)
				require.Error(t, err)
				f, ok := err.(*graphmill.Fault)
				require.True(t, ok)
				require.Equal(t, graphmill.FaultTransient, f.Class)
				require.True(t, f.Outage)
				if attempt == 0 || !tc.unknown { // else nothing is tried while the old line is there
					require.Equal(t, tc.code, f.Code)
					require.Equal(t, tc.unknown, f.Unknown)
				}
				require.Equal(t, position(1), s.Positions("a"))
				if !tc.unknown {
					now, err := os.ReadFile(path)
					require.NoError(t, err)
					require.Equal(t, before, now)
				}
			}

			s.file = good // mended
			require.NoError(t, s.Verify(t.Context(), ""))
			require.NoError(t, run(3))
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, 2, strings.Count(string(now), "\n"))
			require.True(t, strings.HasPrefix(string(now), string(before)))
			require.Equal(t, position(3), s.Positions("a"))
		})
	}
}
