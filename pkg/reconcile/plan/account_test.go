package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestSetAccount decides which objects the former account of a VidraResource may remove.
func TestSetAccount(t *testing.T) {
	t.Parallel()
	was := func(account string, generation int64) *v1alpha1.AppliedAsStatus {
		return &v1alpha1.AppliedAsStatus{ServiceAccount: account, Generation: generation}
	}
	tests := map[string]struct {
		reason   string
		was      *v1alpha1.AppliedAsStatus
		account  string
		marked   string
		removeAs string
	}{
		"Changed":   {reason: "one write replaced the account", was: was("a/deployer", 4), account: "b/deployer", removeAs: "a/deployer"},
		"Cleared":   {reason: "Vidra itself may, or its rights are missing", was: was("a/deployer", 4), account: "", removeAs: "a/deployer"},
		"Same":      {reason: "the account removes it", was: was("a/deployer", 4), account: "a/deployer"},
		"TwoWrites": {reason: "the second one may be of another author", was: was("a/deployer", 3), account: "b/deployer"},
		"None":      {reason: "Vidra itself applied it: its rights are not those of the author", account: "b/deployer"},
		"Kept":      {reason: "the removal is still to be done when the account changes again", was: was("b/deployer", 4), account: "c/deployer", marked: "a/deployer", removeAs: "a/deployer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewState(&v1alpha1.VidraResource{}, nil)
			s.Origin.Provenance.AppliedAs = tt.was
			id := func(name string) object.Identity {
				return object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "a", Name: name}
			}
			for _, name := range []string{"left", "stays", "waits"} {
				s.Objects.Track(id(name)).Entry = &v1alpha1.ManagedResourceStatus{Kind: "ConfigMap", Namespace: "a", Name: name, RemoveAs: tt.marked}
			}
			s.Objects.ByID[id("waits")].Entry.RemoveAs = ""
			s.Objects.SetManifest([]*desired.Object{{ID: id("stays")}})
			s.Objects.Unresolved = []desired.Unresolved{{ID: id("waits")}}
			s.SetAccount(tt.account, 5)
			require.Equal(t, tt.removeAs, s.Objects.ByID[id("left")].Entry.RemoveAs, tt.reason)
			require.Empty(t, s.Objects.ByID[id("stays")].Entry.RemoveAs, "the manifest has it")
			require.Empty(t, s.Objects.ByID[id("waits")].Entry.RemoveAs, "the manifest has it, and its kind is not served")
			if tt.account == "" {
				require.Nil(t, s.Origin.Provenance.AppliedAs)
				return
			}
			require.Equal(t, was(tt.account, 5), s.Origin.Provenance.AppliedAs)
		})
	}
}
