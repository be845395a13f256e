package catalog_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
	"github.com/graphmill/graphmill/server/secret"
)

var ctx = context.Background()

func openCatalog(dir string) (*catalog.Bolt, error) {
	return catalog.Open(dir, secret.NewKeys(filepath.Join(dir, "secret.key"), true), slog.New(slog.DiscardHandler))
}

func open(t *testing.T, dir string) *catalog.Bolt {
	t.Helper()
	c, err := openCatalog(dir)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func reopen(t *testing.T, c *catalog.Bolt, dir string) *catalog.Bolt {
	t.Helper()
	require.NoError(t, c.Close())
	return open(t, dir)
}

func stream(name, transform string) catalog.Stream {
	spec := graphmill.StreamSpec{Name: name, Topics: []string{"t"}, Transform: transform}.WithDefaults()
	return catalog.Stream{Spec: spec, Desired: graphmill.StateStopped}
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code)
}

func TestStreamsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	created, err := c.CreateStream(ctx, stream("ratings", "movies.transform"))
	require.NoError(t, err)
	require.EqualValues(t, 1, created.Revision)

	created.Desired = graphmill.StateRunning
	updated, err := c.UpdateStream(ctx, created)
	require.NoError(t, err)
	require.EqualValues(t, 2, updated.Revision)

	c = reopen(t, c, dir)
	streams, broken, err := c.Streams(ctx)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Equal(t, []catalog.Stream{updated}, streams)
}

func TestStreamChangesAreCompareAndSet(t *testing.T) {
	c := open(t, t.TempDir())
	first, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)
	_, err = c.CreateStream(ctx, stream("s", "m.f"))
	requireCode(t, err, "stream_exists")

	_, err = c.UpdateStream(ctx, first)
	require.NoError(t, err)
	_, err = c.UpdateStream(ctx, first)
	requireCode(t, err, "stream_changed")

	require.NoError(t, c.DeleteStream(ctx, "s"))
	requireCode(t, c.DeleteStream(ctx, "s"), "stream_not_found")
	_, err = c.UpdateStream(ctx, first)
	requireCode(t, err, "stream_not_found")
}

func TestOfManyChangesFromOneRevisionOneWins(t *testing.T) {
	c := open(t, t.TempDir())
	first, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := c.UpdateStream(ctx, first); err == nil {
				won.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	require.Equal(t, 1, n)
}

func TestCase40ABrokenEntryIsReportedAndTheRestLoads(t *testing.T) {
	for name, value := range map[string]string{
		"not JSON":                `{"spec":`,
		"a field of the future":   `{"spec":{"name":"bad","shape":"round"},"desired":"stopped"}`,
		"another stream's name":   `{"spec":{"name":"good"},"desired":"stopped"}`,
		"an unknown state":        `{"spec":{"name":"bad","source":"kafka","topics":["t"],"transform":"m.f"},"desired":"flying"}`,
		"an invalid definition":   `{"spec":{"name":"bad","source":"carrier-pigeon"},"desired":"stopped"}`,
		"an empty entry":          ``,
		"a value of another type": `[]`,
		"something behind it":     `{"spec":{"name":"bad","source":"kafka","topics":["t"],"transform":"m.f"},"desired":"stopped"} {}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir)
			good, err := c.CreateStream(ctx, stream("good", "m.f"))
			require.NoError(t, err)
			require.NoError(t, c.Close())
			put(t, dir, "streams", "bad", value)

			c = open(t, dir)
			streams, broken, err := c.Streams(ctx)
			require.NoError(t, err)
			require.Equal(t, []catalog.Stream{good}, streams)
			require.Len(t, broken, 1)
			require.Equal(t, "bad", broken[0].Name)
			_, err = c.UpdateStream(ctx, stream("bad", "m.f"))
			requireCode(t, err, "entry_broken")
			require.NoError(t, c.DeleteStream(ctx, "bad"), "a broken entry can be removed")
		})
	}
}

// put writes a raw entry behind the catalog's back.
func put(t *testing.T, dir, bucket, key, value string) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, "catalog.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value))
	}))
	require.NoError(t, db.Close())
}

func TestAStoreOfALaterFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir).Close())
	put(t, dir, "meta", "format", "2")
	_, err := openCatalog(dir)
	requireCode(t, err, "catalog_format")
	require.ErrorContains(t, err, `format "2"`)
	require.ErrorContains(t, err, dir)
}

func TestADamagedFileIsToldOnOpening(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	for i := range 200 {
		_, err := c.CreateStream(ctx, stream(fmt.Sprintf("s%d", i), "m.f"))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	whole, err := os.ReadFile(filepath.Join(dir, "catalog.db"))
	require.NoError(t, err)

	for name, bytes := range map[string][]byte{
		"text":          []byte("a file of another kind"),
		"zeros":         make([]byte, len(whole)),
		"two pages":     whole[:8192],
		"half of it":    whole[:len(whole)/2],
		"zeroed behind": append(slices.Clone(whole[:8192]), make([]byte, len(whole)-8192)...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.db"), bytes, 0o600))
			_, err := openCatalog(dir)
			requireCode(t, err, "catalog_damaged")
			require.ErrorContains(t, err, filepath.Join(dir, "catalog.db"))
		})
	}
	t.Run("bytes changed here and there", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			changed := slices.Clone(whole)
			for range 1 + random.IntN(8) {
				changed[random.IntN(len(changed))] = byte(random.IntN(256))
			}
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.db"), changed, 0o600))
			c, err := openCatalog(dir)
			if err != nil {
				continue // it is told, and nothing worse happens
			}
			_, _, err = c.Streams(ctx)
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	})
}

func TestAClosedCatalogIsUnavailable(t *testing.T) {
	c := open(t, t.TempDir())
	require.NoError(t, c.Close())
	_, _, err := c.Streams(ctx)
	requireCode(t, err, "shutting_down")
	_, err = c.CreateStream(ctx, stream("s", "m.f"))
	requireCode(t, err, "shutting_down")
	requireCode(t, c.MergePositions(ctx, "s", nil), "shutting_down")
	_, _, err = c.PutModule(ctx, module("m", "f"), []byte("x"), true)
	requireCode(t, err, "shutting_down")
}

func TestPositionsThatCannotBeReadAreLeft(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	_, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	put(t, dir, "positions", "s", `[{"topic":`)
	c = open(t, dir)
	_, err = c.Positions(ctx, "s")
	requireCode(t, err, "entry_broken")
	requireCode(t, c.MergePositions(ctx, "s", []graphmill.Position{{Offset: 1}}), "entry_broken")
	require.NoError(t, c.DeleteStream(ctx, "s"))
}

func TestTheDataDirectoryHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := openCatalog(dir)
	requireCode(t, err, "data_dir_in_use")
	require.ErrorContains(t, err, dir)
}

func TestTheDataDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	c := open(t, dir)
	_, _, err := c.PutModule(ctx, module("m", "f"), []byte("x"), true)
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is open to others: %v", path, info.Mode())
		return nil
	}))
}

func TestPositionsAreMergedByPartition(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	at := func(topic string, partition int32, offset int64) graphmill.Position {
		return graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: partition}, TopicID: "id", Offset: offset}
	}
	requireCode(t, c.MergePositions(ctx, "s", []graphmill.Position{at("a", 0, 1)}), "stream_not_found")
	_, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)
	require.NoError(t, c.MergePositions(ctx, "s", []graphmill.Position{at("b", 0, 7), at("a", 1, 3)}))
	require.NoError(t, c.MergePositions(ctx, "s", []graphmill.Position{at("a", 0, 5), at("a", 1, 4)}))
	c = reopen(t, c, dir)
	ps, err := c.Positions(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, []graphmill.Position{at("a", 0, 5), at("a", 1, 4), at("b", 0, 7)}, ps)

	require.NoError(t, c.DeleteStream(ctx, "s"))
	ps, err = c.Positions(ctx, "s")
	require.NoError(t, err)
	require.Empty(t, ps)
}
