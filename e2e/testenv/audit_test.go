package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEndOfLines(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	tests := map[string]struct {
		reason string
		log    string
		want   int
	}{
		"empty":     {reason: "nothing was noted yet", log: "", want: 0},
		"whole":     {reason: "the usual case", log: "a\nb\n", want: 4},
		"partial":   {reason: "a line that is being written belongs to a request that is not answered yet", log: "a\nb\nc", want: 4},
		"first":     {reason: "even the first one", log: "a", want: 0},
		"long":      {reason: "and a very long one", log: "a\n" + long, want: 2},
		"after all": {reason: "a long line that is whole", log: long + "\n", want: len(long) + 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			require.NoError(t, os.WriteFile(path, []byte(tt.log), 0o600))
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close() //nolint:errcheck // it was only read
			got, err := endOfLines(f)
			require.NoError(t, err)
			require.EqualValues(t, tt.want, got, tt.reason)
		})
	}
}

func TestAuditTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, errors.Join(err, f.Close()))
	}
	const get, list = `{"stage":"ResponseComplete","verb":"get"}` + "\n", `{"stage":"ResponseComplete","verb":"list"}` + "\n"
	const begin, end = `{"stage":"ResponseStarted","verb":"watch"}` + "\n", `{"stage":"ResponseComplete","verb":"watch"}` + "\n"
	tail := &auditTail{}
	verbs := func(mark int) (verbs []string) {
		events, err := tail.since(path, AuditMark{end: int64(mark)})
		require.NoError(t, err)
		for _, e := range events {
			verbs = append(verbs, e.Verb)
		}
		return verbs
	}
	add(get + begin)
	require.Equal(t, []string{"get", "watch"}, verbs(0))
	require.Equal(t, []string{"watch"}, verbs(len(get)), "a mark is where a line begins")
	add(end + list[:9])
	require.Empty(t, verbs(len(get+begin)), "the end of a watch is none, and half a line neither")
	add(list[9:])
	require.Equal(t, []string{"list"}, verbs(len(get+begin)), "the line is whole now")
	require.Equal(t, []string{"get", "watch", "list"}, verbs(0), "an older mark finds what was read before")
	add(`{"stage":"ResponseComplete","verb":"patch","requestReceivedTimestamp":"2026-01-02T12:00:00.000001Z"}` + "\n")
	noon := time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]int{noon: 1, noon.Add(time.Millisecond): 0} {
		events, err := tail.since(path, AuditMark{end: int64(len(get + begin + end + list)), at: at})
		require.NoError(t, err)
		require.Len(t, events, want, "the API server received it after noon")
	}
	add("no JSON\n")
	_, err := tail.since(path, AuditMark{})
	require.ErrorContains(t, err, "no JSON")
}
