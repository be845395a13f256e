// Jsonlines makes a node of each JSON object: a stream of flat records becomes a graph
// without any code.
//
//	TRANSFORM jsonlines.nodes SETTINGS {'label': 'User', 'key': 'userId'}
//
//	{"userId": 7, "name": "Ada", "tags": ["a", "b"]}
//
// becomes
//
//	MERGE (n:`User` {`userId`: $key1}) SET n += $props
//
// with key1 = 7 and props = {name: "Ada", tags: ["a", "b"]}. A payload is one object, or
// several of them, one a line. If one line is wrong, its message fails as a whole, and
// the failure names the line.
//
// # Settings
//
//	label         the label of the nodes
//	label_field   the field that holds the label, a string; it is no property then. label
//	              is for objects without it. One of the two settings is needed
//	key           the fields by which nodes are merged, separated by commas. An object must
//	              have each, as a string, number or boolean. None: each object is created
//	              anew, which makes it twice when a batch is repeated
//	take          the fields that become properties, separated by commas; default: all
//	leave         the fields that do not
//	rename        from=to, separated by commas: properties named otherwise than the fields
//	null          what a null does: "remove" (the property goes, the default) or "leave"
//	              (the property stays as it is)
//	nested        what an object within the object does: "fail" (the message fails, the
//	              default) or "flatten" ({"a": {"b": 1}} becomes a.b)
//	separator     what stands between flattened names; default: a point
//	big_integers  what becomes of an integer beyond 64 bits: "fail" (the message fails, the
//	              default) or "string" (its digits)
//	tombstones    what a message without a payload does: "drop" (nothing, the default) or
//	              "delete" (the node of the message's key, with its relationships)
//	message_key   how tombstones read the key: "text" (the default), "integer", or "json"
//	              (a value, or an object with the fields of key)
//
// The names of key, take, leave and rename are those of fields; of a flattened field the
// whole name.
//
// # Values
//
// Integers stay integers, other numbers are floats, strings are strings: times too, which
// the database can read (datetime(n.at)). Arrays hold strings, numbers or booleans, not
// mixed but for integers among floats, which become floats; a graph database stores no
// others.
//
// Labels and key properties stand in the query, in backticks; values and the names of all
// other properties do not, so that no message can change what the query does.
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

//go:wasmexport nodes
func nodes(batch graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(batch, configured.apply)
}

//go:wasmexport transform
func transform(batch graphmill.Request) graphmill.Response { return nodes(batch) }

func main() {}
