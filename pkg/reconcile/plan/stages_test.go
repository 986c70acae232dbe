package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestPruneWaitsForWhatIsNotApplied has one object of the manifest in each state in which
// an object of the manifest can be at the end of a pass.
func TestPruneWaitsForWhatIsNotApplied(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		why    object.Failure
		waits  bool
	}{
		"Applied":              {"All of the manifest is applied.", object.Failure{}, false},
		"ManifestInvalid":      {"The API server refuses the object.", object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "no"}, true},
		"ApplyFailed":          {"A webhook, a quota or a missing right keeps the object out.", object.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "no"}, true},
		"KindUnavailable":      {"Its kind is not served.", *object.NotServed(fixture.ConfigMapKind), true},
		"NamespaceTerminating": {"Its namespace is being deleted.", *object.TerminatingNamespace(fixture.IDOf(fixture.ConfigMapKind, "shop", "a")), true},
		"Established":          {"Its CustomResourceDefinition is not established yet.", object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "waits until its CustomResourceDefinition is established"}, true},
		"Webhook":              {"A webhook is applied after the objects that wait for their kind.", object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is applied after"}, true},
		"BeingReplaced":        {"What it waits for may be the object that left.", BeingReplaced, false},
		"Leaving":              {"Its other owner may wait for an object that left.", object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "shop owns it, and releases it", AwaitsRelease: true}, false},
		"OwnershipConflict":    {"Two VidraResources may each wait for what the other one is about to remove.", object.Failure{Reason: v1alpha1.ReasonOwnershipConflict, Message: "no"}, false},
		"AdoptionRefused":      {"The object exists as another owner wants it, and may for good.", object.Failure{Reason: v1alpha1.ReasonAdoptionRefused, Message: "no"}, false},
	}
	for name, tc := range cases {
		for _, resolved := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a, old, going := wanted.ConfigMap("a"), fixture.IDOf(fixture.ConfigMapKind, "shop", "old"), fixture.IDOf(fixture.ConfigMapKind, "shop", "going")
				s := &State{}
				s.Objects.Track(old).Entry = fixture.InState(v1alpha1.ObjectApplied, "1")
				s.Objects.Track(going).Entry = fixture.InState(v1alpha1.ObjectDeleting, "2")
				if resolved {
					s.Objects.SetManifest([]*desired.Object{a})
				} else {
					s.Objects.Unresolved = []desired.Unresolved{{ID: a.ID, GVK: schema.GroupVersionKind{}}}
				}
				if tc.why != (object.Failure{}) {
					s.Objects.Track(a.ID).Problem = &tc.why
				}
				got := (&Planner{State: s}).KeepUntilApplied([]object.Identity{going, old})
				if tc.waits {
					require.Equal(t, []object.Identity{going}, got, "a deletion that has begun goes on. %s", tc.reason)
					require.Contains(t, s.Objects.ByID[old].Problem.Message, "left the manifest")
				} else {
					require.Equal(t, []object.Identity{going, old}, got, tc.reason)
				}
			})
		}
	}
}

// TestPruneNamesTheMember: the message about a container that left the manifest names an object in it that is not applied.
func TestPruneNamesTheMember(t *testing.T) {
	t.Parallel()
	shop, bank := object.Identity{GroupKind: object.NamespaceKind, Name: "shop"}, object.Identity{GroupKind: object.NamespaceKind, Name: "bank"}
	s := &State{}
	s.Objects.SetManifest([]*desired.Object{wanted.ConfigMap("b"), wanted.ConfigMap("a"), wanted.ConfigMap("applied")})
	for _, name := range []string{"a", "b"} {
		s.Objects.Track(fixture.IDOf(fixture.ConfigMapKind, "shop", name)).Problem = &object.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "no"}
	}
	for _, id := range []object.Identity{shop, bank} {
		s.Objects.Track(id).Entry = fixture.InState(v1alpha1.ObjectApplied, "1")
	}
	require.Empty(t, (&Planner{State: s}).KeepUntilApplied([]object.Identity{shop, bank}))
	require.Equal(t, "left the manifest, and is removed when all that is in it is applied; it holds ConfigMap shop/a, which is not", s.Objects.ByID[shop].Problem.Message)
	require.Equal(t, "left the manifest, and is removed when all that is in it is applied", s.Objects.ByID[bank].Problem.Message)
}
