package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// adopting sets what is done about objects that exist.
func adopting(policy v1alpha1.AdoptPolicy) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.Adopt = policy }
}

// TestAdoption has objects that exist before the VidraResource that names them.
func TestAdoption(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		policy v1alpha1.AdoptPolicy
		// other and extra are what the object has besides, or instead.
		greeting string
		refused  string
		labels   map[string]string
	}{
		"Default, identical": {"It is taken if that changes nothing.", "", "hello", "", nil},
		"Default, different": {"It is not taken if that changes something, and what is said.", "", "mine", `data.greeting is "mine" and should be "hello"`, nil},
		"Default, another manager's": {
			"The label by which another tool finds it is a difference.", "", "hello", `labels.managed-by is "terraform"`,
			map[string]string{v1alpha1.ManagedByLabel: "terraform"},
		},
		"IfIdentical, identical": {"The same.", v1alpha1.AdoptIfIdentical, "hello", "", nil},
		"Never, identical":       {"It is not taken.", v1alpha1.AdoptNever, "hello", "spec.adopt is Never", nil},
		"Always, different":      {"It is taken, and changed.", v1alpha1.AdoptAlways, "mine", "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			cm := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "page", Namespace: ns, Labels: tt.labels}, Data: map[string]string{"greeting": tt.greeting, "extra": "stays"},
			}
			require.NoError(t, admin.Create(t.Context(), cm, client.FieldOwner(person)))
			newVidraResource(t, ns, configMap("page", "hello"), adopting(tt.policy))
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			if tt.refused != "" {
				v := awaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused, tt.refused)
				require.Empty(t, v.Status.ManagedResources, tt.reason)
				require.Equal(t, cm.ResourceVersion, get(t, page).GetResourceVersion(), "it was not touched")
				changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Adopt = v1alpha1.AdoptAlways })
			}
			awaitReady(t, ns)
			live := requireInOrder(t, ns, page)
			require.Equal(t, cm.UID, live.GetUID(), tt.reason)
			extra, _, err := unstructured.NestedString(live.Object, "data", "extra")
			require.NoError(t, err)
			require.Equal(t, "stays", extra)
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"again"}}`))
			awaitInOrder(t, ns, page)
		})
	}
}

// TestOrphans leaves objects in place: what leaves the manifest while spec.prune is
// false, what is annotated, and everything where the deletion policy says so. They keep
// what they have, and nothing of Vidra.
func TestOrphans(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	off := false
	all := manifests(configMap("unpruned", "hello"), configMap("kept", "hello"), configMap("orphan", "hello"), configMap("last", "hello"))
	v := newVidraResource(t, ns, all, func(v *v1alpha1.VidraResource) { v.Spec.Prune = &off })
	awaitReady(t, ns)
	object := func(name string) *unstructured.Unstructured { return declaredObject(t, ns, all, "ConfigMap", name) }
	uid := get(t, object("unpruned")).GetUID()

	setManifest(t, ns, manifests(configMap("kept", "hello"), configMap("orphan", "hello"), configMap("last", "hello")))
	requireOrphan(t, ns, object("unpruned"))
	require.Equal(t, uid, get(t, object("unpruned")).GetUID())
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place", "unpruned")

	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Prune = nil })
	require.NoError(t, mergePatch(object("kept"), `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
	setManifest(t, ns, manifests(configMap("orphan", "hello")))
	awaitReady(t, ns)
	awaitGone(t, object("last"))
	requireOrphan(t, ns, object("kept"))

	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	awaitReady(t, ns)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	requireOrphan(t, ns, object("orphan"))
	require.NoError(t, mergePatch(object("orphan"), `{"data":{"greeting":"mine"}}`))

	// Who wants it back adopts it.
	newVidraResource(t, ns, configMap("unpruned", "hello"))
	awaitReady(t, ns)
}

// requireOrphan waits until an object has nothing of Vidra, and requires that it has
// all that it had.
func requireOrphan(t *testing.T, owner string, obj *unstructured.Unstructured) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := get(c, obj)
		require.Empty(c, difference("", obj.Object, live.Object))
		require.Empty(c, live.GetLabels())
		require.NotContains(c, fmt.Sprint(live.GetAnnotations(), live.GetManagedFields()), "vidra/"+owner)
		require.NotContains(c, live.GetAnnotations(), v1alpha1.OwnerAnnotationKey(owner))
	})
}

// TestOwnerReferencesOfTheFirstOperator: an object that stays loses the ownerReference to its
// VidraResource that the first operator set, so that the garbage collector does not delete it.
func TestOwnerReferencesOfTheFirstOperator(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	all := manifests(configMap("shared", "hello"), configMap("kept", "hello"))
	newVidraResource(t, ns, all, named(one))
	first := awaitReady(t, one)
	newVidraResource(t, ns, configMap("shared", "hello"), named(two))
	awaitReady(t, two)
	objs := declared(t, ns, all)
	for _, obj := range objs {
		require.NoError(t, edit(obj, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"},"ownerReferences":[
			{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true},
			{"apiVersion":"v1","kind":"Namespace","name":%q,"uid":%q}]}}`,
			map[string]string{"shared": "example.com/other", "kept": v1alpha1.KeepAnnotation}[obj.GetName()],
			v1alpha1.GroupVersion, v1alpha1.Kind, one, first.UID, metav1.NamespaceSystem, uidOf(t, metav1.NamespaceSystem)), client.FieldOwner(firstOperator)))
	}
	before := map[string]types.UID{}
	for _, obj := range objs {
		before[obj.GetName()] = get(t, obj).GetUID()
	}
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	for _, obj := range objs {
		live := get(t, obj)
		require.Equal(t, before[obj.GetName()], live.GetUID())
		require.Nil(t, live.GetDeletionTimestamp())
		require.Len(t, live.GetOwnerReferences(), 1, "that of another owner stays")
		require.Equal(t, "Namespace", live.GetOwnerReferences()[0].Kind)
	}
	awaitReady(t, two)
}

// uidOf is the UID of a Namespace.
func uidOf(t *testing.T, namespace string) types.UID {
	t.Helper()
	ns := &corev1.Namespace{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: namespace}, ns))
	return ns.UID
}

// TestOrphanThatIsShared leaves an object to the VidraResource that owns it as well.
func TestOrphanThatIsShared(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	first := newVidraResource(t, ns, configMap("page", "hello"), named(one), func(v *v1alpha1.VidraResource) { v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	awaitReady(t, one)
	newVidraResource(t, ns, configMap("page", "hello"), named(two))
	awaitReady(t, two)
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, two, page)
	require.NoError(t, deleteVidraResource(t.Context(), two))
	await(t, func(c *assert.CollectT) {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(page), page.DeepCopy())
		require.True(c, apierrors.IsNotFound(err), "the last one deletes it")
	})
}

// TestForeignObjectThatComesBetween makes an object after Vidra has looked whether there
// is one, and before it applies its own: it is refused all the same.
func TestForeignObjectThatComesBetween(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	stall := proxy.Inject(faultproxy.Match{Verb: "patch", Resource: v1alpha1.GroupVersion.WithResource("vidraresources"), Name: ns}, faultproxy.Stall())
	newVidraResource(t, ns, configMap("page", "hello"), adopting(v1alpha1.AdoptNever))
	await(t, func(c *assert.CollectT) { require.NotZero(c, stall.Hits()) }, "the inventory is written, after the look")
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}, Data: map[string]string{"greeting": "theirs"}}
	require.NoError(t, admin.Create(t.Context(), theirs, client.FieldOwner(person)))
	stall.Remove()
	v := awaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused, "spec.adopt is Never")
	require.Empty(t, v.Status.ManagedResources)
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	require.Equal(t, "theirs", theirs.Data["greeting"])
}
