package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
