package reconcile

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestIsHeavy has the reconciles that take one of the few workers for large manifests.
func TestIsHeavy(t *testing.T) {
	t.Parallel()
	small, large := trigger.ObjectKey{Name: "small"}, trigger.ObjectKey{Name: "large"}
	objects := []*desired.Object{{ID: object.Identity{Name: "small"}, Key: small, Weight: 1000}, {ID: object.Identity{Name: "large"}, Key: large, Weight: limits.LightWeight}}
	cause := func(keys ...trigger.ObjectKey) trigger.Causes {
		causes := trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{}}
		for _, key := range keys {
			causes.Objects[key] = trigger.Cause{Unsure: true}
		}
		return causes
	}
	dense := strings.Repeat("a,", 10_000)
	from := []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "a", Key: "a"}}
	cases := map[string]struct {
		reason   string
		manifest string
		from     []v1alpha1.ManifestSource
		// read is the weight of the objects that were read before.
		read   int64
		causes trigger.Causes
		want   bool
	}{
		"New":               {"An ordinary manifest waits for nothing.", fixture.ConfigMapText, nil, 0, trigger.Causes{}, false},
		"NewDense":          {"What counts is how many values a text holds.", dense, nil, 0, trigger.Causes{}, true},
		"NewLong":           {"A long text is not worth to be weighed.", strings.Repeat("a", limits.LightText+1), nil, 0, trigger.Causes{}, true},
		"NewSources":        {"How large the sources are is not known.", "", from, 0, trigger.Causes{}, true},
		"Resync":            {"Nothing is parsed, but all objects may be applied.", dense, nil, limits.LightWeight + 1000, trigger.Causes{}, true},
		"ResyncLight":       {"They are few.", fixture.ConfigMapText, nil, limits.LightWeight, trigger.Causes{}, false},
		"Heal":              {"An object is healed without a parse, however large the manifest is.", dense, nil, limits.LightWeight + 1000, cause(small), false},
		"HealFromSources":   {"That is so for parts, too.", "", from, limits.LightWeight + 1000, cause(small), false},
		"HealLarge":         {"Large objects are applied few at a time.", dense, nil, limits.LightWeight + 1000, cause(small, large), true},
		"HealthOfAnObject":  {"Health costs no request.", dense, nil, limits.LightWeight + 1000, trigger.Causes{Health: true}, false},
		"HealAmongTheOther": {"A cause for all objects is one for all.", dense, nil, limits.LightWeight + 1000, trigger.Causes{All: true, Objects: cause(small).Objects}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.UID, vr.Generation, vr.Spec.Manifest, vr.Spec.ManifestFrom = "uid", 2, tc.manifest, tc.from
			r := &Reconciler{states: ownerStates{all: map[trigger.Owner]*ownerState{}}}
			if tc.read > 0 {
				s := &ownerState{plan: plan.State{UID: "uid", Read: plan.Read{Generation: 2}}, manifest: manifestState{bodies: bodies{weight: tc.read}}}
				s.plan.Objects.SetManifest(objects)
				r.states.all[faulty] = s
			}
			require.Equal(t, tc.want, r.isHeavy(faulty, vr, tc.causes), tc.reason)
		})
	}
}

// TestKeep shows which bodies are kept until the next reconcile.
func TestKeep(t *testing.T) {
	t.Parallel()
	h := limits.NewHeavyShare(8)
	r := &Reconciler{bounds: bounds{heavy: h}}
	stateOf := func(size int) *ownerState {
		return &ownerState{plan: plan.State{Objects: plan.Objects{Manifest: []*plan.Object{{Desired: &desired.Object{Body: make([]byte, size)}}}}}}
	}
	const large = limits.MaxBodies / 4
	var kept []*ownerState
	for range 4 {
		s := stateOf(large)
		r.keepBodies(s)
		r.keepBodies(s) // as each reconcile does
		kept = append(kept, s)
		require.False(t, s.manifest.bodies.dropped, "they count once")
	}
	beyond, few := stateOf(large), stateOf(limits.FewBodies)
	r.keepBodies(beyond)
	require.True(t, beyond.manifest.bodies.dropped)
	require.Nil(t, beyond.plan.Objects.Manifest[0].Desired.Body)
	r.keepBodies(few)
	require.False(t, few.manifest.bodies.dropped, "an ordinary VidraResource heals without a parse in any case")
	runtime.KeepAlive(kept)

	clear(kept)
	require.Eventually(t, func() bool {
		runtime.GC()
		if kept := h.KeepBodies(limits.MaxBodies); kept {
			h.DropBodies(limits.MaxBodies)
			return true
		}
		return false
	}, 30*time.Second, time.Millisecond)
	again := stateOf(large)
	r.keepBodies(again)
	require.False(t, again.manifest.bodies.dropped)
}
