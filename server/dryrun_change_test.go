package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestADryRunOfACreationStoresNothing(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"absent"}, Transform: "obedient", Configs: map[string]string{"auto.offset.reset": "earliest"}}
	create := func(change func(*server.CreateRequest)) (server.StreamInfo, error) {
		r := server.CreateRequest{Spec: spec, DryRun: true}
		if change != nil {
			change(&r)
		}
		return s.CreateStream(t.Context(), r)
	}
	info, err := create(nil)
	require.NoError(t, err)
	require.Equal(t, "earliest", info.Spec.StartFrom, "the definition is told as it would be stored")
	require.Equal(t, graphmill.StateStopped, info.State)
	require.Len(t, info.Warnings, 1, "the module is not there")
	_, err = s.Stream(t.Context(), "s")
	requireCode(t, err, "stream_not_found")

	_, err = create(func(r *server.CreateRequest) { r.Check = true })
	requireCode(t, err, "topic_absent")
	_, err = create(func(r *server.CreateRequest) { r.Spec.MemoryLimit = 1 })
	requireCode(t, err, "invalid")
	w.push(s)
	w.create(s, nil)
	_, err = create(nil)
	requireCode(t, err, "stream_exists")
}

func TestADryRunOfAChangeChangesNothing(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Credentials = map[string]string{"client.id": "hidden"} })
	foresee := func(doc, from string) (server.PatchResult, error) {
		return s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: json.RawMessage(doc), From: from, DryRun: true})
	}
	before, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	for _, running := range []bool{false, true} {
		if running {
			w.start(s)
		}
		for doc, c := range map[string]struct {
			changed, brings []string
			warnings        int
		}{
			`{}`:                                       {changed: []string{}},
			`{"batch_size":7}`:                         {changed: []string{"batch_size"}},
			`{"batch_size":1000}`:                      {changed: []string{}},
			`{"credentials":{"client.id":"hidden"}}`:   {changed: []string{}},
			`{"credentials":{"client.id":"other"}}`:    {changed: []string{"credentials.client.id"}},
			`{"topics":["topic","absent"]}`:            {changed: []string{"topics"}, brings: []string{"absent"}},
			`{"consumer_group":"g"}`:                   {changed: []string{"consumer_group"}, brings: []string{"topic"}},
			`{"bootstrap_servers":["127.0.0.1:1"]}`:    {changed: []string{"bootstrap_servers"}, brings: []string{"topic"}},
			`{"transform":"absent.f"}`:                 {changed: []string{"transform"}, warnings: 1},
			`{"configs":{"sasl.username":"secret:x"}}`: {changed: []string{"configs.sasl.username"}, warnings: 1},
		} {
			result, err := foresee(doc, "")
			require.NoError(t, err, doc)
			require.Equal(t, c.changed, result.Changed, doc)
			require.Equal(t, c.brings, result.Brings, doc)
			require.Len(t, result.Warnings, c.warnings, "%s: %v", doc, result.Warnings)
		}
		for doc, from := range map[string]string{`{"bach_size":1}`: "", `{"batch_size":0}`: "", `{"memory_limit":1}`: "", `{"batch_size":7}`: "latest", `{"consumer_group":"g"}`: "never"} {
			_, err := foresee(doc, from)
			requireCode(t, err, "invalid")
		}
	}
	after, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, before.Spec, after.Spec)
	require.Equal(t, graphmill.StateRunning, w.status(s).State)
}

func TestADryRunDoesNotWaitForTheBatchUnderWay(t *testing.T) {
	_, s, release := hanging(t, nil)
	defer release()
	result, err := s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: json.RawMessage(`{"batch_size":1}`), DryRun: true})
	require.NoError(t, err)
	require.Equal(t, []string{"batch_size"}, result.Changed)
}

func TestStartFromHasItsDefaultOfTheConfigsAgain(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) {
		spec.StartFrom, spec.Configs = "", map[string]string{"auto.offset.reset": "earliest"}
	})
	require.Empty(t, w.patched(s, `{"start_from":null}`, "").Changed)
	require.Equal(t, []string{"start_from"}, w.patched(s, `{"start_from":"latest"}`, "").Changed)
	require.Equal(t, graphmill.StartEarliest, w.patched(s, `{"start_from":null}`, "").Spec.StartFrom)
	require.Equal(t, graphmill.StartLatest, w.patched(s, `{"start_from":null,"configs":null}`, "").Spec.StartFrom)
}
