package api

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// completeSchemas describes the fields of the types that other packages own,
// which carry no words of their own for OpenAPI. It says of arrays that they are
// never null, for none is, and leaves what is only answered open to new fields.
// A test sees to it that no field is left without a description.
func (s *service) completeSchemas() {
	schemas := s.huma.OpenAPI().Components.Schemas.Map()
	// Huma adds its own error types, which fromHuma never lets out.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	schemas["Statement"].Properties["parameters"].Type = huma.TypeObject
	asked := s.requestSchemas()
	for name, schema := range schemas {
		if !asked[name] {
			schema.AdditionalProperties = nil
		}
		for field, property := range schema.Properties {
			if text := descriptions[name+"."+field]; property.Description == "" {
				property.Description = text
			}
			notNull(property)
		}
	}
}

// requestSchemas names the schemas that stand in the body of a request.
func (s *service) requestSchemas() map[string]bool {
	doc := s.huma.OpenAPI()
	names := map[string]bool{}
	var add func(*huma.Schema)
	add = func(schema *huma.Schema) {
		if schema == nil {
			return
		}
		if schema.Ref != "" {
			name := schemaName(schema)
			if names[name] {
				return
			}
			names[name] = true
			schema = doc.Components.Schemas.SchemaFromRef(schema.Ref)
		}
		add(schema.Items)
		for _, p := range schema.Properties {
			add(p)
		}
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Put, item.Post, item.Patch} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, c := range op.RequestBody.Content {
				add(c.Schema)
			}
		}
	}
	return names
}

func notNull(schema *huma.Schema) {
	if schema.Type == huma.TypeArray {
		schema.Nullable = false
		notNull(schema.Items)
	}
}

var descriptions = parseDescriptions(`
Module.name               The name of the module.
Module.version            1, 2, ... within the name.
Module.sha256             SHA-256 of the uploaded bytes, hexadecimal.
Module.size               Size of the upload in bytes.
Module.content_type       What the upload was.
Module.transformations    Its transformations: the exported functions, sorted.
Module.created_at         When this version was uploaded.
Module.active             Whether streams use this version.
Module.read_only          Lies beside the program and cannot be removed.
PushedModule.name               The name of the module.
PushedModule.version            1, 2, ... within the name.
PushedModule.sha256             SHA-256 of the uploaded bytes, hexadecimal.
PushedModule.size               Size of the upload in bytes.
PushedModule.content_type       What the upload was.
PushedModule.transformations    Its transformations: the exported functions, sorted.
PushedModule.created_at         When this version was uploaded.
PushedModule.active             Whether streams use this version.
PushedModule.read_only          Lies beside the program and cannot be removed.
ModuleUse.stream          The stream.
ModuleUse.function        The transformation of the module that it uses.
ModuleUse.state           What the stream does.
ModuleUse.version         The version that it transforms with now; left out: it does not run.
LogLine.level             debug, info, warn or error.
LogLine.text              The line.
MessageRef.topic          The topic.
OffsetsInfo.group         The consumer group; of Pulsar the subscription.
OffsetsInfo.members       Who is in it now: positions cannot be set while there are any.
OffsetsInfo.partitions    Where a start would begin, by topic and partition.
GroupMember.client_id     How the member calls itself.
GroupMember.host          Where it runs.
PartitionOffsets.topic      The topic.
PartitionOffsets.partition  The partition.
PartitionOffsets.topic_id   The broker's id of the topic.
PartitionOffsets.offset     The next offset to read; null: not known now.
PartitionOffsets.origin     Why there: group (its commit), catalog (the last acknowledged position), new_partition, start_from, accepted.
PartitionOffsets.first      The first offset that the broker still has; null: not known now.
PartitionOffsets.end        Behind the last committed message; null: not known now.
PartitionOffsets.lag        End less offset, of Pulsar in entries; null: not known now.
PartitionOffsets.message_id       Pulsar: the next message to read, LEDGER:ENTRY:INDEX.
PartitionOffsets.last_message_id  Pulsar: the last message that the broker has.
PartitionOffsets.lag_from         Pulsar: who tells the lag, client or admin.
PartitionOffsets.problem    Why a start would fail here.
OffsetProblem.code          position_lost or topic_recreated.
OffsetProblem.text          What is the matter.
OffsetProblem.next_step     What to do, a sentence or a command.
MessageRef.partition      The partition.
MessageRef.offset         The offset; -1 for Pulsar.
MessageRef.message_id     Pulsar: where it stands, LEDGER:ENTRY:INDEX.
Reason.code               A stable word for programs, such as broker_unreachable.
Reason.text               What is the matter.
Reason.since              Since when.
Reason.next_step          What to do, a sentence or a command.
Position.topic            The topic.
Position.partition        The partition.
Position.topic_id         The broker's id of the topic; tells a topic that was made anew.
Position.offset           The next offset to read; -1 for Pulsar.
Position.message_id       Pulsar: the next message to read, LEDGER:ENTRY:INDEX.
TopicPartition.topic      The topic.
TopicPartition.partition  The partition.
StreamStatus.name         The name of the stream.
StreamStatus.desired      What is wanted: stopped or running.
StreamStatus.state        What it does: stopped, starting, running, draining, waiting or failed.
StreamStatus.standby      Running, but without a partition: another server of the group has all; of Pulsar also where the broker does not tell before a message comes.
StreamStatus.reason       Why it is waiting or has failed.
StreamStatus.module       The exact module that it transforms with.
StreamStatus.current_batch  The batch that is being executed.
StreamStatus.batch_size   Messages that close a batch for now, where that is less than the definition says, since one was too big.
StreamStatus.partitions   How far it is in each partition that it owns.
StreamStatus.texts        How its query texts are executed.
StreamStatus.last_failure The last failure.
StreamStatus.counters     Counts since its last start in this process.
StreamStatus.rates        How fast it is.
Rates.messages_per_second_10s  Messages acknowledged a second, over the last 10 seconds.
Rates.messages_per_second_1m   Messages acknowledged a second, over the last minute.
Event.id                  Where a reader may go on from; absent in an event of the type lagged.
Event.at                  When it happened.
Event.type                state, batches, failure, module, warning or lagged.
Event.stream              The stream that it happened to.
Event.state               Of type state: what it is in from here on.
Event.batches             Of type batches: what has been done since the last such event.
Event.failure             Of type failure: what has failed.
Event.module              Of type module: what it transforms with from here on.
Event.lagged              Of type lagged: how much is missing here.
Event.text                Of type warning: what should be known.
StateChange.state         The state.
StateChange.reason        Why, where it is waiting or has failed.
BatchesDone.since         When the first of these batches was done.
BatchesDone.batches       Batches acknowledged.
BatchesDone.messages      Messages in them.
BatchesDone.bytes         Bytes of payload, keys and headers.
BatchesDone.statements    Statements executed and committed.
BatchesDone.statements_sent  Statements sent, after runs of equal texts were joined.
BatchesDone.dropped       Messages for which the transformation returned nothing.
BatchesDone.positions     How far the stream has come by them.
Lagged.lost               Events of all streams that are missing; -1: not known.
ModuleVersion.name        The module.
ModuleVersion.version     Its version.
ModuleVersion.sha256      SHA-256 of its bytes.
BatchStatus.first         Where it begins in each partition.
BatchStatus.last          The positions once it is done.
BatchStatus.messages      Messages in it.
BatchStatus.statements    Statements that came of it.
BatchStatus.attempt       1, 2, ...
BatchStatus.next_retry_at When it is tried again.
BatchStatus.since When it was first handed to the database.
PartitionStatus.topic         The topic.
PartitionStatus.partition     The partition.
PartitionStatus.topic_id      The broker's id of the topic.
PartitionStatus.notice        What limits the care that is taken of the partition; absent: nothing.
PartitionStatus.acknowledged  The next offset to read after what is acknowledged; null: not known.
PartitionStatus.end           The broker's end offset; null: not known now.
PartitionStatus.lag           End less acknowledged, of Pulsar in entries; null: not known now.
PartitionStatus.message_id       Pulsar: the next message to read after what is acknowledged, LEDGER:ENTRY:INDEX.
PartitionStatus.last_message_id  Pulsar: the last message that the broker has.
PartitionStatus.lag_from         Pulsar: who tells the lag, client (0 where all is read, else an estimate or null) or admin (the broker's own backlog).
PartitionStatus.messages_per_second_10s Messages acknowledged a second by this server, over the last 10 seconds.
PartitionStatus.lane          The lane that reads it, from 0; null: nothing reads it here.
TextStatus.hash           First 12 hexadecimal digits of the text's SHA-256.
TextStatus.query          The text, cut at 200 bytes.
TextStatus.form           coalesced: runs of it are sent as one statement; plain: one by one.
TextStatus.why            Why it is plain, or what was special about the last batch.
FailureStatus.at          When.
FailureStatus.code        A stable word for programs.
FailureStatus.text        What happened.
FailureStatus.positions   Where the failed batch begins.
FailureStatus.message     The partition of the message to look at first.
FailureStatus.offset      The offset of that message.
FailureStatus.message_id  Pulsar: the id of that message.
Counters.since            When counting began, with the last start; absent where there was none in this process.
Counters.messages         Messages acknowledged.
Counters.batches          Batches acknowledged.
Counters.batches_closed   Batches by why they were closed: size, bytes, interval, stop, limit.
Counters.statements       Statements executed and committed.
Counters.statements_sent  Statements sent, after runs of equal texts were joined.
Counters.dropped          Messages for which the transformation returned nothing.
Counters.retries          Attempts to execute a batch after its first.
Counters.failures         Failed batches.
Counters.unknown_commits  Commits whose outcome was not known; their batches were executed again.
Counters.splits           Batches that were cut in two, being too big.
`)

// parseDescriptions reads lines of a name and a text.
func parseDescriptions(table string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(table) {
		if name, text, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			m[name] = strings.TrimSpace(text)
		}
	}
	return m
}
