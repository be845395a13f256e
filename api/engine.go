package api

import (
	"context"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/events"
)

// Engine is what the handlers ask of the server behind them; *server.Server is
// one. All methods are safe for concurrent use and return *graphmill.Error,
// *graphmill.Fault, or the context's error for everything that a caller can do
// something about; any other error is a defect and answered as one.
type Engine interface {
	// PushModule checks and stores an upload. It does not keep r.Bytes.
	PushModule(ctx context.Context, r server.PushRequest) (server.PushResult, error)
	// Modules returns the active version of every module, sorted by name.
	Modules(ctx context.Context) ([]graphmill.Module, error)
	// ModuleVersions returns all versions of a module, newest first.
	ModuleVersions(ctx context.Context, name string) ([]graphmill.Module, error)
	// DeleteModule removes all versions; KindConflict while a stream uses it.
	DeleteModule(ctx context.Context, name string) error
	// RollbackModule makes another version the active one; 0: the one before.
	RollbackModule(ctx context.Context, name string, version int) (graphmill.Module, error)
	// DeleteModuleVersion removes one version; KindConflict for the active one,
	// unless it is the only one and no stream uses the module.
	DeleteModuleVersion(ctx context.Context, name string, version int) error
	// ModuleUses returns the streams that use a module, sorted by name.
	ModuleUses(ctx context.Context, name string) ([]server.ModuleUse, error)
	// ModuleContent returns a version and its bytes; 0: the active one.
	ModuleContent(ctx context.Context, name string, version int) (graphmill.Module, []byte, error)
	// RecheckModules reads and loads the active version of a module again, as a
	// start would; empty: of all.
	RecheckModules(ctx context.Context, name string) error
	// RunTransformation calls a transformation once and executes nothing.
	RunTransformation(ctx context.Context, r server.RunRequest) (server.RunResult, error)

	// CreateStream stores a definition. With check, an absent broker or topic
	// refuses it.
	CreateStream(ctx context.Context, r server.CreateRequest) (server.StreamInfo, error)
	// Streams returns every stream, sorted by name.
	Streams(ctx context.Context) ([]server.StreamInfo, error)
	Stream(ctx context.Context, name string) (server.StreamInfo, error)
	DeleteStream(ctx context.Context, name string, r server.DeleteRequest) error
	// StartStream returns once the start positions are settled, or once the
	// server's start timeout has passed: the stream is then waiting. With a batch
	// limit it returns when so many batches are applied.
	StartStream(ctx context.Context, name string, r server.StartRequest) (server.StartResult, error)
	// PatchStream changes a definition, of a running stream at a batch boundary.
	PatchStream(ctx context.Context, name string, r server.PatchRequest) (server.PatchResult, error)
	// StreamOffsets tells where a start would begin; SetStreamOffsets moves that.
	StreamOffsets(ctx context.Context, name string) (graphmill.OffsetsInfo, error)
	SetStreamOffsets(ctx context.Context, name string, r server.SetOffsetsRequest) (graphmill.OffsetsInfo, error)
	// StopStream returns once the batches under way are finished.
	StopStream(ctx context.Context, name string) (server.StreamInfo, error)
	// StartAll and StopAll tell every stream, sorted by name; one that fails does
	// not keep the others.
	StartAll(ctx context.Context) ([]server.Changed, error)
	StopAll(ctx context.Context) ([]server.Changed, error)
	// CheckStream reads beside the stream and executes nothing.
	CheckStream(ctx context.Context, name string, r server.CheckRequest) ([]server.CheckBatch, error)
	StreamStatus(ctx context.Context, name string) (graphmill.StreamStatus, error)

	// Events begins to collect events for a reader, who closes the subscription;
	// KindUnavailable where there are too many readers.
	Events(ctx context.Context, f events.Filter) (*events.Subscription, error)

	// Ready says why the server cannot do its work now; nil when it can.
	Ready(ctx context.Context) error
}
