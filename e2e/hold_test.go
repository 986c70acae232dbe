package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

func hold(t *testing.T, name string, on bool) {
	t.Helper()
	changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) { spec.Revision = &v1alpha1.RevisionPolicy{Hold: on} })
}

// requireRevertedTo edits a ConfigMap, and waits for the revert.
func requireRevertedTo(t *testing.T, ns, name, text string) {
	t.Helper()
	require.NoError(t, mergePatch(pageOf(t, ns, name), `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, text, greeting(c, pageOf(t, ns, name))) })
}

// TestHold: a new revision waits, whatever it changes and wherever it comes from, and edits are reverted to the applied one.
func TestHold(t *testing.T) {
	t.Parallel()
	one, two := manifests(configMap("page", "one"), configMap("old", "one")), manifests(configMap("page", "two"), configMap("new", "two"))
	for name, inline := range map[string]bool{"inline": true, "ConfigMap": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			parts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "parts", Namespace: ns}, Data: map[string]string{"all": one}}
			set := func(text string) {
				if inline {
					setManifest(t, ns, text)
					return
				}
				require.NoError(t, mergePatch(parts, `{"data":{"all":%q}}`, text))
			}
			if inline {
				newVidraResource(t, ns, one)
			} else {
				require.NoError(t, admin.Create(t.Context(), parts))
				newVidraResource(t, ns, "", func(v *v1alpha1.VidraResource) {
					v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Namespace: ns, Key: "all"}}
				})
			}
			awaitReady(t, ns)
			hold(t, ns, true)
			awaitReady(t, ns)
			requireRevertedTo(t, ns, "page", "one")
			set(two)
			awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld, "spec.revision.hold is true")
			requireRevertedTo(t, ns, "page", "one")
			requireRevertedTo(t, ns, "old", "one")
			reconcileNow(t, ns)
			requireAbsent(t, pageOf(t, ns, "new"))
			said, _, code := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "diff"}.run(t, ns)
			require.Equal(t, 1, code, said)
			require.Contains(t, said, "a new revision waits while spec.revision.hold is true")
			require.Contains(t, said, "+  greeting: two")

			set(one)
			awaitReady(t, ns) // nothing waits any more
			set(two)
			awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
			hold(t, ns, false)
			awaitReady(t, ns)
			require.Equal(t, "two", greeting(t, pageOf(t, ns, "page")))
			require.Equal(t, "two", greeting(t, pageOf(t, ns, "new")))
			awaitGone(t, pageOf(t, ns, "old"))
		})
	}
}

// TestHoldFromTheStart: the first revision waits, too, and the deletion does not.
func TestHoldFromTheStart(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "one"), func(v *v1alpha1.VidraResource) { v.Spec.Revision = &v1alpha1.RevisionPolicy{Hold: true} })
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	requireAbsent(t, pageOf(t, ns, "page"))
	hold(t, ns, false)
	v := awaitReady(t, ns)
	hold(t, ns, true)
	setManifest(t, ns, configMap("page", "two"))
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	awaitGone(t, pageOf(t, ns, "page"))
}

// TestHoldAfterARestart kills Vidra while a revision waits: edits that were made meanwhile are reverted to the applied one. A manifest
// that was kept for a former hold is not applied. It is not parallel: it stops the operator.
func TestHoldAfterARestart(t *testing.T) {
	ns := newNamespace(t)
	former := ns + "-former"
	newVidraResource(t, ns, configMap("page", "one"))
	newVidraResource(t, ns, configMap("former", "one"), named(former))
	for _, name := range []string{ns, former} {
		awaitReady(t, name)
		hold(t, name, true)
		awaitReady(t, name)
		reconcileNow(t, name) // what is applied is kept now
	}
	setManifest(t, ns, configMap("page", "two"))
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	hold(t, former, false)
	setManifest(t, former, configMap("former", "two"))
	await(t, func(c *assert.CollectT) { require.Equal(c, "two", greeting(c, pageOf(t, ns, "former"))) })
	awaitReady(t, former)

	killOperator(t)
	require.NoError(t, mergePatch(pageOf(t, ns, "page"), `{"data":{"greeting":"mine"}}`))
	hold(t, former, true)
	setManifest(t, former, configMap("former", "three"))
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "page"))) })
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	awaitNotReadyAnyGeneration(t, former, v1alpha1.ReasonRevisionHeld)
	reconcileNow(t, ns)
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "former")))
	requireRevertedTo(t, ns, "page", "one")
	hold(t, ns, false)
	hold(t, former, false)
	awaitReady(t, ns)
	awaitReady(t, former)
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "page")))
	require.Equal(t, "three", greeting(t, pageOf(t, ns, "former")))
}

// TestHoldRemovesNothing: a manifest that was kept for a former hold, and lacks an object that was applied since, removes nothing: neither
// after a restart, nor at the end of the hold while the new manifest cannot be read. It is not parallel: it stops the operator.
func TestHoldRemovesNothing(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "one"))
	awaitReady(t, ns)
	hold(t, ns, true)
	awaitReady(t, ns)
	reconcileNow(t, ns) // the manifest with one object is kept
	hold(t, ns, false)
	setManifest(t, ns, manifests(configMap("page", "one"), configMap("later", "one")))
	awaitReady(t, ns)
	later := get(t, pageOf(t, ns, "later"))
	killOperator(t)
	hold(t, ns, true)
	setManifest(t, ns, manifests(configMap("page", "one"), configMap("new", "one")))
	startOperator(t)
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	reconcileNow(t, ns)
	stays := func() {
		t.Helper()
		now := get(t, pageOf(t, ns, "later"))
		require.Equal(t, later.GetUID(), now.GetUID())
		require.Nil(t, now.GetDeletionTimestamp())
	}
	stays()
	setManifest(t, ns, "kind: [")
	hold(t, ns, false)
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
	reconcileNow(t, ns)
	stays()
	setManifest(t, ns, manifests(configMap("page", "one"), configMap("new", "one")))
	awaitReady(t, ns)
	awaitGone(t, pageOf(t, ns, "later"))
}

// TestMoveFromAHeldOne: an object that a held revision gives away, or takes, stays where it is.
func TestMoveFromAHeldOne(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	newVidraResource(t, ns, manifests(configMap("page", "one"), configMap("a", "one")), named(one))
	newVidraResource(t, ns, manifests(configMap("other", "two"), configMap("b", "two")), named(two))
	awaitReady(t, one)
	awaitReady(t, two)
	page, other := get(t, pageOf(t, ns, "page")), get(t, pageOf(t, ns, "other"))
	hold(t, one, true)
	setManifest(t, one, manifests(configMap("other", "two"), configMap("a", "one")))
	awaitNotReadyAnyGeneration(t, one, v1alpha1.ReasonRevisionHeld)
	setManifest(t, two, manifests(configMap("page", "one"), configMap("b", "two")))
	reconcileNow(t, two)
	awaitReady(t, two)
	for _, was := range []client.Object{page, other} {
		is := get(t, pageOf(t, ns, was.GetName()))
		require.Equal(t, was.GetUID(), is.GetUID(), was.GetName())
	}
	require.NoError(t, mergePatch(pageOf(t, ns, "page"), `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "page"))) })
	hold(t, one, false)
	awaitReady(t, one)
	for _, was := range []client.Object{page, other} {
		is := get(t, pageOf(t, ns, was.GetName()))
		require.Equal(t, was.GetUID(), is.GetUID(), was.GetName())
		require.Nil(t, is.GetDeletionTimestamp())
	}
}

// TestLeftToAHeldOne: an object that another VidraResource left to a revision that waits is removed when it leaves that revision, too.
func TestLeftToAHeldOne(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		leaves func(t *testing.T, name string)
		// depends has a dependency in place of the hold.
		depends bool
	}{
		"Replaced": {reason: "The next revision lacks it.", leaves: func(t *testing.T, name string) {
			setManifest(t, name, configMap("a", "two"))
			awaitNotReadyAnyGeneration(t, name, v1alpha1.ReasonRevisionHeld)
			hold(t, name, false)
		}},
		"Returned": {reason: "The next revision is the applied one.", leaves: func(t *testing.T, name string) {
			setManifest(t, name, configMap("a", "one"))
			hold(t, name, false)
		}},
		"Released": {reason: "The manifest changes with the release.", leaves: func(t *testing.T, name string) {
			changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) {
				spec.Manifest, spec.Revision = configMap("a", "two"), nil
			})
		}},
		"Dependency": {reason: "A dependency has the manifest wait.", depends: true, leaves: func(t *testing.T, name string) {
			changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) {
				spec.Manifest, spec.DependsOn = configMap("a", "two"), nil
			})
		}},
		"Rolled back": {reason: "The applied revision lacks it, and the manifest of the spec has it until the release.", leaves: func(t *testing.T, name string) {
			rollback(t, name, 1)
			awaitReady(t, name)
			get(t, pageOf(t, strings.TrimSuffix(name, "-one"), "page"))
			changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) {
				spec.Manifest, spec.Revision = configMap("a", "two"), nil
			})
		}},
		"Deleted": {reason: "The VidraResource is deleted.", leaves: func(t *testing.T, name string) { require.NoError(t, deleteVidraResource(t.Context(), name)) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			one, two := ns+"-one", ns+"-two"
			newVidraResource(t, ns, configMap("a", "one"), named(one))
			newVidraResource(t, ns, manifests(configMap("page", "two"), configMap("b", "two")), named(two))
			awaitAppliedRevision(t, one, 1)
			awaitReady(t, two)
			page := get(t, pageOf(t, ns, "page"))
			reason := v1alpha1.ReasonRevisionHeld
			changeSpec(t, one, func(spec *v1alpha1.VidraResourceSpec) {
				spec.Revision, spec.Manifest = &v1alpha1.RevisionPolicy{Hold: true}, manifests(configMap("page", "two"), configMap("a", "one"))
				if tc.depends {
					spec.Revision, spec.DependsOn, reason = nil, []v1alpha1.Dependency{{Name: ns + "-absent"}}, v1alpha1.ReasonDependencyNotReady
				}
			})
			awaitNotReadyAnyGeneration(t, one, reason)
			setManifest(t, two, configMap("b", "two"))
			require.Eventually(t, func() bool {
				v := getVidraResource(t, two)
				return v.Status.Objects == 1 && v.IsReady()
			}, 2*time.Minute, time.Second, "the object is left to the revision that waits")
			require.Equal(t, page.GetUID(), get(t, pageOf(t, ns, "page")).GetUID())
			tc.leaves(t, one)
			awaitGone(t, pageOf(t, ns, "page"))
		})
	}
}

// TestLeftKindOfAHeldOne: an object of a kind that only a revision that waits has was left to that revision, and is removed when it leaves it, also after the
// watch of its former owner has ended.
func TestLeftKindOfAHeldOne(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	crd, manifest := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	thing := thingIn(crd, ns)
	newVidraResource(t, ns, configMap("a", "one"), named(one))
	newVidraResource(t, ns, manifests(manifest, configMap("b", "two")), named(two))
	awaitAppliedRevision(t, one, 1)
	awaitReady(t, two)
	uid := get(t, thing).GetUID()
	changeSpec(t, one, func(spec *v1alpha1.VidraResourceSpec) {
		spec.Revision, spec.Manifest = &v1alpha1.RevisionPolicy{Hold: true}, manifests(manifest, configMap("a", "one"))
	})
	awaitNotReadyAnyGeneration(t, one, v1alpha1.ReasonRevisionHeld)
	setManifest(t, two, configMap("b", "two"))
	require.Eventually(t, func() bool {
		v := getVidraResource(t, two)
		return v.Status.Objects == 1 && v.IsReady()
	}, 2*time.Minute, time.Second, "the object is left to the revision that waits")
	require.Never(t, func() bool { return get(t, thing).GetUID() != uid }, watchregistry.DefaultLinger+5*time.Second, time.Second)
	changeSpec(t, one, func(spec *v1alpha1.VidraResourceSpec) { spec.Manifest, spec.Revision = configMap("a", "two"), nil })
	awaitGone(t, thing)
}
