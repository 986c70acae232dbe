package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestPruneWaitsForWhatIsNotApplied has one object of the manifest in each state in which
// an object of the manifest can be at the end of a pass.
func TestPruneWaitsForWhatIsNotApplied(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		why    failure
		waits  bool
	}{
		"Applied":              {"All of the manifest is applied.", failure{}, false},
		"ManifestInvalid":      {"The API server refuses the object.", failure{v1alpha1.ReasonManifestInvalid, "no"}, true},
		"ApplyFailed":          {"A webhook, a quota or a missing right keeps the object out.", failure{v1alpha1.ReasonApplyFailed, "no"}, true},
		"KindUnavailable":      {"Its kind is not served.", *notServed(configMapKind), true},
		"NamespaceTerminating": {"Its namespace is being deleted.", *terminatingNamespace(idOf(configMapKind, "shop", "a")), true},
		"Established":          {"Its CustomResourceDefinition is not established yet.", failure{v1alpha1.ReasonProgressing, "waits until its CustomResourceDefinition is established"}, true},
		"Webhook":              {"A webhook is applied after the objects that wait for their kind.", failure{v1alpha1.ReasonProgressing, "is applied after"}, true},
		"BeingReplaced":        {"What it waits for may be the object that left.", beingReplaced, false},
		"OwnershipConflict":    {"Two VidraResources may each wait for what the other one is about to remove.", failure{v1alpha1.ReasonOwnershipConflict, "no"}, false},
		"AdoptionRefused":      {"The object exists as another owner wants it, and may for good.", failure{v1alpha1.ReasonAdoptionRefused, "no"}, false},
	}
	for name, tc := range cases {
		for _, resolved := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a, old, going := wanted("a"), idOf(configMapKind, "shop", "old"), idOf(configMapKind, "shop", "going")
				s := &vrState{}
				s.track(old).entry = inState(v1alpha1.ObjectApplied, "1")
				s.track(going).entry = inState(v1alpha1.ObjectDeleting, "2")
				if resolved {
					s.setManifest([]*desired{a})
				} else {
					s.unresolved = []unresolved{{id: a.id, gvk: schema.GroupVersionKind{}}}
				}
				if tc.why != (failure{}) {
					s.track(a.id).problem = &tc.why
				}
				got := (&planner{state: s}).keepUntilApplied([]identity{going, old})
				if tc.waits {
					require.Equal(t, []identity{going}, got, "a deletion that has begun goes on. %s", tc.reason)
					require.Contains(t, s.objects[old].problem.message, "left the manifest")
				} else {
					require.Equal(t, []identity{going, old}, got, tc.reason)
				}
			})
		}
	}
}
