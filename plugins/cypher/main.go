// Cypher runs one query for each message, so that a stream of JSON events becomes a
// graph without any code. The query is a setting of the stream:
//
//	TRANSFORM cypher.event SETTINGS {'query': 'MERGE (u:User {id: $event.userId}) SET u.name = $event.name'}
//
// # Parameters
//
// A query may use these; only the ones that it uses are sent:
//
//	$event      the payload: JSON, decoded. Objects are maps, arrays are lists,
//	            integers are exact, other numbers are floats, null is null
//	$key        the message's key: a string if it is UTF-8, else bytes; null if it has none
//	$topic      string
//	$partition  integer; null where the source has none
//	$offset     Kafka's offset, an integer; null for other sources
//	$timestamp  milliseconds since the epoch, an integer: datetime({epochMillis: $timestamp})
//	$headers    map of the headers: a value is a string if it is UTF-8, else bytes; of
//	            several of one name it is the last one
//
// Where the query takes $event apart by $event.name only, the fields of those names
// are all that is sent. The rest of the payload is checked to be JSON.
//
// # Settings
//
//	query         the query; needed. One statement; a semicolon at its end is dropped
//	big_integers  what becomes of an integer beyond 64 bits that the query uses: "fail"
//	              (the message fails, the default) or "string" (its digits)
//	tombstones    what becomes of a message without a payload where the query uses
//	              $event: "fail" (the default), "drop", or "null" ($event is null)
//
// A payload that is not JSON makes its message fail.
package main

import (
	graphmill "github.com/graphmill/graphmill/sdk/go"
)

func init() {
	graphmill.Configure(func(s graphmill.Settings) (err error) {
		configured, err = newPlan(s)
		return err
	})
}

// configured is what the settings of the stream say.
var configured *plan

//go:wasmexport event
func event(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, configured.apply)
}

//go:wasmexport transform
func transform(batch graphmill.Request) graphmill.Response { return event(batch) }

func main() {}
