package desired

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
)

// TestEncode shows that an object takes no more bytes than its text, and that its
// configuration is the one of the versions of Vidra before.
func TestEncode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, text string }{
		"Plain":    {"Most objects have none of the characters.", `{"apiVersion":"v1","kind":"ConfigMap","a":"x","n":1.5}`},
		"HTML":     {"Pages have them.", `{"apiVersion":"v1","kind":"ConfigMap","a":"<b>1 & 2</b>"}`},
		"Separate": {"Line separators are escaped in any case.", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"a\":\"\u2028<\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := fixture.UnstructuredOf(t, tc.text)
			before, err := u.MarshalJSON()
			require.NoError(t, err)
			body, err := Encode(u)
			require.NoError(t, err)
			require.LessOrEqual(t, len(body), len(tc.text)+len(`\u2028`), tc.reason)
			require.NotContains(t, string(body), `\u003c`)
			require.Equal(t, string(before), string(escaped(body)), tc.reason)
		})
	}
}
