package desired

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestPlaces finds where a manifest has its objects.
func TestPlaces(t *testing.T) {
	const yaml = "# first\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\n# second\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
	const list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: d}\n"
	const json = "---\n{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"e\"}}\n\n{\n\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"f\"}}\n"
	const of = "spec.manifest of VidraResource shop"
	for name, test := range map[string]struct {
		reason string
		parts  []Part
		want   map[string]string
	}{
		"Documents": {
			"An object begins at its first line, after comments and empty lines.",
			[]Part{{text: yaml}}, map[string]string{"a": of + ", document 1, line 2", "b": of + ", document 2, line 8"},
		},
		"List": {
			"An item has a line of its own.",
			[]Part{{text: list}}, map[string]string{"c": of + ", document 1, line 4", "d": of + ", document 1, line 7"},
		},
		"JSON": {
			"Objects of JSON follow one another in a document.",
			[]Part{{text: json}}, map[string]string{"e": of + ", document 1, line 2", "f": of + ", document 1, line 4"},
		},
		"Parts": {
			"Each part counts its own lines.",
			[]Part{{name: specManifest, text: yaml}, {name: "Secret shop/hidden, key m (spec.manifestFrom[0])", text: list, secret: true}},
			map[string]string{
				"a": of + ", document 1, line 2", "b": of + ", document 2, line 8",
				"c": "Secret shop/hidden, key m (spec.manifestFrom[0]), document 1, line 4",
				"d": "Secret shop/hidden, key m (spec.manifestFrom[0]), document 1, line 7",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := parse(test.parts)
			require.NoError(t, err)
			vr := &v1alpha1.VidraResource{}
			vr.Name = "shop"
			got := map[string]string{}
			for _, object := range objects {
				got[object.GetName()] = placeOf(object.Position).In(vr)
			}
			require.Equal(t, test.want, got, test.reason)
		})
	}
	require.EqualValues(t, 16, unsafe.Sizeof(place{}), "100,000 objects have one each")
}
