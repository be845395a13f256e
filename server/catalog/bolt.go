package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/graphmill/graphmill"
)

// formatVersion is the version of what is stored. A store of a later version
// is refused, one of an earlier version is converted on opening.
const formatVersion = 1

var (
	metaBucket      = []byte("meta")
	streamsBucket   = []byte("streams")
	modulesBucket   = []byte("modules")
	positionsBucket = []byte("positions")
	formatKey       = []byte("format")
)

// lockWait is how long Open waits for another process to let go of the data
// directory: enough for a restart that overlaps by a moment.
const lockWait = 2 * time.Second

// Bolt is the catalog of one server, in its data directory.
type Bolt struct {
	db    *bbolt.DB
	files moduleFiles
	seal  Sealer
	log   *slog.Logger

	// fileMu makes a push and a delete of the same bytes happen one after the
	// other: file and entry change in two steps.
	fileMu sync.Mutex
}

var _ Catalog = (*Bolt)(nil)

// Open opens the catalog of a data directory, which is made if it is absent.
// Secrets of definitions are sealed by seal. log is told of files that should be
// removed and cannot be. One process at a time may have it open. Errors that a user can do something about are of KindConflict:
// data_dir_in_use, catalog_format, catalog_damaged.
func Open(dataDir string, seal Sealer, log *slog.Logger) (*Bolt, error) {
	files := moduleFiles{dir: filepath.Join(dataDir, "modules")}
	if err := os.MkdirAll(files.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dataDir, "catalog.db")
	if err := notLost(path, files); err != nil {
		return nil, err
	}
	db, err := openStore(path)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, &graphmill.Error{Kind: graphmill.KindConflict, Code: "data_dir_in_use", Field: "data_dir",
			Text: fmt.Sprintf("another process uses the data directory %s", dataDir),
			Next: "stop it, or give this server a directory of its own with --data-dir"}
	}
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return nil, fmt.Errorf("open the catalog %s: %w", path, err)
	}
	c := &Bolt{db: db, files: files, seal: seal, log: log}
	c.fileMu.Lock()
	defer c.fileMu.Unlock()
	c.sweepLocked()
	if err := c.sealAnew(); err != nil {
		log.Warn("secrets that an earlier key has sealed are still sealed by it; keep that key, and start the server once more", "error", err)
	}
	return c, nil
}

// notLost refuses to begin an empty catalog beside modules: their entries were in
// one that is gone, and a new one would have them swept away.
func notLost(path string, files moduleFiles) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Size() > 0:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open the catalog %s: %w", path, err)
	}
	stored, err := filepath.Glob(files.path("*"))
	if err != nil || len(stored) == 0 {
		return err
	}
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: "catalog_lost",
		Text: fmt.Sprintf("the catalog %s is absent or empty, but there are modules beside it, in %s", path, files.dir),
		Next: "put the catalog back from a backup, or move the modules away and begin anew: push them and create the streams again"}
}

// openStore opens the file, makes it what this version expects, and reads all of
// it once. bbolt trusts its pages: where a disk has damaged them it panics or
// reads beyond the file, which would otherwise happen later, to everybody.
func openStore(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			// It may hold its own locks, so that to close it would hang. The process
			// ends for this error.
			db, err = nil, damaged(fmt.Errorf("%v", p))
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	switch {
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, damaged(err)
	case err != nil:
		return nil, err
	}
	if err := db.Update(prepare); err != nil {
		return db, err
	}
	return db, db.View(readAll)
}

func damaged(err error) error {
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: "catalog_damaged",
		Text: "the file is damaged", Err: err,
		Next: "put it back from a backup, or move it away and begin with an empty catalog: modules and streams have to be made again then"}
}

// prepare makes the buckets of a new store, and refuses one of another version.
func prepare(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaBucket, streamsBucket, modulesBucket, positionsBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(metaBucket)
	stored := meta.Get(formatKey)
	if stored == nil {
		return meta.Put(formatKey, fmt.Append(nil, formatVersion))
	}
	if string(stored) != fmt.Sprint(formatVersion) {
		return &graphmill.Error{Kind: graphmill.KindConflict, Code: "catalog_format",
			Text: fmt.Sprintf("its format %q is not known to this version of graphmill, which writes format %d", stored, formatVersion),
			Next: "use the version of graphmill that wrote it, or a later one"}
	}
	return nil
}

// readAll touches every byte of every entry.
func readAll(tx *bbolt.Tx) error {
	hash := fnv.New32()
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			hash.Write(k)
			hash.Write(v)
			return nil
		})
	})
}

// Close lets go of the data directory.
func (c *Bolt) Close() error { return c.db.Close() }

// Streams implements Catalog.
func (c *Bolt) Streams(context.Context) ([]Stream, []Broken, error) {
	var streams []Stream
	var broken []Broken
	err := c.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(streamsBucket).ForEach(func(k, v []byte) error {
			s, err := c.decodeStream(k, v)
			if err != nil {
				broken = append(broken, Broken{Kind: "stream", Name: string(k), Err: err, Known: knownOf(k, v)})
				return nil
			}
			streams = append(streams, s)
			return nil
		})
	})
	return streams, broken, err
}

func (c *Bolt) decodeStream(k, v []byte) (Stream, error) {
	s, err := sealedStream(k, v)
	if err != nil {
		return s, err
	}
	s.Locked = openSecrets(&s.Spec, c.seal)
	readable := withoutLocked(s.Spec, s.Locked)
	return s, readable.Validate()
}

// knownOf returns what can be read of an entry with an error in it, such as one of
// a later version.
func knownOf(k, v []byte) Stream {
	var s Stream
	if err := json.Unmarshal(v, &s); err != nil || s.Spec.Name != string(k) {
		s = Stream{}
	}
	s.Spec.Name = string(k)
	s.Spec.Credentials, s.Spec.Configs = nil, nil // sealed
	if s.Desired != graphmill.StateRunning {
		s.Desired = graphmill.StateStopped
	}
	return s
}

// sealedStream reads an entry and leaves its secrets sealed.
func sealedStream(k, v []byte) (Stream, error) {
	var s Stream
	if err := strictJSON(v, &s); err != nil {
		return s, err
	}
	if s.Spec.Name != string(k) {
		return s, fmt.Errorf("the entry is of a stream named %q", s.Spec.Name)
	}
	if s.Desired != graphmill.StateRunning && s.Desired != graphmill.StateStopped {
		return s, fmt.Errorf("the desired state %q is not known", s.Desired)
	}
	return s, nil
}

// putStream stores a definition, its secrets sealed, in the place of another; nil:
// there is none. It returns what of the secrets stays locked.
func (c *Bolt) putStream(tx *bbolt.Tx, s Stream, stored *Stream) (*Locked, error) {
	var old *graphmill.StreamSpec
	if stored != nil {
		old = &stored.Spec
	}
	names, err := sealSecrets(&s.Spec, old, c.seal, func() bool { return !anySealed(tx, s.Spec.Name) })
	if err != nil {
		return nil, err
	}
	if err := putJSON(tx.Bucket(streamsBucket), s.Spec.Name, s); err != nil || len(names) == 0 || s.Locked == nil {
		return nil, err
	}
	return &Locked{Settings: names, Err: s.Locked.Err}, nil
}

// getStream reads an entry by decode: decodeStream, or sealedStream.
func getStream(tx *bbolt.Tx, name string, decode func(k, v []byte) (Stream, error)) (Stream, error) {
	v := tx.Bucket(streamsBucket).Get([]byte(name))
	if v == nil {
		return Stream{}, graphmill.NotFound("stream_not_found", "there is no stream %q", name)
	}
	s, err := decode([]byte(name), v)
	if err != nil {
		return s, &graphmill.Error{Kind: graphmill.KindConflict, Code: "entry_broken",
			Text: fmt.Sprintf("the catalog's entry of stream %q cannot be read", name), Err: err,
			Next: "drop the stream and create it again"}
	}
	return s, nil
}

// Stream implements Catalog.
func (c *Bolt) Stream(_ context.Context, name string) (s Stream, err error) {
	err = c.view(func(tx *bbolt.Tx) error {
		s, err = getStream(tx, name, c.decodeStream)
		return err
	})
	return s, err
}

// CreateStream implements Catalog.
func (c *Bolt) CreateStream(_ context.Context, s Stream) (Stream, error) {
	s.Revision = 1
	err := c.store(func(tx *bbolt.Tx) error {
		if tx.Bucket(streamsBucket).Get([]byte(s.Spec.Name)) != nil {
			return graphmill.Conflict("stream_exists", "there is a stream %q already", s.Spec.Name)
		}
		_, err := c.putStream(tx, s, nil)
		return err
	})
	return s, err
}

// UpdateStream implements Catalog.
func (c *Bolt) UpdateStream(_ context.Context, s Stream) (Stream, error) {
	err := c.store(func(tx *bbolt.Tx) (err error) {
		s, err = c.replaceStream(tx, s)
		return err
	})
	return s, err
}

// replaceStream stores the next revision of a stream.
func (c *Bolt) replaceStream(tx *bbolt.Tx, s Stream) (Stream, error) {
	if _, err := getStream(tx, s.Spec.Name, c.decodeStream); err != nil {
		return s, err
	}
	stored, err := getStream(tx, s.Spec.Name, sealedStream)
	if err != nil {
		return s, err
	}
	if stored.Revision != s.Revision {
		return s, graphmill.Conflict("stream_changed", "stream %q was changed by somebody else meanwhile", s.Spec.Name)
	}
	s.Revision++
	s.Locked, err = c.putStream(tx, s, &stored)
	return s, err
}

// DeleteStream implements Catalog.
func (c *Bolt) DeleteStream(_ context.Context, name string) error {
	return c.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(streamsBucket)
		if b.Get([]byte(name)) == nil {
			return graphmill.NotFound("stream_not_found", "there is no stream %q", name)
		}
		return errors.Join(b.Delete([]byte(name)), tx.Bucket(positionsBucket).Delete([]byte(name)))
	})
}

// view and update give errors that are not meant for users their kind.
func (c *Bolt) view(f func(*bbolt.Tx) error) error { return c.wrap("read", c.db.View(f)) }

func (c *Bolt) update(f func(*bbolt.Tx) error) error { return c.wrap("write", c.db.Update(f)) }

// store is update for a definition, whose secrets are sealed with the keys that there
// are now. They are read before: everybody waits for a transaction, and the file may
// be slow.
func (c *Bolt) store(f func(*bbolt.Tx) error) error {
	c.seal.Renew()
	return c.update(f)
}

func (c *Bolt) wrap(doing string, err error) error {
	var known *graphmill.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "shutting_down", Text: "the server is shutting down"}
	}
	return &graphmill.Error{Kind: graphmill.KindInternal, Code: "catalog", Text: doing + " the catalog", Err: err}
}

func putJSON(b *bbolt.Bucket, key string, value any) error {
	v, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), v)
}

// strictJSON refuses fields that this version does not know, so that an entry
// of a later version is reported rather than cut.
func strictJSON(v []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(v))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more behind the entry")
	}
	return nil
}
