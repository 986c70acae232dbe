package trigger

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestVersionsOfARestoredBackup has versions go back, as they do when etcd is restored:
// what is older than our last apply counts all the same.
func TestVersionsOfARestoredBackup(t *testing.T) {
	cases := map[string]struct {
		reason string
		events []*unstructured.Unstructured
	}{
		"Drift":    {"The backup has the object as somebody had changed it.", []*unstructured.Unstructured{configMap("red", "60")}},
		"Later on": {"The backup has it in order, and it is edited then.", []*unstructured.Unstructured{configMap("blue", "60"), configMap("red", "70")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.apply("blue", "100", nil)
			before := r.event(t, configMap("blue", "100"))
			for _, next := range tc.events {
				kept, err := r.TransformFor("", configMaps)(next)
				require.NoError(t, err)
				r.handler.OnUpdate(before, kept)
				before = kept.(*Snapshot)
			}
			require.Contains(t, r.TakeCauses(owner).Objects, key, tc.reason)
		})
	}
}
