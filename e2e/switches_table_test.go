package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// What becomes of an object that may be removed.
const (
	removed = "removed"
	let     = "left in place"
	waits   = "waits"
)

// switchRow is what Vidra does while one switch of docs/switches.md is set.
type switchRow struct {
	// spec and annotation set the switch.
	spec       func(*v1alpha1.VidraResourceSpec)
	annotation func(t *testing.T, obj *unstructured.Unstructured)
	// reverts, applies, creates and replaces say that an edit is reverted, a changed
	// manifest is applied, what is new in it is created, and what cannot be changed is
	// deleted and created again.
	reverts, applies, creates, replaces bool
	// pruned and deleted are what becomes of an object that left the manifest, and of
	// those of a VidraResource that is deleted.
	pruned, deleted string
}

// TestSwitches sets each switch, and sends Vidra down each of its ways to write.
func TestSwitches(t *testing.T) {
	t.Parallel()
	mode := func(mode v1alpha1.DriftMode) func(*v1alpha1.VidraResourceSpec) {
		return func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = &v1alpha1.DriftPolicy{Mode: mode} }
	}
	rows := map[string]switchRow{
		"None":    {reverts: true, applies: true, creates: true, replaces: true, pruned: removed, deleted: removed},
		"Suspend": {spec: func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true }, pruned: waits, deleted: waits},
		"Warn":    {spec: mode(v1alpha1.DriftWarn), applies: true, creates: true, replaces: true, pruned: removed, deleted: removed},
		"Ignore":  {spec: mode(v1alpha1.DriftIgnore), applies: true, creates: true, replaces: true, pruned: removed, deleted: removed},
		"BreakGlass": {
			annotation: func(t *testing.T, obj *unstructured.Unstructured) {
				t.Helper()
				annotate(t, obj, in(time.Hour), "incident 42")
			},
			applies: true, creates: true, pruned: waits, deleted: waits,
		},
		"Keep": {
			annotation: func(t *testing.T, obj *unstructured.Unstructured) {
				t.Helper()
				require.NoError(t, mergePatch(obj, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
			},
			reverts: true, applies: true, creates: true, pruned: let, deleted: let,
		},
		"Prune": {
			spec:    func(spec *v1alpha1.VidraResourceSpec) { spec.Prune = new(bool) },
			reverts: true, applies: true, creates: true, replaces: true, pruned: let, deleted: removed,
		},
		"Orphan": {
			spec:    func(spec *v1alpha1.VidraResourceSpec) { spec.DeletionPolicy = v1alpha1.DeletionOrphan },
			reverts: true, applies: true, creates: true, replaces: true, pruned: removed, deleted: let,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.try(t)
		})
	}
}

// try sets the switch in two VidraResources: one has an object that cannot be changed,
// which would hold back what left the manifest of the other one.
func (row switchRow) try(t *testing.T) {
	t.Helper()
	ns := newNamespace(t)
	fixed := ns + "-fixed"
	immutable := func(greeting string) string { return "immutable: true\n" + configMap("fixed", greeting) }
	before := manifests(configMap("edited", "hello"), configMap("changed", "hello"), configMap("old", "hello"))
	after := manifests(configMap("edited", "hello"), configMap("changed", "new"), configMap("fresh", "hello"))
	newVidraResource(t, ns, before)
	newVidraResource(t, ns, immutable("one"), named(fixed), forced)
	awaitReady(t, ns)
	awaitReady(t, fixed)
	of := func(name string) *unstructured.Unstructured {
		return declaredObject(t, ns, configMap(name, ""), "ConfigMap", name)
	}
	uid := get(t, of("fixed")).GetUID()
	for _, owner := range []string{ns, fixed} {
		if row.spec != nil {
			changeSpec(t, owner, row.spec)
			awaitReady(t, owner)
		}
	}
	for _, name := range []string{"edited", "changed", "old", "fixed"} {
		if row.annotation != nil {
			row.annotation(t, of(name))
		}
	}
	require.NoError(t, mergePatch(of("edited"), `{"data":{"greeting":"mine"}}`))
	setManifest(t, ns, after)
	setManifest(t, fixed, immutable("two"))
	pick := func(yes bool, one, other string) string {
		if yes {
			return one
		}
		return other
	}
	// A reconcile has seen the new manifest: what is not done then is not done.
	for _, owner := range []string{ns, fixed} {
		await(t, func(c *assert.CollectT) {
			v := getVidraResource(c, owner)
			seen := v.Status.ObservedGeneration == v.Generation || strings.Contains(condition(c, v, v1alpha1.ConditionReady).Message, "is not applied while spec.suspend is true")
			require.True(c, seen)
		})
	}
	check := func(c require.TestingT) {
		require.Equal(c, pick(row.reverts, "hello", "mine"), greeting(c, of("edited")), "an edit")
		require.Equal(c, pick(row.applies, "new", "hello"), greeting(c, of("changed")), "a changed manifest")
		err := admin.Get(context.Background(), client.ObjectKeyFromObject(of("fresh")), of("fresh"))
		require.Equal(c, row.creates, err == nil, "a new object: %v", err)
		require.Equal(c, pick(row.replaces, "two", "one"), greeting(c, of("fixed")), "an object that cannot be changed")
		require.Equal(c, row.replaces, get(c, of("fixed")).GetUID() != uid)
		requireFate(c, row.pruned, of("old"))
	}
	await(t, func(c *assert.CollectT) { check(c) })

	// "edited" may have a new field manager by now; what is looked at is whether it goes.
	last := getVidraResource(t, ns)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	if row.deleted == waits {
		await(t, func(c *assert.CollectT) {
			require.NotEqual(c, last.Generation, getVidraResource(c, ns).Status.ObservedGeneration, "the deletion is a generation")
		})
		requireFate(t, waits, of("edited"))
		return
	}
	awaitGone(t, last)
	await(t, func(c *assert.CollectT) { requireFate(c, row.deleted, of("edited")) })
}

// requireFate requires that an object is gone, unmanaged, or as it was.
func requireFate(c require.TestingT, fate string, obj *unstructured.Unstructured) {
	live := obj.DeepCopy()
	err := admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live)
	if fate == removed {
		require.True(c, apierrors.IsNotFound(err), "it is still there: %v", err)
		return
	}
	require.NoError(c, err)
	require.Equal(c, fate == waits, len(appliedBy(live)) > 0, "it is %s: %v", fate, appliedBy(live))
}
