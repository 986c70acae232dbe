package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const eventTable = `{
  "kind": "Table", "apiVersion": "meta.k8s.io/v1",
  "columnDefinitions": [
    {"name": "Last Seen", "type": "string", "priority": 0},
    {"name": "Object", "type": "string", "priority": 0},
    {"name": "Source", "type": "string", "priority": 1},
    {"name": "Message", "type": "string", "priority": 0}
  ],
  "rows": [
    {"cells": ["1s", "deployment/web", "vidra", "second\nline"], "object": {"metadata": {"name": "b"},
      "involvedObject": {"uid": "d"}, "related": {"uid": "v"}, "eventTime": "2026-01-01T00:00:02.500000Z"}},
    {"cells": ["2s", "vidraresource/web", "vidra", "first"], "object": {"metadata": {"name": "a"},
      "involvedObject": {"uid": "v"}, "eventTime": "2026-01-01T00:00:01.000000Z"}},
    {"cells": ["2s", "pod/web", "scheduler", null], "object": {"metadata": {"name": "c"},
      "involvedObject": {"uid": "p"}, "eventTime": null}}
  ]
}`

func TestTable(t *testing.T) {
	table, err := parseTable([]byte(eventTable))
	require.NoError(t, err)
	table.sortByTime()
	all := func(row) bool { return true }
	require.Equal(t, [][]string{
		{"LAST SEEN", "OBJECT", "MESSAGE"},
		{"2s", "pod/web", ""},
		{"2s", "vidraresource/web", "first"},
		{"1s", "deployment/web", "second..."},
	}, table.rows(all), "in the order of time, without the columns of -o wide, one line each")

	ours := func(r row) bool { return r.InvolvedObject.UID == "v" || r.Related != nil && r.Related.UID == "v" }
	require.Len(t, table.rows(ours), 3, "a heading, and what speaks of ours")
}

func TestTableThatIsNone(t *testing.T) {
	for _, body := range []string{"no JSON", `{"rows": [{"cells": [], "object": "text"}]}`} {
		_, err := parseTable([]byte(body))
		require.ErrorContains(t, err, "of the API server")
	}
}
