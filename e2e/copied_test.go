package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// ofAnotherOperator has no operator reconcile a VidraResource.
func ofAnotherOperator(v *v1alpha1.VidraResource) {
	v.Labels = map[string]string{v1alpha1.InstallationLabel: "idle"}
}

// TestCopiedMarksAreNotAdopted has objects that users made with the marks of a VidraResource, in the ways in which an
// exported object gets into a cluster again. spec.adopt decides about them as about any other object.
func TestCopiedMarksAreNotAdopted(t *testing.T) {
	t.Parallel()
	created := func(t *testing.T, page *unstructured.Unstructured) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), page, client.FieldOwner("kubectl-create")))
	}
	// annotated creates the page with annotations.
	annotated := func(annotations ...string) func(t *testing.T, page *unstructured.Unstructured, ns string) {
		return func(t *testing.T, page *unstructured.Unstructured, ns string) {
			t.Helper()
			set := map[string]string{}
			for i := 0; i < len(annotations); i += 2 {
				set[strings.ReplaceAll(annotations[i], "NS", ns)] = strings.ReplaceAll(annotations[i+1], "NS", ns)
			}
			page.SetAnnotations(set)
			page.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
			created(t, page)
		}
	}
	const prefix = v1alpha1.OwnerAnnotationPrefix + "/"
	// cleared clears managedFields of the page after prepare.
	cleared := func(prepare func(t *testing.T, page *unstructured.Unstructured, ns string)) func(t *testing.T, page *unstructured.Unstructured, ns string) {
		return func(t *testing.T, page *unstructured.Unstructured, ns string) {
			t.Helper()
			prepare(t, page.DeepCopy(), ns)
			require.NoError(t, mergePatch(page, `{"metadata":{"managedFields":[{}]}}`))
		}
	}
	cases := map[string]struct {
		reason string
		make   func(t *testing.T, page *unstructured.Unstructured, ns string)
	}{
		"kubectl create": {"The user set the annotation.", annotated(prefix+"NS", "NS")},
		"kubectl apply": {"The user applied the annotation.", func(t *testing.T, page *unstructured.Unstructured, ns string) {
			t.Helper()
			body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page","annotations":{"` + prefix + ns + `":"` + ns + `"}},"data":{"greeting":"mine"}}`
			require.NoError(t, edit(page, types.ApplyPatchType, body, client.FieldOwner("kubectl")))
		}},
		"with managedFields": {"The API server takes fields from managers that a create names.", func(t *testing.T, page *unstructured.Unstructured, ns string) {
			t.Helper()
			exported := page.DeepCopy()
			exported.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: "vidra/" + ns, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:greeting":{}},"f:metadata":{"f:annotations":{"f:` + prefix + ns + `":{}}}}`),
			}})
			exported.SetAnnotations(map[string]string{prefix + ns: ns})
			created(t, exported)
		}},
		"list of the first operator": {"The user wrote the list.", annotated(v1alpha1.OwnerAnnotation, "NS,other")},
		"list of the first operator beside another manager of its name": {
			"Many operators write as the field manager \"manager\".", func(t *testing.T, page *unstructured.Unstructured, ns string) {
				t.Helper()
				annotated(v1alpha1.OwnerAnnotation, "NS")(t, page, ns)
				require.NoError(t, edit(page, types.MergePatchType, `{"data":{"extra":"theirs"}}`, client.FieldOwner(firstOperator)))
			},
		},
		"managedFields cleared": {"Nothing shows who set the annotation.", cleared(annotated(prefix+"NS", "NS"))},
		"managedFields cleared, and edited": {"The API server makes up an owner of the annotation.", func(t *testing.T, page *unstructured.Unstructured, ns string) {
			t.Helper()
			cleared(annotated(prefix+"NS", "NS"))(t, page, ns)
			require.NoError(t, edit(page, types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"},"data":{"extra":"theirs"}}`, client.FieldOwner("team")))
		}},
		"managedFields cleared, list of the first operator": {"Nothing shows who set the list.", cleared(annotated(v1alpha1.OwnerAnnotation, "NS"))},
		"managedFields cleared, marks of a VidraResource that was never reconciled": {
			"Its manifest names the object, and it has applied nothing.", cleared(func(t *testing.T, page *unstructured.Unstructured, ns string) {
				t.Helper()
				newVidraResource(t, ns, configMap("page", "hello"), named(ns+"-other"), ofAnotherOperator)
				annotated(v1alpha1.Installation("idle").OwnerAnnotationKey("NS-other"), "NS-other")(t, page, ns)
			}),
		},
		"marks of a VidraResource that was never reconciled": {
			"Its manifest names the object, and it has applied nothing.", func(t *testing.T, page *unstructured.Unstructured, ns string) {
				t.Helper()
				newVidraResource(t, ns, configMap("page", "hello"), named(ns+"-other"), ofAnotherOperator)
				annotated(v1alpha1.Installation("idle").OwnerAnnotationKey("NS-other"), "NS-other", prefix+"NS-other", "NS-other")(t, page, ns)
			},
		},
		"marks of a VidraResource whose object was deleted": {
			"Its inventory has another UID.", func(t *testing.T, page *unstructured.Unstructured, ns string) {
				t.Helper()
				other := ns + "-other"
				newVidraResource(t, ns, configMap("page", "mine"), named(other))
				awaitReady(t, other)
				changeSpec(t, other, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
				awaitCondition(t, other, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
				require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
				annotated(prefix+"NS-other", "NS-other")(t, page, ns)
			},
		},
		"marks of a VidraResource that was deleted and created again": {
			"The one of the same name has not applied it.", func(t *testing.T, page *unstructured.Unstructured, ns string) {
				t.Helper()
				v := newVidraResource(t, ns, configMap("page", "mine"))
				awaitReady(t, ns)
				exported := get(t, page)
				require.NoError(t, deleteVidraResource(t.Context(), ns))
				awaitGone(t, v)
				page.SetAnnotations(exported.GetAnnotations())
				page.SetLabels(exported.GetLabels())
				created(t, page)
			},
		},
	}
	for name, tc := range cases {
		for _, policy := range []v1alpha1.AdoptPolicy{v1alpha1.AdoptNever, v1alpha1.AdoptIfIdentical} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				page := declared(t, ns, configMap("page", "mine"))[0]
				tc.make(t, page.DeepCopy(), ns)
				made := get(t, page)
				newVidraResource(t, ns, configMap("page", "hello"), adopting(policy))
				v := awaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused, "ConfigMap "+ns+"/page")
				require.Empty(t, v.Status.ManagedResources, tc.reason)
				require.Equal(t, made.GetResourceVersion(), get(t, page).GetResourceVersion(), tc.reason)
				require.NoError(t, deleteVidraResource(t.Context(), ns))
				awaitGone(t, v)
				require.Equal(t, made.GetUID(), get(t, page).GetUID(), "it is not pruned, either")
			})
		}
	}
}

// TestCopiedListOfTheFirstOperator adopts an object on which a user wrote the list of the first operator, and that another
// program of the same field manager writes, too: what that owns stays its own.
func TestCopiedListOfTheFirstOperator(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	page := declared(t, ns, configMap("page", "mine"))[0]
	copied := page.DeepCopy()
	copied.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotation: ns})
	require.NoError(t, admin.Create(t.Context(), copied, client.FieldOwner("kubectl-create")))
	require.NoError(t, edit(page, types.MergePatchType, `{"data":{"extra":"theirs"}}`, client.FieldOwner(firstOperator)))
	newVidraResource(t, ns, configMap("page", "hello"), adopting(v1alpha1.AdoptAlways))
	awaitReady(t, ns)
	require.Contains(t, managersOf(get(t, page)), firstOperator)
}

// TestSharedObjectIsNoCopy has a second VidraResource own an object together with the first, whatever spec.adopt is: also
// after a user removed the marks of the first from the object.
func TestSharedObjectIsNoCopy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	page := declared(t, ns, configMap("page", "hello"))[0]
	newVidraResource(t, ns, configMap("page", "hello"), named(one), adopting(v1alpha1.AdoptNever))
	awaitReady(t, one)
	changeSpec(t, one, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitCondition(t, one, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	require.NoError(t, mergePatch(page, `{"metadata":{"managedFields":[{}]}}`))
	require.NoError(t, mergePatch(page, `{"metadata":{"annotations":null}}`))
	newVidraResource(t, ns, configMap("page", "hello"), named(two), adopting(v1alpha1.AdoptNever))
	awaitReady(t, two)
	require.NoError(t, deleteVidraResource(t.Context(), two))
	await(t, func(c *assert.CollectT) { require.Equal(c, []string{"vidra/" + one}, appliedBy(get(c, page))) })
}
