package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

// PushRequest is an upload of a module.
type PushRequest struct {
	Name        string
	ContentType string // "application/wasm"
	Bytes       []byte
	NoActivate  bool // keep the version that streams use now
}

// PushResult tells what became of an upload.
type PushResult struct {
	Module  graphmill.Module
	Created bool     // false: these bytes were the newest version already
	Checked []string // what was checked, a short sentence each
}

// ModuleUse is a stream's use of a module.
type ModuleUse struct {
	Stream   string          `json:"stream"`
	Function string          `json:"function"`
	State    graphmill.State `json:"state"`
	Version  int             `json:"version,omitempty"` // that it transforms with now; 0: it does not run
}

// RunRequest asks for one transformation call on given messages.
type RunRequest struct {
	Module   string
	Function string
	Messages []graphmill.Message
	Settings map[string]string
}

// LogLine is what a transformation wrote to its log.
type LogLine struct {
	Level string `json:"level"` // debug, info, warn, error
	Text  string `json:"text"`
}

// RunResult is the answer to a RunRequest.
type RunResult struct {
	Output   graphmill.Output
	Log      []LogLine
	Duration time.Duration
	Memory   int64 // bytes of linear memory after the call
}

// CreateRequest is a new stream.
type CreateRequest struct {
	Spec  graphmill.StreamSpec
	Check bool   // an absent broker or topic refuses it
	Owner string // who creates it, for people; empty: nobody that is known

	// DryRun tells what the stream would be, with the warnings, and creates nothing.
	DryRun bool
}

// DeleteRequest says how a stream is dropped.
type DeleteRequest struct {
	// Unsubscribe ends the subscription of a Pulsar stream, too, so that the broker
	// keeps no more messages for it.
	Unsubscribe bool
}

// CheckRequest asks what a stream would execute.
type CheckRequest struct {
	BatchLimit int           // non-empty batches, at least 1
	Timeout    time.Duration // for all of it, more than 0
	From       string        // "committed", "earliest", "latest" or a time in RFC 3339

	// Alone is the rule of the CHECK statement: the stream must not run, and nothing
	// else is done with it meanwhile. A START waits for the check, and so does a
	// STOP.
	Alone bool

	// All makes it an error that there are fewer batches than asked for.
	All bool
}

// CheckBatch is one batch of a check: the messages and what the transformation
// made of them.
type CheckBatch struct {
	Messages []graphmill.Message
	Output   graphmill.Output
}

// StreamInfo is a stream in a list: its definition and how it fares.
type StreamInfo struct {
	Spec      graphmill.StreamSpec
	CreatedAt time.Time
	Desired   graphmill.State
	State     graphmill.State
	Reason    *graphmill.Reason
	Owner     string   // who created it; empty: nobody that is known
	Busy      bool     // a check that wants the stream alone is under way
	Brokers   []string // that it reads from: those of Spec, or else the server's
	HadFailed bool     // of a STOP: it had failed and did not run; what changed is what is desired
	Warnings  []string // of creation: what will not work as it is, such as a missing module
}

// Running says whether the stream counts as running in the words of the stream
// statements, which know two states only: one that waits does, and so does one
// that is being checked.
func (i StreamInfo) Running() bool {
	switch i.State {
	case graphmill.StateStopped, graphmill.StateFailed, graphmill.StateBroken:
		return i.Busy
	}
	return true
}

// Kept tells what a stream that is dropped leaves with the broker at a price, for
// people; empty: nothing that costs anything.
func (i StreamInfo) Kept() string {
	if i.Spec.Source != graphmill.SourceNamePulsar {
		return ""
	}
	topic, rest := "TOPIC, for each topic of "+i.Spec.TopicsPattern, ""
	if n := len(i.Spec.Topics); n > 0 {
		topic = graphmill.PulsarTopic(i.Spec.Topics[0])
		if n > 1 {
			rest = fmt.Sprintf(", and the same for %s", count(n-1, "more topic"))
		}
	}
	return fmt.Sprintf("the subscription %q stays with Pulsar, which keeps all messages for it from now on. A stream that is created with it goes on there. To end it now: pulsar-admin topics unsubscribe -s %s %s%s. (graphmill stream drop %s --unsubscribe ends both at once.)",
		i.Spec.Subscription, shellWord(i.Spec.Subscription), topic, rest, i.Spec.Name)
}

// shellWord quotes a word for a command that is told to people.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("-_./:=", r) || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Changed tells what became of a stream when all were started or stopped.
type Changed struct {
	StreamInfo
	Err error // why it could not be started or stopped
}

// StartRequest says how a stream is started.
type StartRequest struct {
	// BatchLimit makes it a limited start: so many batches are read and applied,
	// then the stream is stopped again. 0: it runs until it is stopped.
	BatchLimit int

	// Timeout bounds a limited start; 0: DefaultLimitedStartTimeout. It must be 0
	// where there is no BatchLimit.
	Timeout time.Duration

	// AtOnce refuses the start while another command, or a check that wants the
	// stream alone, is under way, in place of waiting for its end.
	AtOnce bool

	// What it goes on with although a position is gone. It counts for this start
	// alone.
	AcceptRecreated bool   // topics that were deleted and created anew are read from their beginning
	AcceptLost      string // graphmill.StartEarliest or StartLatest: what a position that the broker no longer has becomes
}

// StartResult is the answer to a StartRequest.
type StartResult struct {
	StreamInfo

	// Of a limited start only: what was committed and acknowledged.
	Batches    int64
	Messages   int64
	Statements int64
	Positions  []graphmill.Position // where the stream has come to, in the partitions that it has moved in
}

// PatchRequest says how a definition is changed.
type PatchRequest struct {
	Patch json.RawMessage // see graphmill.StreamSpec.Patched

	// From is where reading begins in what the patch brings: topics, another
	// group, other brokers. It is needed where it brings any, and only there.
	From string // earliest, latest, a time in RFC 3339; committed: as CREATE would begin

	Check bool // absent brokers and topics that the patch brings, and a transformation that does not begin, refuse it

	// DryRun tells what would change, and changes nothing. It asks no broker and
	// needs no From; what keeps the transformation from being used is a warning.
	DryRun bool
}

// PatchResult is the answer to a PatchRequest.
type PatchResult struct {
	StreamInfo
	Changed []string // options that have another value now, entries of maps as settings.NAME
	Brings  []string // topics in which reading begins anew: new ones; all, with another group or other brokers
}

// SetOffsetsRequest says where a stopped stream is to go on.
type SetOffsetsRequest struct {
	To        string                    // see graphmill.ParseOffsetTarget
	Partition *graphmill.TopicPartition // nil: all partitions of all topics
}
