package insight

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimilar(t *testing.T) {
	names := []string{"web", "web", "settings", "api", "apis", "apps"}
	tests := map[string]struct {
		reason, typed string
		want          []string
	}{
		"swapped": {reason: "two letters", typed: "wbe", want: []string{"web"}},
		"missing": {reason: "a letter", typed: "seting", want: []string{"settings"}},
		"begun":   {reason: "the begin of a name", typed: "sett", want: []string{"settings"}},
		"several": {reason: "in their order", typed: "apix", want: []string{"api", "apis", "apps"}},
		"short":   {reason: "one letter is like any other", typed: "x", want: []string{}},
		"none":    {reason: "nothing is like it", typed: "frontend", want: []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, similar(tt.typed, names), tt.reason)
		})
	}
	require.Equal(t, "; did you mean web or api?", didYouMean([]string{"web", "api"}))
	require.Empty(t, didYouMean(nil))
}
