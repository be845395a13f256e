// Package catalog keeps what must outlive the process: stream definitions with
// their desired state, modules with their versions, and the last acknowledged
// positions.
package catalog

import (
	"context"
	"time"

	"github.com/graphmill/graphmill"
)

// Stream is a stored stream.
type Stream struct {
	Spec      graphmill.StreamSpec `json:"spec"`
	Desired   graphmill.State      `json:"desired"` // stopped or running
	CreatedAt time.Time            `json:"created_at"`
	Owner     string               `json:"owner,omitempty"` // who created it

	// Failed is set while the stream has failed: it is not resumed at a
	// restart, although it is desired running.
	Failed *graphmill.Reason `json:"failed,omitempty"`

	// Locked are secrets of Spec that could not be opened: the stream cannot run.
	// Nil: there are none. It is not stored.
	Locked *Locked `json:"-"`

	// Revision counts the changes of this entry. An update states the revision
	// that it was made from.
	Revision uint64 `json:"revision"`
}

// Broken is an entry that could not be read. It is left as it is.
type Broken struct {
	Kind string // "stream", "module"
	Name string
	Err  error

	// Known is what can be read of a stream all the same, without settings of the
	// broker's client; its name and a desired state at least.
	Known Stream
}

// Catalog is the store. Every write is durable before it returns. Safe for
// concurrent use.
//
// Errors are *graphmill.Error: KindNotFound, KindConflict (the name is taken,
// the revision is not the stored one, the module is in use, an entry cannot be
// read), KindUnavailable once it is closed, and KindInternal.
type Catalog interface {
	// Streams returns every readable stream by name, and the broken ones.
	Streams(ctx context.Context) ([]Stream, []Broken, error)
	// Stream returns one stream, its secrets opened with the keys that there are
	// now.
	Stream(ctx context.Context, name string) (Stream, error)
	// CreateStream stores a new stream with revision 1.
	CreateStream(ctx context.Context, s Stream) (Stream, error)
	// UpdateStream replaces the stream whose stored revision is s.Revision and
	// returns it with the next one. Of its locked secrets those count as set anew
	// that have another value.
	UpdateStream(ctx context.Context, s Stream) (Stream, error)
	// MoveStream is UpdateStream and MergePositions in one. With forget, positions
	// of all other partitions are removed.
	MoveStream(ctx context.Context, s Stream, positions []graphmill.Position, forget bool) (Stream, error)
	// DeleteStream removes a stream and its positions.
	DeleteStream(ctx context.Context, name string) error

	// Modules returns every version of every readable module, by name, newest
	// version first, and the broken ones.
	Modules(ctx context.Context) ([]graphmill.Module, []Broken, error)
	// ModuleVersions returns the versions of one module, newest first.
	ModuleVersions(ctx context.Context, name string) ([]graphmill.Module, error)
	// PutModule stores bytes as the next version of m.Name, and makes it the
	// active one if activate is set or it is the first. The same bytes as the
	// newest version make none: created is false, and the version is activated
	// all the same. It refuses to activate a version that lacks a function
	// which a stream uses (code function_in_use).
	PutModule(ctx context.Context, m graphmill.Module, bytes []byte, activate bool) (stored graphmill.Module, created bool, err error)
	// ActivateModule makes a version the one that streams use; 0 means the one
	// that was active before it (else KindConflict, no_earlier_version). changed is
	// false where it is that already. KindNotFound has code version_not_found where
	// only the version is absent. It refuses as PutModule does (function_in_use).
	ActivateModule(ctx context.Context, name string, version int) (m graphmill.Module, changed bool, err error)
	// ModuleBytes returns the bytes of a stored version by their hash, checked
	// against it. Where the file is gone or changed the error is of KindConflict
	// (module_bytes_lost, module_bytes_damaged); the same bytes pushed again mend
	// it.
	ModuleBytes(ctx context.Context, sha256 string) ([]byte, error)
	// DeleteModule removes all versions, unless a stream uses the module (code
	// module_in_use). readOnly names a module of this name that lies beside the
	// program, which streams would use then; its transformations must suffice. An
	// entry that cannot be read is removed whoever uses it. It returns the versions
	// that it has removed, as far as they could be read.
	DeleteModule(ctx context.Context, name string, readOnly *graphmill.Module) ([]graphmill.Module, error)
	// DeleteModuleVersion removes one version, unless it is the active one (code
	// version_active). Its number is not given again. The only version of a module
	// goes with the module, as by DeleteModule. It returns the version.
	DeleteModuleVersion(ctx context.Context, name string, version int, readOnly *graphmill.Module) (graphmill.Module, error)
	// LostModules returns the stored versions whose files are gone or have another
	// size; their contents are not looked at.
	LostModules(ctx context.Context) ([]graphmill.Module, error)

	// Positions returns the last acknowledged positions of a stream, sorted.
	Positions(ctx context.Context, stream string) ([]graphmill.Position, error)
	// MergePositions replaces the positions of the partitions given.
	MergePositions(ctx context.Context, stream string, positions []graphmill.Position) error

	Close() error
}
