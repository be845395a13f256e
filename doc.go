// Package graphmill holds the words of Graphmill as Go types: what a message,
// a batch, a statement, a module, a stream and a position are, and which
// errors there are. It is contracts only; the machinery stands in the
// packages below this one:
//
//	cmd -> api -> server -> {wasmhost, batching, sources} -> graphmill
//
// A stream reads a topic in batches, hands each batch to a transformation
// compiled to WebAssembly, executes the statements that come back in one
// transaction of a graph database, and only then acknowledges the batch.
package graphmill
