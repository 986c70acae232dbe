package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// TestTooLarge refuses a VidraResource that the API server could not store with the status
// of its objects.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	many := func(prefix string, n int) (objects []*desired.Object) {
		for i := range n {
			d := wanted.ConfigMap(fmt.Sprintf("%s-object-with-a-name-of-ordinary-length-%d", prefix, i))
			d.Configuration = strings.Repeat("0", 34)
			objects = append(objects, d)
		}
		return objects
	}
	cases := map[string]struct {
		reason          string
		objects, pruned int
		manifest        string
		dropped         int
		want            string
	}{
		"Fits":      {"Thousands of objects are few enough.", 4000, 0, "", 0, ""},
		"Copy":      {"A copy in an annotation takes room, too.", 4000, 0, "", 300_000, "`kubectl annotate vidraresource web kubectl.kubernetes.io/last-applied-configuration-`"},
		"Objects":   {"The status has an entry for each object.", 6000, 0, "", 0, "the status of its 6000 objects, and the limit is 1400000: make several VidraResources"},
		"Manifest":  {"The manifest takes room, too.", 4000, 0, strings.Repeat("x", 1_000_000), 0, "the status of its 4000 objects"},
		"Exchanged": {"Objects that left the manifest keep their entry until they are gone.", 4000, 4000, "", 0, "the 4000 objects of the manifest and the 4000 that it removes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &plan.State{}
			s.Objects.SetManifest(many("new", tc.objects))
			for _, d := range many("old", tc.pruned) {
				s.Objects.Track(d.ID).Entry = object.NewEntry(d.ID, d.GVK)
			}
			why := TooLarge(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.VidraResourceSpec{Manifest: tc.manifest}}, s, tc.dropped)
			if tc.want == "" {
				require.Nil(t, why, tc.reason)
				return
			}
			require.NotNil(t, why, tc.reason)
			require.Equal(t, v1alpha1.ReasonManifestInvalid, why.Reason)
			require.Contains(t, why.Message, tc.want, tc.reason)
		})
	}
}

// TestLastHealNamesTenFields: status.drift.LastHeal names ten fields of a large edit, and
// as many that the edit had added.
func TestLastHealNamesTenFields(t *testing.T) {
	t.Parallel()
	var change events.Change
	for i := range 30 {
		change.Fields = append(change.Fields,
			ownership.Change{Path: fmt.Sprintf("data.f%d", i), Manager: "kubectl"},
			ownership.Change{Path: fmt.Sprintf("data.a%d", i), Kind: ownership.Added})
	}
	s := &plan.State{}
	s.Healed(change, time.Now(), plan.HealFlush)
	heal := s.Reports.Unreported.AddTo(v1alpha1.VidraResourceStatus{}).Drift.LastHeal
	require.Len(t, heal.Fields, 10)
	require.Len(t, heal.Added, 10)
	require.Equal(t, "kubectl", heal.Manager)
}
