// Package pulsarserver is a Pulsar broker in the process of a test: it speaks
// the binary protocol on a port of its own, and what of the admin REST interface
// tests and Graphmill ask for on another. The real client talks to it, so that
// tests see what users will see, and it fails on demand at the moments that
// matter. What it does was settled against Pulsar 4.0: the table in
// broker_test.go runs against both.
//
// It does:
//
//   - topics, partitioned or not, made by CreateTopic, by the admin interface, or
//     by their first use; deleted by force under their producers and consumers;
//   - durable subscriptions and readers, Exclusive and Failover. Which consumer of
//     a Failover subscription is the active one is decided as the broker does it;
//   - entries kept as they came: batches, chunks, compression, keys and properties are the
//     client's affair. An entry is acknowledged as a whole or not at all, since
//     acknowledgmentAtBatchIndexLevelEnabled is off, as it is by default;
//   - individual and cumulative acknowledgement, redelivery, seek by id and time;
//   - tokens, and refusals by role;
//   - ledgers: each topic has one, and another one each time that the broker has
//     been away, so that entry ids begin at 0 again.
//
// It does not:
//
//   - store anything on disk, drop entries that all have acknowledged, expire
//     subscriptions, or keep quotas;
//   - Shared and Key_Shared subscriptions, transactions, compaction,
//     delayed delivery, deduplication, exclusive producers, non-persistent topics,
//     watchers of topic lists, or schemas beyond "there is none". Such commands are
//     refused by an error that says so;
//   - count redeliveries: neither does the broker on Exclusive and Failover
//     subscriptions, where the count is always 0.
package pulsarserver
