package graph

import (
	"crypto/sha256"
	"strconv"
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

// defective is a driver that panics.
type defective struct{ neo4j.DriverWithContext }

func useOf(text string) *use {
	return &use{text: text, hash: sha256.Sum256([]byte(text)), count: repeats}
}

// TestNobodyWaitsForAVerdictThatADefectPrevented: a panic ends one stream, and the
// others that have the same text go on.
func TestNobodyWaitsForAVerdictThatADefectPrevented(t *testing.T) {
	sink, err := Open(Config{URI: "bolt://127.0.0.1:1"})
	require.NoError(t, err)
	driver := sink.driver
	defer func() { sink.driver = driver; require.NoError(t, sink.Close(t.Context())) }()
	sink.driver = defective{}
	for range 2 {
		require.Panics(t, func() { _ = sink.decide(t.Context(), "s", "", useOf("CREATE (:A)")) })
	}
	work := graphmill.Work{Statements: []graphmill.Statement{{Query: &graphmill.Query{Text: "CREATE (:B)"}}}}
	for range 2 {
		require.Panics(t, func() { _, _ = sink.Execute(t.Context(), work) })
	}
	used, _ := sink.slots.state()
	require.Zero(t, used)
}

func TestWhatIsRememberedOfTextsAndDatabasesIsBounded(t *testing.T) {
	l := newLooked()
	for i := range 3 * maxLooked {
		l.needs(useOf("CALL dbms.x" + strconv.Itoa(i) + "()"))
	}
	require.LessOrEqual(t, len(l.known.entries), maxLooked)
	last := useOf("CALL dbms.x" + strconv.Itoa(3*maxLooked-1) + "()")
	_, ok := l.get(last.hash)
	require.True(t, ok)
	last.text = "it is not looked at again"
	require.Len(t, l.needs(last), 1)

	v := newVerdicts()
	for i := range 3 * maxIndexes {
		v.indexes.put(strconv.Itoa(i), &typedIndexes{}, 1)
	}
	require.LessOrEqual(t, len(v.indexes.entries), maxIndexes)
}
