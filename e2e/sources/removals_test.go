package sources

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// uidOf returns the UID of a ConfigMap, which is there.
func uidOf(t require.TestingT, namespace, name string) types.UID {
	cm := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(bg, client.ObjectKey{Namespace: namespace, Name: name}, cm))
	require.Nil(t, cm.DeletionTimestamp)
	return cm.UID
}

// settled is longer than an object that left a manifest stays.
const settled = 5 * time.Second

// staysFor requires that a ConfigMap is the same object for a while.
func staysFor(t *testing.T, d time.Duration, namespace, name string, uid types.UID) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		require.Equal(t, uid, uidOf(t, namespace, name))
	}
}

// TestMoveToABrokenRevision: an object that a commit moves to another VidraResource keeps its UID while the new revision of that cannot be built.
func TestMoveToABrokenRevision(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "GitRepository", ns, "app")
	p.publish(t, source, "v1", map[string]string{"a/one.yaml": suite.Greeting("one", "hello"), "b/two.yaml": suite.Greeting("two", "hello"), "b/moved.yaml": suite.Greeting("moved", "hello")})
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", "a"))
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", "b", func(v *v1alpha1.VidraResource) { v.Name += "-b" }))
	cluster.AwaitReadyFor(t, patience, ns)
	cluster.AwaitReadyFor(t, patience, ns+"-b")
	uid := uidOf(t, ns, "moved")
	p.publish(t, source, "v2", map[string]string{"a/kustomization.yaml": "resources: [one.yaml, moved.yaml]\n", "a/moved.yaml": suite.Greeting("moved", "moved"), "b/two.yaml": suite.Greeting("two", "second")})
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "v2")
	awaitGreeting(t, ns, "two", "second")
	staysFor(t, settled, ns, "moved", uid)
	p.publish(t, source, "v3", map[string]string{"a/one.yaml": suite.Greeting("one", "hello"), "a/moved.yaml": suite.Greeting("moved", "moved"), "b/two.yaml": suite.Greeting("two", "second")})
	awaitGreeting(t, ns, "moved", "moved")
	cluster.AwaitReadyFor(t, patience, ns)
	cluster.AwaitReadyFor(t, patience, ns+"-b")
	require.Equal(t, uid, uidOf(t, ns, "moved"))
}

// TestRemovalsWaitForSources: an object that left the manifest is not removed while the next revision cannot be read: that may have it again.
func TestRemovalsWaitForSources(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "GitRepository", ns, "app")
	both := map[string]string{"a.yaml": suite.Greeting("one", "hello"), "b.yaml": suite.Greeting("two", "hello")}
	p.publish(t, source, "v1", both)
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", ""))
	cluster.AwaitReadyFor(t, patience, ns)
	uid := uidOf(t, ns, "two")
	two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "two"}}
	glass := func(until string) {
		require.NoError(t, cluster.MergePatch(two, `{"metadata":{"annotations":{%q:%s,%q:"a test"}}}`, v1alpha1.BreakGlassUntilAnnotation, until, v1alpha1.BreakGlassReasonAnnotation))
	}
	glass(`"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`) // the removal waits for its end
	p.publish(t, source, "v2", map[string]string{"a.yaml": suite.Greeting("one", "second")})
	awaitGreeting(t, ns, "one", "second")
	staysFor(t, settled, ns, "two", uid)
	p.setBroken(404)
	p.publish(t, source, "v3", map[string]string{"a.yaml": suite.Greeting("one", "third"), "b.yaml": suite.Greeting("two", "third")})
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "v3")
	glass("null")
	staysFor(t, settled, ns, "two", uid)
	p.setBroken(0)
	awaitGreeting(t, ns, "two", "third")
	require.Equal(t, uid, uidOf(t, ns, "two"))
}

// TestOptionalVariablesAreReplaced: objects whose names have a variable survive that the optional object with the variable is deleted and created again.
func TestOptionalVariablesAreReplaced(t *testing.T) {
	define(t, "OCIRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	p.publish(t, newSource(t, "OCIRepository", ns, "app"), "v1", map[string]string{"a.yaml": suite.Greeting("one${suffix}", "hello")})
	vars := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vars"}, Data: map[string]string{"suffix": "-prod"}}
	require.NoError(t, admin.Create(t.Context(), vars.DeepCopy()))
	cluster.NewVidraResource(t, ns, "", from("OCIRepository", "app", "", func(v *v1alpha1.VidraResource) {
		v.Spec.Kustomize = &v1alpha1.Kustomize{Substitute: map[string]string{"other": "x"}, SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: "ConfigMap", Name: "vars", Optional: true}}}
	}))
	cluster.AwaitReadyFor(t, patience, ns)
	uid := uidOf(t, ns, "one-prod")
	require.NoError(t, admin.Delete(t.Context(), vars.DeepCopy()))
	awaitGreeting(t, ns, "one", "hello")
	staysFor(t, settled, ns, "one-prod", uid)
	require.NoError(t, admin.Create(t.Context(), vars.DeepCopy()))
	suite.AwaitFor(t, patience, func(c *assertT) { require.Empty(c, greeting(c, ns, "one")) })
	require.Equal(t, uid, uidOf(t, ns, "one-prod"))
}

// TestReturnOfAVariable: after a crash while the artifact is gone, edits are reverted to the manifest that was applied last, also if an earlier
// revision has the same artifact, and was that manifest before.
func TestReturnOfAVariable(t *testing.T) {
	define(t, "OCIRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	p.publish(t, newSource(t, "OCIRepository", ns, "app"), "v1", map[string]string{"a.yaml": suite.Greeting("one", "${greeting}")})
	vars := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vars"}, Data: map[string]string{"greeting": "first"}}
	require.NoError(t, admin.Create(t.Context(), vars))
	cluster.NewVidraResource(t, ns, "", from("OCIRepository", "app", "", func(v *v1alpha1.VidraResource) {
		v.Spec.Kustomize = &v1alpha1.Kustomize{SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: "ConfigMap", Name: "vars"}}}
	}))
	cluster.AwaitReadyFor(t, patience, ns)
	applied := func(value string, revision int64) {
		t.Helper()
		awaitGreeting(t, ns, "one", value)
		suite.AwaitFor(t, patience, func(c *assertT) {
			require.NotNil(c, cluster.GetVidraResource(c, ns).Status.Revision)
			require.Equal(c, revision, cluster.GetVidraResource(c, ns).Status.Revision.Applied)
		})
	}
	applied("first", 1)
	require.NoError(t, cluster.MergePatch(vars, `{"data":{"greeting":"second"}}`))
	applied("second", 2)
	require.NoError(t, cluster.MergePatch(vars, `{"data":{"greeting":"first"}}`))
	applied("first", 1)
	restart(t, func() { p.setBroken(503) })
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "503")
	edit(t, ns, "one")
	suite.AwaitFor(t, patience, func(c *assertT) { require.NotEqual(c, "edited", greeting(c, ns, "one")) })
	require.Equal(t, "first", greeting(t, ns, "one"))
}
