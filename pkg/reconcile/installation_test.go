package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestOwnersOfOtherInstallations says which marks of other installations count, and as what.
func TestOwnersOfOtherInstallations(t *testing.T) {
	t.Parallel()
	const remote, west = "https://remote:6443", v1alpha1.Installation("west")
	holds := func(installation v1alpha1.Installation) func(vr *v1alpha1.VidraResource) {
		return func(vr *v1alpha1.VidraResource) {
			vr.Labels = map[string]string{v1alpha1.InstallationLabel: string(installation)}
			vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}}
		}
	}
	cases := map[string]struct {
		reason       string
		installation v1alpha1.Installation
		at           string
		applied      string
		vr           func(vr *v1alpha1.VidraResource)
		// owner is the VidraResource of this cluster that owns the object, and elsewhere the
		// field manager of one of another cluster.
		owner, elsewhere string
	}{
		"Here":                        {"Its inventory lists the object.", "", "", "vidra/api@west", holds(west), "api", ""},
		"Here, of the default one":    {"Its inventory lists the object.", "east", "", "vidra/api", holds(""), "api", ""},
		"Unknown, default":            {"The manager is forged.", "", "", "vidra/api@west", nil, "", ""},
		"Unknown":                     {"It may be in another cluster, which has this one as its destination.", "east", "", "vidra/api@west", nil, "", "vidra/api@west"},
		"Unknown default one":         {"It may be in another cluster.", "east", "", "vidra/api", nil, "", "vidra/api"},
		"Own installation":            {"Its VidraResources are here, and it is none of them.", "east", "", "vidra/api@east", nil, "", ""},
		"Remote":                      {"It may be in another cluster.", "", remote, "vidra/api@west", nil, "", "vidra/api@west"},
		"Remote, the same name":       {"A VidraResource of another cluster has our name.", "", remote, "vidra/web@west", nil, "", "vidra/web@west"},
		"Remote, own installation":    {"Its VidraResources are here, and it is none of them.", "", remote, "vidra/api", nil, "", ""},
		"Of another one than it says": {"The VidraResource of that name is not the one that applied it.", "east", remote, "vidra/api@west", func(vr *v1alpha1.VidraResource) { vr.Labels = nil }, "", "vidra/api@west"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{}}
			if tc.vr != nil {
				vr := &v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{ObservedGeneration: 1}}
				vr.Name = "api"
				tc.vr(vr)
				reader.All[vr.Name] = vr
			}
			own := tc.installation.FieldManager("web")
			a := &owners.Finder{
				Claimant:       owners.Claimant{Owner: trigger.Owner{Name: "web"}, Installation: tc.installation, Manager: own},
				VidraResources: reader, Index: trigger.NewIndex(),
			}
			key, live := trigger.ObjectKey{Cluster: tc.at, Namespace: "shop", Name: "page"}, fixture.LiveConfigMap("a", nil, own, tc.applied)
			others, err := a.CoOwners(t.Context(), key, live)
			require.NoError(t, err)
			all, err := a.AllOwners(t.Context(), key, live)
			require.NoError(t, err)
			if tc.owner == "" {
				require.Empty(t, others, tc.reason)
			} else {
				require.Len(t, others, 1, tc.reason)
				require.Equal(t, tc.owner, others[0].Name, tc.reason)
				require.Equal(t, tc.applied, others[0].Manager, tc.reason)
			}
			if all = all[len(others):]; tc.elsewhere == "" {
				require.Empty(t, all, tc.reason)
				return
			}
			require.Equal(t, []owners.CoOwner{{Manager: tc.elsewhere}}, all, tc.reason)
		})
	}
}
