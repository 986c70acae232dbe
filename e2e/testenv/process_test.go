package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTailFile(t *testing.T) {
	many := strings.Repeat("noise\n", 100)
	tests := map[string]struct {
		reason  string
		log     string
		want    string
		unwant  string
		wantEnd string
	}{
		"long": {
			reason:  "the end says how it ended",
			log:     "first\n" + many + "last\n",
			want:    "the end of ",
			unwant:  "first",
			wantEnd: "noise\n  last",
		},
		"race": {
			reason:  "a report of the race detector must be read",
			log:     "first\n==================\nWARNING: DATA RACE\nWrite at 0x1\n" + many + "last\n",
			want:    "WARNING: DATA RACE\n  Write at 0x1\n",
			unwant:  "first",
			wantEnd: "noise",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "operator.log")
			require.NoError(t, os.WriteFile(path, []byte(tt.log), 0o600))
			got := tailFile(path)
			require.Contains(t, got, path)
			require.Contains(t, got, tt.want, tt.reason)
			require.NotContains(t, got, tt.unwant)
			require.True(t, strings.HasSuffix(got, tt.wantEnd), got)
		})
	}
	require.Contains(t, tailFile(filepath.Join(t.TempDir(), "none")), "no such file")
}
