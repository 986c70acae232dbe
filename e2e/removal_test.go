package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file are about what a removal takes, what it leaves, and to whom.

// TestDeleteInAnotherVersion removes an object after the version in which it was applied
// is not served any more, while another one is.
func TestDeleteInAnotherVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		remove func(t *testing.T, ns string)
	}{
		"the VidraResource is deleted": {
			"nothing of it is left", func(t *testing.T, ns string) {
				t.Helper()
				v := getVidraResource(t, ns)
				require.NoError(t, deleteVidraResource(t.Context(), ns))
				awaitGone(t, v)
			},
		},
		"it leaves the manifest": {
			"it is pruned", func(t *testing.T, ns string) {
				t.Helper()
				setManifest(t, ns, configMap("other", "hello"))
				v := awaitReady(t, ns)
				require.Len(t, v.Status.ManagedResources, 1)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			crd, manifest := newKind(t)
			second := crd.Spec.Versions[0]
			second.Name, second.Storage = "v2", false
			crd.Spec.Versions = append(crd.Spec.Versions, second)
			require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
			newVidraResource(t, ns, manifests(configMap("other", "hello"), manifest))
			awaitReady(t, ns)
			stopServing(t, crd, "v1")
			awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing")
			thing := thingIn(crd, ns)
			thing.SetAPIVersion(crd.Spec.Group + "/v2")
			require.Contains(t, appliedBy(get(t, thing)), "vidra/"+ns)

			tt.remove(t, ns)
			require.ErrorContains(t, admin.Get(t.Context(), client.ObjectKeyFromObject(thing), thing.DeepCopy()), "not found", tt.reason)
		})
	}
}

// stopServing has the API server not serve a version of a kind any more.
func stopServing(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, version string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
		for i := range live.Spec.Versions {
			live.Spec.Versions[i].Served = live.Spec.Versions[i].Name != version
		}
		require.NoError(c, admin.Update(context.Background(), live))
	})
}

// TestUpgradeOwnerThatHasNotTakenOverYet deletes one of two owners of an object of the
// first operator, while the other one is suspended and has never applied it. It goes with
// the other one.
func TestUpgradeOwnerThatHasNotTakenOverYet(t *testing.T) {
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	stopOperator(t)
	page := leftByFirstOperator(t, ns, configMap("page", "hello"), one, two)[0]
	require.NoError(t, mergePatch(getVidraResource(t, two), `{"spec":{"suspend":true}}`))
	uid := get(t, page).GetUID()
	startOperator(t)
	first := awaitReady(t, one)
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	live := get(t, page)
	require.Equal(t, uid, live.GetUID())
	require.Empty(t, difference("", page.Object, live.Object), "the other one gets it as it was")
	require.Equal(t, []string{two}, v1alpha1.Owners(live.GetAnnotations()))
	require.Equal(t, v1alpha1.ManagedByValue, live.GetLabels()[v1alpha1.ManagedByLabel])
	require.Equal(t, []string{"vidra/" + two}, appliedBy(live), "the other one has the fields of the first one, which it may remove")
	awaitEvent(t, first, corev1.EventTypeNormal, "Pruned", "Prune", "Released to their other owners: ConfigMap "+ns+"/page")

	changeSpec(t, two, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	awaitReady(t, two)
	require.Equal(t, uid, requireInOrder(t, two, page).GetUID())
	require.NoError(t, deleteVidraResource(t.Context(), two))
	awaitGone(t, page)
}

// TestUpgradeOwnerThatNeverTookOver deletes a VidraResource whose object of the first
// operator names others, too: one that does not exist, one that is going as well, and
// one that is not the owner of this object. No owner is left that would delete it.
func TestUpgradeOwnerThatNeverTookOver(t *testing.T) {
	cluster.NeedsAuditLog(t)
	ns := newNamespace(t)
	one, two, other := ns+"-one", ns+"-two", ns+"-other"
	newVidraResource(t, ns, configMap("other", "hello"), named(other))
	awaitReady(t, other)
	stopOperator(t)
	page := leftByFirstOperator(t, ns, configMap("page", "hello"), one, two)[0]
	require.NoError(t, mergePatch(page, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.OwnerAnnotation,
		strings.Join([]string{one, two, other, ns + "-gone"}, ",")))
	for _, name := range []string{one, two} {
		require.NoError(t, deleteVidraResource(t.Context(), name))
	}
	mark := auditMark(t)
	startOperator(t)
	for _, name := range []string{one, two} {
		awaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	awaitGone(t, page)
	deleted := operatorSince(t, mark).On("configmaps", ns, "page").Only(verbIs("delete")).Only(func(r request) bool { return r.Code == 200 })
	require.Len(t, deleted, 1, "%s", deleted)
}

// TestPruneOfAnotherObjectOfTheName has a user replace an object while no operator runs,
// from a copy with Vidra's marks in it. It is another object, which Vidra never applied.
func TestPruneOfAnotherObjectOfTheName(t *testing.T) {
	tests := map[string]struct {
		reason string
		remove func(t *testing.T, ns string)
	}{
		"the name leaves the manifest": {"it is not pruned", func(t *testing.T, ns string) {
			t.Helper()
			setManifest(t, ns, configMap("other", "hello"))
		}},
		"the VidraResource is deleted": {"it does not go with it", func(t *testing.T, ns string) {
			t.Helper()
			require.NoError(t, deleteVidraResource(t.Context(), ns))
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("other", "hello")))
			awaitReady(t, ns)
			page := get(t, declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page"))
			stopOperator(t)
			require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
			theirs := page.DeepCopy()
			theirs.SetUID("")
			theirs.SetResourceVersion("")
			theirs.SetManagedFields(nil)
			theirs.Object["data"] = map[string]any{"greeting": "theirs"}
			require.NoError(t, admin.Create(t.Context(), theirs, client.FieldOwner(person)))
			tt.remove(t, ns)
			startOperator(t)
			await(t, func(c *assert.CollectT) {
				v := &v1alpha1.VidraResource{}
				if client.IgnoreNotFound(admin.Get(context.Background(), client.ObjectKey{Name: ns}, v)) != nil {
					require.Fail(c, "it cannot be read")
				}
				require.False(c, slices.ContainsFunc(v.Status.ManagedResources, func(e v1alpha1.ManagedResourceStatus) bool { return e.Name == "page" }))
			})
			require.Equal(t, theirs.GetUID(), get(t, theirs).GetUID(), tt.reason)
		})
	}
}

// TestPruneOfARecreatedObject prunes an object that Vidra has created again, and of which
// the status still has the UID from before, as after a kill in between: it is Vidra's.
func TestPruneOfARecreatedObject(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("other", "hello")))
	v := awaitReady(t, ns)
	stopOperator(t)
	old := v.DeepCopy()
	for i := range v.Status.ManagedResources {
		v.Status.ManagedResources[i].UID = "00000000-0000-0000-0000-000000000000"
	}
	require.NoError(t, admin.Status().Patch(t.Context(), v, client.MergeFrom(old)))
	setManifest(t, ns, configMap("other", "hello"))
	startOperator(t)
	awaitReady(t, ns)
	awaitGone(t, declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page"))
}

// TestOrphanThatSomebodyDeletes lets a VidraResource go whose objects are to stay, while
// a user deletes one of them: it does not wait, and does not say that it removed it.
func TestOrphanThatSomebodyDeletes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		keep   func(t *testing.T, ns string, page *unstructured.Unstructured)
		told   string
	}{
		"policy": {"all of it is to stay", func(t *testing.T, ns string, _ *unstructured.Unstructured) {
			t.Helper()
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.DeletionPolicy = v1alpha1.DeletionOrphan })
		}, "Left in place"},
		"annotation": {"this is to stay", func(t *testing.T, _ string, page *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, mergePatch(page, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
		}, "Removed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := manifests(configMap("page", "hello"), configMap("other", "hello"))
			newVidraResource(t, ns, manifest)
			awaitReady(t, ns)
			page := declaredObject(t, ns, manifest, "ConfigMap", "page")
			tt.keep(t, ns, page)
			v := awaitReady(t, ns)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/stays"]}}`))
			t.Cleanup(func() { _ = mergePatch(page, `{"metadata":{"finalizers":null}}`) })
			require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, v)
			require.NotNil(t, get(t, page).GetDeletionTimestamp(), tt.reason)
			awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", tt.told, "ConfigMap "+ns+"/other")
			for _, e := range withReason(eventsAbout(t, v), "Pruned") {
				require.NotContains(t, e.Note, "/page", "Vidra neither removed it nor left it in place")
			}
		})
	}
}

// TestPruneOfObjectOfTwoGroups names an object by another of the groups that serve it: it
// is the same object, and stays.
func TestPruneOfObjectOfTwoGroups(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	event := func(apiVersion, about, by string) string {
		return fmt.Sprintf("apiVersion: %[1]s\nkind: Event\nmetadata:\n  name: note\n  namespace: %[2]s\n%[3]s: {kind: Namespace, name: x, namespace: %[2]s}\n"+
			"reason: Because\ntype: Normal\naction: Act\n%[4]s: c\nreportingInstance: i\neventTime: \"2026-01-01T00:00:00.000000Z\"\n", apiVersion, ns, about, by)
	}
	before, after := event("v1", "involvedObject", "reportingComponent"), event("events.k8s.io/v1", "regarding", "reportingController")
	newVidraResource(t, ns, before)
	awaitReady(t, ns)
	uid := get(t, declared(t, ns, before)[0]).GetUID()
	mark := auditMark(t)
	setManifest(t, ns, after)
	v := awaitReady(t, ns)
	require.Equal(t, uid, get(t, declared(t, ns, before)[0]).GetUID())
	require.Len(t, v.Status.ManagedResources, 1)
	require.Equal(t, "events.k8s.io/v1", entry(t, v, "Event", "note").APIVersion)
	require.Empty(t, operatorSince(t, mark).Only(verbIs("delete")).Only(nameIs("note")))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, declared(t, ns, before)[0])
}

// TestSharedObjectIsDeletedWhileItIsReleased has a user delete an object right before
// one of its owners gives up its fields: that does not make an empty one.
func TestSharedObjectIsDeletedWhileItIsReleased(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	first := newVidraResource(t, ns, configMap("page", "hello"), named(one))
	awaitReady(t, one)
	newVidraResource(t, ns, configMap("page", "hello"), named(two))
	awaitReady(t, two)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	changeSpec(t, two, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitReady(t, two)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	stall := proxy.Inject(faultproxy.Match{Verb: "patch", Namespace: ns, Name: "page"}, faultproxy.Stall())
	require.NoError(t, deleteVidraResource(t.Context(), one))
	await(t, func(c *assert.CollectT) { require.NotZero(c, stall.Hits()) })
	mark := auditMark(t)
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	stall.Remove()
	awaitGone(t, first)
	awaitGone(t, page)
	patches := operatorSince(t, mark).On("configmaps", ns, "page").Only(verbIs("patch"))
	require.NotEmpty(t, patches)
	for _, r := range patches {
		require.Equal(t, 409, r.Code, "it is another object than was looked at: %s", patches)
	}
}
