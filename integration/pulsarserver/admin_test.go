package pulsarserver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func claimAdmin(t *testing.T, b broker) {
	const nowhere = "/admin/v2/persistent/public/nowhere/"
	for _, step := range []struct {
		method, path string
		body         any
		status       int
		answer       any // nil: not looked at
	}{
		{"GET", "/admin/v2/brokers/health", nil, 200, nil},
		{"GET", "/admin/v2/namespaces/public", nil, 200, []any{"public/default"}},
		{"GET", "/admin/v2/namespaces/nobody", nil, 404, nil},
		{"GET", "/admin/v2/namespaces/public/nowhere/topics", nil, 404, nil},
		{"GET", nowhere + "t/stats", nil, 404, nil},
		{"GET", nowhere + "t/partitions", nil, 404, nil},
		{"GET", publicDefault + "p/partitions", nil, 404, nil},
		{"PUT", publicDefault + "p/partitions", 3, 204, nil},
		{"PUT", publicDefault + "p/partitions", 3, 409, nil},
		{"GET", publicDefault + "p/partitions", nil, 200, map[string]any{"partitions": 3., "deleted": false}},
		{"POST", publicDefault + "p/partitions", 5, 204, nil},
		{"POST", publicDefault + "p/partitions", 2, 422, nil},
		{"PUT", publicDefault + "q", nil, 204, nil},
		{"PUT", publicDefault + "q", nil, 409, nil},
		{"GET", publicDefault + "q/partitions", nil, 200, map[string]any{"partitions": 0., "deleted": false}},
		{"GET", publicDefault + "none/stats", nil, 404, nil},
		{"GET", publicDefault + "none/internalStats", nil, 404, nil},
		{"GET", publicDefault + "p/stats", nil, 404, nil},
		{"GET", publicDefault + "p/internalStats", nil, 404, nil},
		{"GET", publicDefault + "q/partitioned-stats", nil, 404, nil},
		{"GET", publicDefault + "p/partitioned-stats?perPartition=true", nil, 200, nil},
		{"PUT", publicDefault + "q/subscription/S", "earliest", 204, nil},
		{"PUT", publicDefault + "q/subscription/S", "latest", 409, nil},
		{"GET", publicDefault + "q/subscriptions", nil, 200, []any{"S"}},
		{"POST", publicDefault + "q/subscription/S/resetcursor/0", nil, 204, nil},
		{"POST", publicDefault + "q/subscription/none/resetcursor/0", nil, 404, nil},
		{"DELETE", publicDefault + "q/subscription/S", nil, 204, nil},
		{"DELETE", publicDefault + "q/subscription/S", nil, 404, nil},
		{"PUT", publicDefault + "p/subscription/S", "latest", 204, nil},
		{"GET", publicDefault + "p/subscriptions", nil, 200, []any{"S"}},
		{"DELETE", publicDefault + "p/subscription/S", nil, 204, nil},
		{"DELETE", publicDefault + "q", nil, 204, nil},
		{"DELETE", publicDefault + "q", nil, 404, nil},
		{"DELETE", publicDefault + "p/partitions?force=true", nil, 204, nil},
		{"DELETE", publicDefault + "p/partitions?force=true", nil, 404, nil},
	} {
		name := fmt.Sprint(step.method, " ", step.path, " ", step.body)
		if step.answer == nil {
			require.Equal(t, step.status, ask(t, b, step.method, step.path, step.body, nil), name)
			continue
		}
		var answer any
		require.Equal(t, step.status, ask(t, b, step.method, step.path, step.body, &answer), name)
		require.Equal(t, step.answer, answer, name)
	}
}
