package graph

import (
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// Which procedures and functions a statement may call. Those that somebody has
// installed under a name of their own may be called; of the names that databases
// and their libraries come with, those may not that
//
//   - change or show the set-up (dbms.*, mg.load, gds.config.*),
//   - run a text that they are given, which nobody has looked at
//     (apoc.cypher.run, apoc.do.when), or run it in a transaction of its own, so
//     that the batch is no longer all or nothing (apoc.periodic.*),
//   - reach outside of the database to write or to execute (apoc.export.*,
//     apoc.load.jdbcUpdate).
//
// Reading files and addresses goes with ALLOW load_csv, and changing indexes and
// constraints with ALLOW schema. The rights of the database user are what really
// holds; see docs/database.md.

// dbHarmless are the procedures of db.*, in lower case, that read, write or
// wait. A name that ends with a dot stands for all below it.
var dbHarmless = []string{
	"db.labels", "db.propertykeys", "db.relationshiptypes", "db.info", "db.ping", "db.namefromelementid",
	"db.awaitindex", "db.awaitindexes", "db.schema.",
	"db.createlabel", "db.createproperty", "db.createrelationshiptype",
	"db.create.setnodevectorproperty", "db.create.setrelationshipvectorproperty", "db.create.setvectorproperty",
	"db.index.fulltext.querynodes", "db.index.fulltext.queryrelationships", "db.index.fulltext.listavailableanalyzers",
	"db.index.fulltext.awaiteventuallyconsistentindexrefresh",
	"db.index.vector.querynodes", "db.index.vector.queryrelationships",
}

// apocHarmless are the parts of APOC that compute, read and write data only, but
// for apocHarmful.
var apocHarmless = []string{
	"agg", "algo", "any", "atomic", "bitwise", "coll", "convert", "create", "data", "date", "diff", "example",
	"graph", "hashing", "json", "label", "lock", "map", "math", "merge", "meta", "neighbors", "node", "nodes",
	"number", "path", "paths", "refactor", "rel", "scoring", "stats", "temporal", "text", "util",
	"version", "xml",
}

// procedureRule places what a name in lower case begins with. allow is the word of
// ALLOW that permits it; empty: nothing does.
type procedureRule struct {
	prefix   string
	allow    string
	harmless bool
}

// apocHarmful are those of the harmless parts that are not. They run a text that
// they are given, begin transactions of their own, or read files.
var apocHarmful = []procedureRule{
	{prefix: "apoc.atomic.update"},    // an expression, which may go on with LOAD CSV
	{prefix: "apoc.graph.fromcypher"}, // a text
	{prefix: "apoc.meta.data.of"},     // a text in place of a graph
	{prefix: "apoc.meta.graph.of"},    // the same
	{prefix: "apoc.diff.graphs"},      // the same, and another database
	{prefix: "apoc.nodes.delete"},     // transactions
	{prefix: "apoc.refactor.rename."}, // transactions
	{prefix: "apoc.xml.import", allow: graphmill.AllowLoadCSV},
}

// procedureRules are tried in order; the first that fits counts.
var procedureRules = []procedureRule{
	// Neo4j.
	{prefix: "dbms."}, {prefix: "tx."}, {prefix: "internal."}, {prefix: "unsupported."}, {prefix: "cdc."},
	{prefix: "db.index.fulltext.create", allow: graphmill.AllowSchema},
	{prefix: "db.index.fulltext.drop", allow: graphmill.AllowSchema},
	{prefix: "db.index.vector.create", allow: graphmill.AllowSchema},
	{prefix: "db."},
	{prefix: "genai.", allow: graphmill.AllowLoadCSV}, {prefix: "ai.", allow: graphmill.AllowLoadCSV},
	{prefix: "gds.backup"}, {prefix: "gds.restore"}, {prefix: "gds.config."}, {prefix: "gds.graph.export"},

	// APOC.
	{prefix: "apoc.load.jdbc"}, {prefix: "apoc.load.ldap"}, {prefix: "apoc.load.driver"}, {prefix: "apoc.load.directory.async"},
	{prefix: "apoc.load.", allow: graphmill.AllowLoadCSV},
	{prefix: "apoc.import.", allow: graphmill.AllowLoadCSV},
	{prefix: "apoc.schema.assert", allow: graphmill.AllowSchema},
	{prefix: "apoc.schema.", harmless: true},
	{prefix: "apoc.spatial.sort", harmless: true},
	{prefix: "apoc."},

	// Memgraph and its library MAGE.
	{prefix: "mg.procedures", harmless: true}, {prefix: "mg.functions", harmless: true}, {prefix: "mg."},
	{prefix: "schema.assert", allow: graphmill.AllowSchema},
	{prefix: "import_util.", allow: graphmill.AllowLoadCSV}, {prefix: "json_util.load", allow: graphmill.AllowLoadCSV},
	{prefix: "xml_module.load", allow: graphmill.AllowLoadCSV},
	{prefix: "csv_utils."}, {prefix: "export_util."}, {prefix: "migrate."}, {prefix: "do."}, {prefix: "periodic."},
	{prefix: "cypher."}, {prefix: "trigger."}, {prefix: "llm."}, {prefix: "elastic_search_serialization."},
}

// deniedProcedure reports whether a procedure or function is not to be called
// without more ado, and which word of ALLOW permits it, if any does. Names count
// in any case: databases differ there.
func deniedProcedure(name string) (allow string, denied bool) {
	name = strings.ToLower(name)
	for _, r := range apocHarmful {
		if strings.HasPrefix(name, r.prefix) {
			return r.allow, true
		}
	}
	if rest, ok := strings.CutPrefix(name, "apoc."); ok {
		part, _, _ := strings.Cut(rest, ".")
		if slices.Contains(apocHarmless, part) {
			return "", false
		}
	}
	for _, h := range dbHarmless {
		if name == h || strings.HasSuffix(h, ".") && strings.HasPrefix(name, h) {
			return "", false
		}
	}
	for _, r := range procedureRules {
		if strings.HasPrefix(name, r.prefix) {
			return r.allow, !r.harmless
		}
	}
	return "", false
}
