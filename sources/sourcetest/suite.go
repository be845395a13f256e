// Package sourcetest holds every sources.Source to the contract. What all
// sources promise alike is asserted here and nowhere else; what only one broker
// has (offsets, transactions, notes in a group, entries) stays with its source.
//
// A source's own package runs the Suite: on a broker in the process, and under
// the build tag e2e on a real one. It gives a Broker, says in Abilities what that
// can carry, and ends its tests with goleak.VerifyTestMain, which shows that
// nothing of a source is left behind, however it ended.
//
// Positions are opaque here: they come from the source and go back to it.
// Messages are known by their payload.
package sourcetest

import (
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// Patience is how long anything may take that must happen. Machines that run
// tests can be very slow.
const Patience = time.Minute

// Broker is a broker as one subtest sees it: what the source under test talks
// to, and a client of its own beside that. A method that cannot do its work ends
// the subtest that the Broker was opened for. The methods are for the subtest's
// goroutine, but Produce, which may be called from another one at a time.
type Broker interface {
	// Name returns a name for a topic or a stream that nothing has had before. It
	// is what Message.Topic tells: the full name, where the broker has such.
	Name() string

	// Create makes a topic with partitions 0 to n-1 and returns when it can be
	// written and read. No topic may be made by being asked for.
	Create(topic string, n int)

	// Produce appends messages to one partition, in order, as one unit of the
	// broker's (a record batch of Kafka, an entry of Pulsar), and
	// returns when the broker has confirmed it. It looks at Payload, Key, Headers
	// and Timestamp (0: now) alone.
	Produce(topic string, partition int32, messages ...graphmill.Message)

	// Source makes a source, which has not been opened. Sources of streams with
	// the same Name read as one: they share its partitions. The suite closes it.
	Source(s Stream, obs sources.Observer) sources.Source

	// Crash ends a source as the end of its process would: its connections are
	// cut, the broker is told nothing, and its goroutines end. The suite calls
	// Close after it, whose error it does not look at.
	Crash(s sources.Source)

	// Acknowledged tells what the broker has stored as acknowledged by the stream,
	// in all its topics, as text that two calls can be compared by. It asks the
	// broker itself, and holds nothing that moves by itself.
	Acknowledged(s Stream) string

	// Stop makes the broker go away, as when its process ends: connections break,
	// new ones are refused. Start brings it back with all that it had, under the
	// same address. What the client of Produce needs for that is done here.
	Stop()
	Start()
}

// Stream is what a source of the suite reads.
type Stream struct {
	Name   string // of the consumer group, or the subscription
	Topics []string
	Start  graphmill.Start
	Known  []graphmill.Position // of the catalog

	// Crashes says that one of its sources will crash: the broker should give its
	// partitions to others within seconds, where that can be set.
	Crashes bool
}

// Abilities say what a broker carries, and so which of two things the suite
// asserts. Nothing is left out because of them without a subtest that says so.
type Abilities struct {
	// NullPayload: a message without a payload is told from one with an empty one.
	NullPayload bool

	// EmptyKey: an empty key is told from none.
	EmptyKey bool

	// HeaderList: headers keep order, duplicates and null, and values may be any
	// bytes. Else they are texts, each key stands once, and the source gives them
	// sorted by key, so that they are the same each time.
	HeaderList bool

	// WholeBatches: what was produced as one unit is delivered and taken back as a
	// whole. Fetch then returns more than it was asked for where it begins one, and
	// without a known position a unit that is half done comes again as a whole.
	WholeBatches bool

	// HandsOver: a partition that moves to another source is given up by the first
	// before the second is given it. Else the first may hear of it afterwards.
	HandsOver bool

	// NoLag: Partitions cannot tell end and lag, and says -1.
	NoLag bool

	// BigPayload is the size in bytes of the biggest payload that a message
	// without key and headers may have, with the broker's defaults.
	BigPayload int
}

// Suite is the contract of sources.Source as tests.
type Suite struct {
	// Open returns the broker for one subtest, and closes it at its end.
	Open func(t *testing.T) Broker

	// Shared says that there is one broker behind all that Open returns. Subtests
	// that stop it then run while no other does.
	Shared bool

	Abilities
}

// Run runs all subtests.
func (s Suite) Run(t *testing.T) {
	for _, sit := range situations {
		t.Run(sit.name, func(t *testing.T) {
			// Those that run by themselves are over before the first parallel one
			// goes on: t.Parallel waits for the end of Run.
			if !s.Shared || !sit.outage {
				t.Parallel()
			}
			sit.test(&trial{t: t, b: s.Open(t), can: s.Abilities})
		})
	}
}

// situation is one subtest.
type situation struct {
	name   string
	outage bool // it stops the broker
	test   func(*trial)
}

var situations = []situation{
	{name: "nothing that is produced after Open is missed", test: startsLatest},
	{name: "earliest begins with the first message", test: startsEarliest},
	{name: "a time begins with the first message from then on", test: startsAtATime},
	{name: "messages of a partition come in order", test: keepsOrder},
	{name: "several topics are read together", test: readsSeveralTopics},
	{name: "Fetch returns no more than asked and keeps the rest", test: fetchesNoMoreThanAsked},
	{name: "the end of Fetch's context loses nothing", test: losesNothingWithTheContext},

	{name: "case 12: null and empty are kept apart", test: keepsNullAndEmpty},
	{name: "case 12: a message without a payload", test: keepsNullPayload},
	{name: "keys and payloads are any bytes", test: keepsBytes},
	{name: "headers come as they are", test: keepsHeaders},
	{name: "the time of a message is kept", test: keepsTime},
	{name: "a message as big as the broker takes", test: readsBigMessages},
	{name: "a message that comes again is the same", test: repeatsTheSame},

	{name: "what was not acknowledged comes again after Close", test: repeatsAfterClose},
	{name: "what was not acknowledged comes again after a crash", test: repeatsAfterACrash},
	{name: "a source that ends before its first acknowledgement goes on where it began", test: goesOnWhereItBegan},
	{name: "reading goes on exactly behind what was acknowledged", test: goesOnBehind},
	{name: "each border within a batch, with the known position", test: goesOnAtEachBorderKnown},
	{name: "each border within a batch, without a known position", test: goesOnAtEachBorder},
	{name: "acknowledging again or less changes nothing", test: acknowledgesOnce},
	{name: "what was fetched and not acknowledged is not stored", test: storesNothingByItself},
	{name: "Acknowledge and Partitions beside Fetch", test: worksBesideFetch},
	{name: "Partitions tells the lag until all is acknowledged", test: tellsTheLag},

	{name: "Open ends with its context", test: opensWithinItsContext},
	{name: "a source that is not open, or closed", test: refusesWhenClosed},
	{name: "Close gives the partitions up at once", test: closesAtOnce},

	{name: "case 7: partitions move to a second source and come back", test: movesPartitions},
	{name: "case 7: what is revoked is acknowledged no more", test: leavesOutRevoked},
	{name: "case 7: a stream may finish with a partition before it moves", test: finishesWithinRevoked},
	{name: "case 7: nothing is lost while sources come, go and crash", test: losesNothingInRounds},
	{name: "more sources than partitions", test: standsBy},

	{name: "case 34: a topic that is created later", test: waitsForATopic},
	{name: "case 34: a topic that is created later beside one that is there", test: readsBesideAnAbsentTopic},
	{name: "case 34: a topic that is created while no source is there", test: readsATopicCreatedMeanwhile},

	{name: "a broker that is away at Open", outage: true, test: waitsAtOpen},
	{name: "a broker that goes away and comes back", outage: true, test: waitsWhileReading},
	{name: "what was fetched before an outage", outage: true, test: acknowledgesAfterAnOutage},
	{name: "Close while the broker is away", outage: true, test: closesWithoutABroker},
}
