package desired

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestUnpack chooses one of several kept manifests: of the artifacts in the status first.
func TestUnpack(t *testing.T) {
	t.Parallel()
	at := func(revision string) []v1alpha1.SourceStatus {
		return []v1alpha1.SourceStatus{{Kind: "GitRepository", Namespace: "shop", Name: "app", Revision: revision}}
	}
	vr := &v1alpha1.VidraResource{}
	vr.UID = "a"
	pack := func(of *v1alpha1.VidraResource, revision, before string) []byte {
		text, _, err := Parts{Artifacts: at(revision), Parts: []Part{{name: revision, text: "x"}}}.Pack(of, at(before))
		require.NoError(t, err)
		return text
	}
	other, account := vr.DeepCopy(), vr.DeepCopy()
	other.UID, account.Spec.ServiceAccountName = "b", "deployer"
	cases := map[string]struct {
		reason string
		texts  [][]byte
		status string
		want   string
	}{
		"Same":         {"The status has it.", [][]byte{pack(vr, "v2", "v1")}, "v2", "v2"},
		"Successor":    {"The status was not written yet.", [][]byte{pack(vr, "v2", "v1")}, "v1", "v2"},
		"Former":       {"A later revision was kept, and the source went back before it was applied.", [][]byte{pack(vr, "v2", "v1"), pack(vr, "v1", "v0")}, "v1", "v1"},
		"Older":        {"It would undo a later one.", [][]byte{pack(vr, "v1", "v0")}, "v2", ""},
		"OtherSpec":    {"It is the manifest of another VidraResource.", [][]byte{pack(other, "v2", "v1")}, "v2", ""},
		"OtherAccount": {"The present one may lack the right to read it.", [][]byte{pack(account, "v2", "v1")}, "v2", ""},
		"None":         {"Nothing is kept.", nil, "v2", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := vr.DeepCopy()
			of.Status.Source = at(tc.status)
			got, err := Unpack(of, slices.Values(tc.texts))
			require.NoError(t, err)
			if tc.want == "" {
				require.Empty(t, got.Parts, tc.reason)
				return
			}
			require.Equal(t, tc.want, got.Artifacts[0].Revision, tc.reason)
			require.Equal(t, tc.want, got.Parts[0].name, tc.reason)
		})
	}
	_, err := Unpack(vr, slices.Values([][]byte{[]byte("{")}))
	require.ErrorContains(t, err, "decode the manifest")
}
