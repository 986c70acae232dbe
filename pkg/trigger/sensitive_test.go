package trigger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// marked is an object with the annotation that withholds its values.
func marked(u *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[ownership.SensitiveAnnotation] = "true"
	u.SetAnnotations(annotations)
	return u
}

// TestSensitiveBefore: an owner knows of an edit that the object was sensitive before it, whichever event showed that.
func TestSensitiveBefore(t *testing.T) {
	merged := func(t *testing.T, r *rig, states ...*unstructured.Unstructured) *Snapshot {
		t.Helper()
		var last *Snapshot
		for _, u := range states {
			kept, err := r.TransformFor("", configMaps)(u)
			require.NoError(t, err)
			s := kept.(*Snapshot)
			if last != nil {
				s.Skip(last)
			}
			last = s
		}
		return last
	}
	cases := map[string]struct {
		reason string
		events func(t *testing.T, r *rig)
		want   ownership.Sensitivity
	}{
		"Never": {"Nothing said so.", func(t *testing.T, r *rig) { r.event(t, configMap("red", "101")) }, false},
		"After": {"The edit itself says so.", func(t *testing.T, r *rig) { r.event(t, marked(configMap("red", "101"))) }, true},
		"Before": {"The event before the edit did.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")), configMap("red", "102"))
		}, true},
		"Earlier": {"A user removed the annotation before the edit.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")), configMap("blue", "102"), configMap("red", "103"))
		}, true},
		"Merged": {"One event has the states in between.", func(t *testing.T, r *rig) {
			r.handler.OnUpdate(nil, merged(t, r, marked(configMap("blue", "101")), configMap("red", "102")))
		}, true},
		"MergedMany": {"Of many states, only the last ones are kept.", func(t *testing.T, r *rig) {
			states := []*unstructured.Unstructured{marked(configMap("blue", "101"))}
			for i := range 3 * maxSkipped {
				states = append(states, configMap("red", fmt.Sprint(102+i)))
			}
			r.handler.OnUpdate(nil, merged(t, r, states...))
		}, true},
		"MergedAsExpected": {"The states are as expected but for the edit.", func(t *testing.T, r *rig) {
			r.handler.OnUpdate(nil, merged(t, r, marked(configMap("blue", "101")), configMap("blue", "102"), configMap("red", "103")))
		}, true},
		"Deleted": {"The last state of an object that was deleted says so.", func(t *testing.T, r *rig) {
			kept, err := r.TransformFor("", configMaps)(marked(configMap("blue", "101")))
			require.NoError(t, err)
			r.handler.OnDelete(kept)
		}, true},
		"Deferred": {"An edit during an apply is judged after it.", func(t *testing.T, r *rig) {
			last := r.replay(t, nil, marked(configMap("blue", "101")))
			r.apply("blue", "102", func() { r.replay(t, last, configMap("red", "103")) })
		}, true},
		"Raced": {"An edit during an apply may have been made before it.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")))
			applied := appliedAt("blue", "103")
			applied.Raced = new(ownership.Paths)
			applied.Others = pathsOf("a")
			r.index.Begin(owner, key, manager)
			r.Commit(owner, key, applied)
		}, true},
		"Observed": {"An edit that is not reverted stays.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")), configMap("red", "102"))
			r.index.Begin(owner, key, manager)
			r.Observed(owner, key, Applied{Manager: manager, ResourceVersion: "102", Unreverted: true})
		}, true},
		"Failed": {"An apply that failed has changed nothing.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")), configMap("red", "102"))
			r.index.Begin(owner, key, manager)
			r.Abort(owner, key)
		}, true},
		"Loaded": {"The inventory has it after a restart.", func(_ *testing.T, r *rig) {
			applied := appliedAt("blue", "")
			applied.Sensitive = true
			r.index.Load(owner, map[ObjectKey]Applied{key: applied})
		}, true},
		"LoadedAgain": {"An inventory that does not have it yet takes nothing away.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")))
			r.index.Load(owner, map[ObjectKey]Applied{key: appliedAt("blue", "")})
		}, true},
		"Applied": {"The reconciler decides when it is forgotten.", func(t *testing.T, r *rig) {
			r.replay(t, nil, marked(configMap("blue", "101")))
			r.apply("blue", "102", nil)
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.apply("blue", "100", nil)
			tc.events(t, r)
			expected, known := r.index.Expected(owner, key)
			require.True(t, known)
			require.Equal(t, tc.want, expected.Sensitive, tc.reason)
		})
	}
}

// TestMarkEnqueuesTheOwner: a user who marks an object has it recorded in the inventory, and an object that appears or is
// gone has not.
func TestMarkEnqueuesTheOwner(t *testing.T) {
	snapshot := func(u *unstructured.Unstructured) *Snapshot {
		kept, err := newRig(t).TransformFor("", configMaps)(u)
		require.NoError(t, err)
		return kept.(*Snapshot)
	}
	plain, sensitive := snapshot(configMap("blue", "101")), snapshot(marked(configMap("blue", "102")))
	require.Equal(t, statusDelay, healthDelay(plain, sensitive))
	require.Equal(t, statusDelay, healthDelay(sensitive, plain))
	require.Zero(t, healthDelay(nil, sensitive), "it was applied so")
	require.Zero(t, healthDelay(sensitive, nil))
	require.Zero(t, healthDelay(sensitive, sensitive))
}
