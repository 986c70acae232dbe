package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, linked string
		info           *debug.BuildInfo
		want           string
	}{
		"linked":     {"the version that the release was linked with wins", "v2.0.0", &debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}}, "v2.0.0"},
		"module":     {"Go takes it from the commit", "", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}}, "v0.0.0-2026"},
		"no commit":  {"the source came without git", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		"no version": {"a test binary has none", "", &debug.BuildInfo{}, "devel"},
		"no info":    {"another compiler notes nothing", "", nil, "devel"},
	}
	for name, tt := range tests {
		require.Equal(t, tt.want, versionOf(tt.linked, tt.info), "%s: %s", name, tt.reason)
	}
}
