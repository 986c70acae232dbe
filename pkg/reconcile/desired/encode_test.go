package desired

import (
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
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

// TestNewObject requires that an object keeps no more memory than it needs: the body has no room for more, and what many
// objects have is kept once.
func TestNewObject(t *testing.T) { // it stops the garbage collector, which ends the sharing of texts that nothing uses
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	made := func(name string) *Object {
		u := fixture.UnstructuredOf(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"`+name+`"},"spec":{"text":"`+strings.Repeat("x", 700)+`"}}`)
		d, err := newObject(object.SignatureOf("", "owner"), "", manifest.Object{Unstructured: u}, cluster.Mapping{}, rules{steps: new(maxIgnoreSteps)})
		require.NoError(t, err)
		return d
	}
	one, other := made("one"), made("other")
	require.Less(t, cap(one.Body)-len(one.Body), 128, "the allocator has steps of 128 bytes there")
	require.Same(t, unsafe.StringData(one.GVK.Group), unsafe.StringData(other.GVK.Group))
	require.Same(t, unsafe.StringData(one.ID.Kind), unsafe.StringData(other.ID.Kind))
	require.Same(t, unsafe.StringData(one.ID.Namespace), unsafe.StringData(other.Key.Namespace))
}
