package ownership

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFieldPath writes a field below a path as kubectl does.
func TestFieldPath(t *testing.T) {
	t.Parallel()
	require.Equal(t, "spec", FieldPath("", "spec"))
	require.Equal(t, "spec.replicas", FieldPath("spec", "replicas"))
	for _, name := range []string{"a.b", "a/b", "a b", "a[0]", `a"b`, ""} {
		require.Equal(t, `data["`+strings.ReplaceAll(name, `"`, `\"`)+`"]`, FieldPath("data", name))
	}
	require.Equal(t, `data["\x1b[2K\u202ekay"]`, FieldPath("data", "\x1b[2K\u202ekay"), "a name of any client is shown as it is")
	require.Equal(t, `data["a\nReady:"]`, FieldPath("data", "a\nReady:"), "a name is no line of its own")
	require.Less(t, len(FieldPath("data", strings.Repeat("n", 2*maxName))), maxName+10, "a long name is cut")
}

// TestWholeValue: the value of a change is whole, or empty.
func TestWholeValue(t *testing.T) {
	t.Parallel()
	const quotes = 2
	require.Equal(t, `"`+strings.Repeat("x", MaxWhole-quotes)+`"`, whole(strings.Repeat("x", MaxWhole-quotes), ordinary))
	require.Contains(t, whole(map[string]any{"\u202ek": "\u009b2K\n"}, ordinary), `"\u202ek":"\u009b2K\n"`, "invisible characters are escapes of JSON")
	require.Empty(t, whole(strings.Repeat("x", MaxWhole-quotes+1), ordinary), "one byte too many")
	require.Empty(t, whole(map[string]any{"env": []any{map[string]any{"name": "A", "value": "x"}}}, ordinary), "a part is withheld")
}
