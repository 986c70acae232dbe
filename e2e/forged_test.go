package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// applyUnder applies another greeting to a page as
// `kubectl apply --server-side --force-conflicts --field-manager=MANAGER` does.
func applyUnder(page *unstructured.Unstructured, manager, greeting string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"greeting":%q}}`, page.GetName(), greeting)
	return edit(page, types.ApplyPatchType, body, client.ForceOwnership, client.FieldOwner(manager))
}

// TestForgedOwner edits an object under the name of a VidraResource that does not own it.
// The edit is reverted and told under that name, and the object goes with its owner.
func TestForgedOwner(t *testing.T) {
	t.Parallel()
	suspended := func(v *v1alpha1.VidraResource) { v.Spec.Suspend = true }
	cases := map[string]struct {
		reason string
		// other prepares the VidraResource with whose name the page is edited.
		other func(t *testing.T, ns, other string)
		edit  func(page *unstructured.Unstructured, other string) error
		// shared says that the other one owns the object in truth, so that it stays.
		shared bool
	}{
		"no such VidraResource": {"it has no owner", nil,
			func(page *unstructured.Unstructured, other string) error {
				return applyUnder(page, "vidra/"+other, "mine")
			}, false},
		"one without the object": {"its inventory does not list it", func(t *testing.T, ns, other string) {
			t.Helper()
			newVidraResource(t, ns, configMap("other", "hello"), named(other))
			awaitReady(t, other)
		}, func(page *unstructured.Unstructured, other string) error {
			return applyUnder(page, "vidra/"+other, "mine")
		}, false},
		"one that is suspended": {"it has applied nothing", func(t *testing.T, ns, other string) {
			t.Helper()
			newVidraResource(t, ns, configMap("other", "hello"), named(other), suspended)
		}, func(page *unstructured.Unstructured, other string) error {
			return applyUnder(page, "vidra/"+other, "mine")
		}, false},
		"of another installation": {"no VidraResource of this cluster has it", nil,
			func(page *unstructured.Unstructured, other string) error {
				return applyUnder(page, v1alpha1.Installation("east").FieldManager(other), "mine")
			}, false},
		"by an update": {"Vidra owns nothing by updates", nil, func(page *unstructured.Unstructured, other string) error {
			return edit(page, types.MergePatchType, `{"data":{"greeting":"mine"}}`, client.FieldOwner("vidra/"+other))
		}, false},
		"with its annotation": {"an annotation is no ownership", func(t *testing.T, ns, other string) {
			t.Helper()
			newVidraResource(t, ns, configMap("other", "hello"), named(other))
			awaitReady(t, other)
		}, func(page *unstructured.Unstructured, other string) error {
			if err := mergePatch(page, `{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
				v1alpha1.OwnerAnnotationKey(other), other, v1alpha1.OwnerAnnotation, other); err != nil {
				return err
			}
			return applyUnder(page, "vidra/"+other, "mine")
		}, false},
		"a name that is too long": {"no VidraResource has it", nil, func(page *unstructured.Unstructured, other string) error {
			return applyUnder(page, v1alpha1.FieldManager(other+long), "mine")
		}, false},
		"our own name": {"it is not what we applied", nil, func(page *unstructured.Unstructured, _ string) error {
			return applyUnder(page, "vidra/"+page.GetNamespace(), "mine")
		}, false},
		"our own name by an update": {"it is not what we applied", nil, func(page *unstructured.Unstructured, _ string) error {
			return edit(page, types.MergePatchType, `{"data":{"greeting":"mine"}}`, client.FieldOwner("vidra/"+page.GetNamespace()))
		}, false},
		"a true owner": {"it is not what that one applied", func(t *testing.T, ns, other string) {
			t.Helper()
			newVidraResource(t, ns, configMap("page", "hello"), named(other))
			awaitReady(t, other)
		}, func(page *unstructured.Unstructured, other string) error {
			return applyUnder(page, "vidra/"+other, "mine")
		}, true},
		"a true owner that is suspended": {"it is not what that one applied", func(t *testing.T, ns, other string) {
			t.Helper()
			newVidraResource(t, ns, configMap("page", "hello"), named(other))
			awaitReady(t, other)
			changeSpec(t, other, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
			awaitCondition(t, other, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
		}, func(page *unstructured.Unstructured, other string) error {
			return applyUnder(page, "vidra/"+other, "mine")
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			other := ns + "-other"
			newVidraResource(t, ns, configMap("page", "hello"))
			awaitReady(t, ns)
			if tc.other != nil {
				tc.other(t, ns, other)
			}
			page := declared(t, ns, configMap("page", "hello"))[0]
			require.NoError(t, tc.edit(page, other))
			awaitInOrder(t, ns, page)
			await(t, func(c *assert.CollectT) {
				v := getVidraResource(c, ns)
				require.NotNil(c, v.Status.Drift)
				require.NotNil(c, v.Status.Drift.LastHeal)
				require.Contains(c, v.Status.Drift.LastHeal.Fields, "data.greeting")
				require.Regexp(c, "^vidra/", v.Status.Drift.LastHeal.Manager, "the name that was used")
			}, tc.reason)
			awaitReady(t, ns)

			// The entry of the forged manager may stay, and has no effect.
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"again"}}`))
			awaitInOrder(t, ns, page)
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}})
			if tc.shared {
				require.Equal(t, "hello", greeting(t, page), "it is the other one's now")
			} else {
				awaitGone(t, page)
			}
		})
	}
}

// TestForgedOwnerIsPruned takes an object from the manifest after another field manager
// with the name of a VidraResource applied a field to it. It is pruned, and not left.
func TestForgedOwnerIsPruned(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"},"data":{"theirs":"here"}}`
	require.NoError(t, edit(page, types.ApplyPatchType, body, client.FieldOwner("vidra/"+ns+"-none")))
	setManifest(t, ns, configMap("stays", "hello"))
	awaitGone(t, page)
	awaitReady(t, ns)
}

// TestForgedOwnerIsNotAdopted applies an object under the name of a VidraResource, so that
// it looks managed. It is adopted or not as any other object.
func TestForgedOwnerIsNotAdopted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	page := declared(t, ns, configMap("page", "hello"))[0]
	require.NoError(t, applyUnder(page, "vidra/"+ns+"-none", "mine"))
	newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptNever })
	awaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused, "ConfigMap "+ns+"/page", "spec.adopt is Never")
	require.Equal(t, "mine", greeting(t, page))
}

// TestSeventeenthOwner has one VidraResource more than may own an object together. The
// last one is refused, says so, and takes nothing along when it goes.
func TestSeventeenthOwner(t *testing.T) {
	t.Parallel()
	const most = 16
	ns := newNamespace(t)
	page := declared(t, ns, configMap("page", "hello"))[0]
	owner := func(i int) string { return fmt.Sprintf("%s-%02d", ns, i) }
	for i := range most {
		newVidraResource(t, ns, configMap("page", "hello"), named(owner(i)))
		awaitReady(t, owner(i))
	}
	last := newVidraResource(t, ns, configMap("page", "hello"), named(owner(most)))
	awaitNotReady(t, owner(most), v1alpha1.ReasonOwnershipConflict, "16 VidraResources own it already", "take it out of this manifest", owner(0), owner(most-1))
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	for i := range most {
		awaitInOrder(t, owner(i), page)
	}
	require.NotContains(t, appliedBy(get(t, page)), "vidra/"+owner(most))
	require.NoError(t, deleteVidraResource(t.Context(), owner(most)))
	awaitGone(t, last)
	require.Len(t, appliedBy(get(t, page)), most)
}

// TestCrowdedObject has an object with many forged field managers and thousands of owner
// annotations, and edits of it without end. Others are healed meanwhile as if an object
// were edited that Vidra does not manage. With 2,000 managers the API server itself takes
// more than 30 s for an edit, and refuses it.
func TestCrowdedObject(t *testing.T) {
	t.Parallel()
	const forged, heals = 150, 9
	ns, hostile := newNamespace(t), newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	newVidraResource(t, hostile, configMap("crowded", "hello"))
	awaitReady(t, ns)
	awaitReady(t, hostile)
	page := declared(t, ns, configMap("page", "hello"))[0]
	crowded := declared(t, hostile, configMap("crowded", "hello"))[0]
	alone := crowded.DeepCopy()
	alone.SetName("alone")
	require.NoError(t, admin.Create(t.Context(), alone.DeepCopy()))
	for _, obj := range []*unstructured.Unstructured{crowded, alone} {
		crowd(t, obj, forged)
	}
	beside := func(obj *unstructured.Unstructured) []time.Duration {
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ctx.Err() == nil; i++ {
				_ = mergePatch(obj, `{"data":{"greeting":"mine %d"}}`, i)
			}
		}()
		var took []time.Duration
		for i := range heals {
			took = append(took, healOf(t, ns, page, fmt.Sprintf("mine %d", i)))
		}
		stop()
		<-stopped
		slices.Sort(took)
		return took
	}
	floor, took := beside(alone), beside(crowded)
	t.Logf("a heal took %s beside edits that are not healed, %s beside edits that Vidra heals", floor[heals/2], took[heals/2])
	require.Less(t, took[heals/2], 5*floor[heals/2]+time.Second, "%s, and %s", floor, took)
	awaitInOrder(t, hostile, crowded)
	require.NoError(t, deleteVidraResource(t.Context(), hostile))
	awaitGone(t, crowded)
}

// TestForgedCrowd has a user create thousands of objects with the label of Vidra whose annotations name a VidraResource of another tenant, and others that
// do not exist. Vidra sends no request about them, needs little memory for them, and heals the objects of the tenant as fast as beside objects without the label.
func TestForgedCrowd(t *testing.T) {
	const crowd, heals, memory = 2000, 9, 64 << 20
	ns, hostile := newNamespace(t), newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	beside := func(prefix string, labels map[string]string) []time.Duration {
		creating, created := errgroup.Group{}, make(chan error, 1)
		creating.SetLimit(16)
		go func() {
			for i := range crowd {
				creating.Go(func() error {
					annotations := map[string]string{v1alpha1.OwnerAnnotationKey(ns): ns}
					for j := range 8 {
						other := fmt.Sprintf("%s-%d-%d", hostile, i, j)
						annotations[v1alpha1.OwnerAnnotationKey(other)] = other
					}
					return admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
						Namespace: hostile, Name: fmt.Sprint(prefix, i), Labels: labels, Annotations: annotations,
					}})
				})
			}
			created <- creating.Wait()
		}()
		var took []time.Duration
		for i := range heals {
			took = append(took, healOf(t, ns, page, fmt.Sprintf("mine %d", i)))
		}
		require.NoError(t, <-created)
		slices.Sort(took)
		return took
	}
	floor := beside("plain-", nil)
	awaitReady(t, ns)
	mark, before := auditMark(t), suite.Metrics(t, operator)["process_resident_memory_bytes"]
	require.Positive(t, before)
	took := beside("forged-", map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
	t.Logf("a heal took %s beside objects without the label, %s beside forged ones", floor[heals/2], took[heals/2])
	require.Less(t, took[heals/2], 5*floor[heals/2]+time.Second, "%s, and %s", floor, took)
	require.Less(t, suite.Metrics(t, operator)["process_resident_memory_bytes"], before+memory)
	sent := operatorSince(t, mark)
	require.Empty(t, sent.ObjectsIn(hostile), "requests about objects of a user:\n%s", sent.ObjectsIn(hostile))
	require.LessOrEqual(t, len(sent.On("configmaps", ns, "page").Writes()), heals, "a heal each")
}

// crowd gives an object n forged field managers and as many names of owners as the API
// server takes.
func crowd(t *testing.T, obj *unstructured.Unstructured, n int) {
	t.Helper()
	live := get(t, obj)
	entries := live.GetManagedFields()
	for i := range n {
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprintf("vidra/forged-%d", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:greeting":{}}}`),
		})
	}
	const most = 250 << 10 // bytes of annotations
	annotations := live.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for i := range 10 * n {
		annotations[fmt.Sprintf("%s/forged-%d", v1alpha1.OwnerAnnotationPrefix, i)] = fmt.Sprintf("forged-%d", i)
	}
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	annotations[v1alpha1.OwnerAnnotation] = strings.Repeat("x,y,", (most-size)/4)
	live.SetManagedFields(entries)
	live.SetAnnotations(annotations)
	live.SetResourceVersion("")
	require.NoError(t, admin.Update(t.Context(), live, client.FieldOwner(person)))
	require.Greater(t, len(get(t, obj).GetManagedFields()), n)
}

// long makes a name too long for a field manager.
const long = "-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789"
