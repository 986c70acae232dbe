package reconcile

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestIsHeavy has the reconciles that take one of the few workers for large manifests.
func TestIsHeavy(t *testing.T) {
	t.Parallel()
	small, large := trigger.ObjectKey{Name: "small"}, trigger.ObjectKey{Name: "large"}
	objects := []*desired{{id: identity{name: "small"}, key: small, weight: 1000}, {id: identity{name: "large"}, key: large, weight: lightWeight}}
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
		"New":               {"An ordinary manifest waits for nothing.", configMapText, nil, 0, trigger.Causes{}, false},
		"NewDense":          {"What counts is how many values a text holds.", dense, nil, 0, trigger.Causes{}, true},
		"NewLong":           {"A long text is not worth to be weighed.", strings.Repeat("a", lightText+1), nil, 0, trigger.Causes{}, true},
		"NewSources":        {"How large the sources are is not known.", "", from, 0, trigger.Causes{}, true},
		"Resync":            {"Nothing is parsed, but all objects may be applied.", dense, nil, lightWeight + 1000, trigger.Causes{}, true},
		"ResyncLight":       {"They are few.", configMapText, nil, lightWeight, trigger.Causes{}, false},
		"Heal":              {"An object is healed without a parse, however large the manifest is.", dense, nil, lightWeight + 1000, cause(small), false},
		"HealFromSources":   {"That is so for parts, too.", "", from, lightWeight + 1000, cause(small), false},
		"HealLarge":         {"Large objects are applied few at a time.", dense, nil, lightWeight + 1000, cause(small, large), true},
		"HealthOfAnObject":  {"Health costs no request.", dense, nil, lightWeight + 1000, trigger.Causes{Health: true}, false},
		"HealAmongTheOther": {"A cause for all objects is one for all.", dense, nil, lightWeight + 1000, trigger.Causes{All: true, Objects: cause(small).Objects}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.UID, vr.Generation, vr.Spec.Manifest, vr.Spec.ManifestFrom = "uid", 2, tc.manifest, tc.from
			r := &Reconciler{states: map[trigger.Owner]*ownerState{}}
			if tc.read > 0 {
				s := &ownerState{vrState: vrState{uid: "uid", generation: 2}, weight: tc.read}
				s.setManifest(objects)
				r.states[faulty] = s
			}
			require.Equal(t, tc.want, r.isHeavy(faulty, vr, tc.causes), tc.reason)
		})
	}
}

// configMapText is an ordinary manifest.
const configMapText = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\ndata:\n  greeting: hello\n"

// TestHeavyShare shows what heavy reconciles leave to the others.
func TestHeavyShare(t *testing.T) {
	t.Parallel()
	h := newHeavyShare(8)
	leave, ok := h.enter()
	require.True(t, ok)
	_, ok = h.enter()
	require.True(t, ok)
	_, ok = h.enter()
	require.False(t, ok, "six of eight workers are left to others")
	leave()
	_, ok = h.enter()
	require.True(t, ok)
	_, ok = newHeavyShare(1).enter()
	require.True(t, ok, "the only worker does all")
}

// TestHeavyMemory shows that the heaviest manifest is alone, and that light work does not
// wait for it.
func TestHeavyMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeavyShare(8)
		free, err := h.take(t.Context(), 10*heavyMemory)
		require.NoError(t, err)
		light, err := h.take(t.Context(), lightWeight)
		require.NoError(t, err)
		light()

		taken := false
		go func() {
			next, err := h.take(t.Context(), lightWeight+1)
			taken = err == nil
			next()
		}()
		synctest.Wait()
		require.False(t, taken)
		free()
		synctest.Wait()
		require.True(t, taken)
	})
}

// TestBatches shows how many objects are applied at a time.
func TestBatches(t *testing.T) {
	t.Parallel()
	const half = batchWeight / 2
	for name, tc := range map[string]struct {
		reason  string
		weights []int64
		want    []int
	}{
		"None":     {"There is nothing to do.", nil, nil},
		"Ordinary": {"Light objects go together.", []int64{1000, 1000, 1000}, []int{3}},
		"Fit":      {"The limit itself is allowed.", []int64{half, half}, []int{2}},
		"Large":    {"Beyond it a batch is cut.", []int64{half, half, 1, half, half}, []int{2, 2, 1}},
		"TooLarge": {"An object that is larger goes alone.", []int64{1, 3 * half, 3 * half, 1}, []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tasks []task
			for _, weight := range tc.weights {
				tasks = append(tasks, task{desired: &desired{weight: weight}})
			}
			var got []int
			for _, batch := range batches(tasks) {
				got = append(got, len(batch))
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestKeep shows which bodies are kept until the next reconcile.
func TestKeep(t *testing.T) {
	t.Parallel()
	h := newHeavyShare(8)
	r := &Reconciler{heavy: h}
	stateOf := func(size int) *ownerState {
		return &ownerState{vrState: vrState{manifest: []*objectState{{desired: &desired{body: make([]byte, size)}}}}}
	}
	const large = maxBodies / 4
	var kept []*ownerState
	for range 4 {
		s := stateOf(large)
		r.keepBodies(s)
		r.keepBodies(s) // as each reconcile does
		kept = append(kept, s)
		require.False(t, s.dropped, "they count once")
	}
	beyond, few := stateOf(large), stateOf(fewBodies)
	r.keepBodies(beyond)
	require.True(t, beyond.dropped)
	require.Nil(t, beyond.manifest[0].desired.body)
	r.keepBodies(few)
	require.False(t, few.dropped, "an ordinary VidraResource heals without a parse in any case")
	runtime.KeepAlive(kept)

	clear(kept)
	require.Eventually(t, func() bool {
		runtime.GC()
		if kept := h.keepBodies(maxBodies); kept {
			h.dropBodies(maxBodies)
			return true
		}
		return false
	}, 30*time.Second, time.Millisecond)
	again := stateOf(large)
	r.keepBodies(again)
	require.False(t, again.dropped)
}
