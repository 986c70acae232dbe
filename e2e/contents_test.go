package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// namespaceOf is a manifest with a Namespace alone.
func namespaceOf(ns string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + ns + "\n"
}

// unmanagedIn creates a ConfigMap that no VidraResource owns.
func unmanagedIn(t *testing.T, ns, name string, annotations map[string]string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: annotations}}
	require.NoError(t, admin.Create(t.Context(), cm))
	return cm
}

// removals are the two ways in which a Namespace is removed.
var removals = map[string]func(t *testing.T, name string){
	"Prune":    func(t *testing.T, name string) { setManifest(t, name, configMap("fence", "hello")) },
	"Deletion": func(t *testing.T, name string) { require.NoError(t, deleteVidraResource(t.Context(), name)) },
}

// TestNamespaceWithAKeptObject removes a Namespace that holds an object with the annotation keep, which the manifest does not
// have any more, or never had: the Namespace stays, and the Event names the object.
func TestNamespaceWithAKeptObject(t *testing.T) {
	t.Parallel()
	for name, remove := range removals {
		for _, left := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "LeftEarlier", false: "NeverManaged"}[left], func(t *testing.T) {
				t.Parallel()
				home, ns := newNamespace(t), unique(t)
				in := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: data\n  namespace: " + ns + "\n"
				v := newVidraResource(t, home, manifests(configMap("fence", "hello"), namespaceOf(ns), in))
				awaitReady(t, home)
				namespace := declaredObject(t, home, namespaceOf(ns), "Namespace", ns)
				t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace.DeepCopy()) })
				data := declaredObject(t, home, in, "ConfigMap", "data")
				kept := data.DeepCopy()
				if left {
					require.NoError(t, mergePatch(data, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
					setManifest(t, home, manifests(configMap("fence", "hello"), namespaceOf(ns)))
					await(t, func(c *assert.CollectT) { require.Empty(c, appliedBy(get(c, data))) })
					awaitReady(t, home)
				} else {
					kept.SetName("mine")
					unmanagedIn(t, ns, "mine", map[string]string{v1alpha1.KeepAnnotation: "true"})
				}
				uid := get(t, kept).GetUID()
				remove(t, home)
				awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place, unmanaged: ", "Namespace "+ns, "ConfigMap "+ns+"/"+kept.GetName())
				if name == "Deletion" {
					awaitGone(t, v)
				} else {
					awaitReady(t, home)
				}
				require.Nil(t, get(t, namespace).GetDeletionTimestamp())
				require.Equal(t, uid, get(t, kept).GetUID())
			})
		}
	}
}

// TestNamespaceWithObjectsOfOthers removes a Namespace that holds an object of another VidraResource, which may be under
// break-glass there: the Namespace stays until the object is gone, and the condition names the object and its owner.
func TestNamespaceWithObjectsOfOthers(t *testing.T) {
	t.Parallel()
	for name, remove := range removals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, ns := newNamespace(t), unique(t)
			other := home + "-other"
			v := newVidraResource(t, home, manifests(configMap("fence", "hello"), namespaceOf(ns)))
			awaitReady(t, home)
			newVidraResource(t, ns, configMap("page", "hello"), named(other))
			awaitReady(t, other)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			annotate(t, page, in(3600e9), "incident 42")
			awaitAnswer(t, other, page, v1alpha1.BreakGlassAccepted, "incident 42")
			uid := get(t, page).GetUID()
			remove(t, home)
			awaitNotReady(t, home, v1alpha1.ReasonDeletionBlocked, "Namespace "+ns, "it holds ConfigMap "+ns+"/page of VidraResource "+other)
			require.Equal(t, uid, get(t, page).GetUID())
			changeSpec(t, other, acceptNoBreakGlass)
			require.NoError(t, deleteVidraResource(t.Context(), other))
			awaitGoneFor(t, 2*patience, declaredObject(t, home, namespaceOf(ns), "Namespace", ns))
			if name == "Deletion" {
				awaitGoneFor(t, 2*patience, v)
			}
		})
	}
}

// TestNamespaceWithUnmanagedObjects removes a Namespace that holds objects which no VidraResource owns: the Event counts them,
// without those that Kubernetes makes, and spec.unmanagedContents decides whether they go with it.
func TestNamespaceWithUnmanagedObjects(t *testing.T) {
	t.Parallel()
	home, ns := newNamespace(t), unique(t)
	web := "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: " + ns + "\nspec:\n  ports:\n  - port: 80\n"
	v := newVidraResource(t, home, manifests(configMap("fence", "hello"), namespaceOf(ns), web), func(v *v1alpha1.VidraResource) {
		v.Spec.UnmanagedContents = v1alpha1.UnmanagedBlock
	})
	awaitReady(t, home)
	await(t, func(c *assert.CollectT) {
		account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
		require.NoError(c, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "default"}, account))
	})
	unmanagedIn(t, ns, "mine", nil)
	setManifest(t, home, configMap("fence", "hello"))
	awaitNotReady(t, home, v1alpha1.ReasonDeletionBlocked, "Namespace "+ns, "it holds 1 unmanaged objects", "spec.unmanagedContents", "ConfigMap "+ns+"/mine")
	changeSpec(t, home, func(spec *v1alpha1.VidraResourceSpec) { spec.UnmanagedContents = v1alpha1.UnmanagedDelete })
	awaitGoneFor(t, 2*patience, declaredObject(t, home, namespaceOf(ns), "Namespace", ns))
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Removed ", "Namespace "+ns+" (with 1 unmanaged objects: ConfigMap "+ns+"/mine)")
	awaitReady(t, home)
}

// TestDefinitionWithObjectsOfOthers removes a CustomResourceDefinition while another VidraResource has an object of its kind,
// and one that is kept.
func TestDefinitionWithObjectsOfOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	other := ns + "-other"
	definition, group := editedObject("CustomResourceDefinition", ns, ""), ns+".example.com"
	manifest := "apiVersion: " + group + "/v1\nkind: Thing\nmetadata:\n  name: thing\n"
	crd := declaredObject(t, ns, definition, "CustomResourceDefinition", "things."+group)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd.DeepCopy()) })
	v := newVidraResource(t, ns, manifests(configMap("fence", "hello"), definition))
	awaitReady(t, ns)
	newVidraResource(t, ns, manifest, named(other))
	awaitReady(t, other)
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Thing"}}
	thing.SetNamespace(ns)
	thing.SetName("thing")
	uid := get(t, thing).GetUID()
	setManifest(t, ns, configMap("fence", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonDeletionBlocked, "CustomResourceDefinition "+crd.GetName(), "Thing "+ns+"/thing of VidraResource "+other)
	require.Equal(t, uid, get(t, thing).GetUID())
	require.NoError(t, mergePatch(thing, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
	require.NoError(t, deleteVidraResource(t.Context(), other))
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place, unmanaged: ", "CustomResourceDefinition "+crd.GetName(), "Thing "+ns+"/thing")
	awaitReady(t, ns)
	require.Equal(t, uid, get(t, thing).GetUID())
}

// TestForcedDefinitionWithContents changes an immutable field of a CustomResourceDefinition with spec.force and allow-recreate: it is
// replaced unless it holds objects that stay, as before any other deletion of it. It is replaced soon after these are gone.
func TestForcedDefinitionWithContents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// fill puts something into the CustomResourceDefinition, and blocked is the part of the message for it; empty if it is replaced.
		fill    func(t *testing.T, ns string, thing *unstructured.Unstructured)
		block   bool
		blocked string
		// free ends that.
		free func(t *testing.T, ns string, thing *unstructured.Unstructured)
		// own reports that the manifest has the object, too.
		own bool
	}{
		"empty": {"nothing is lost", func(*testing.T, string, *unstructured.Unstructured) {}, true, "", nil, false},
		"unmanaged": {"the default is to delete them", func(t *testing.T, _ string, thing *unstructured.Unstructured) {
			require.NoError(t, admin.Create(t.Context(), thing))
		}, false, "", nil, false},
		"unmanaged, Block": {"spec.unmanagedContents", func(t *testing.T, _ string, thing *unstructured.Unstructured) {
			require.NoError(t, admin.Create(t.Context(), thing))
		}, true, "it holds 1 unmanaged objects", func(t *testing.T, _ string, thing *unstructured.Unstructured) {
			require.NoError(t, admin.Delete(t.Context(), thing.DeepCopy()))
		}, false},
		"kept": {"the annotation keep", func(t *testing.T, _ string, thing *unstructured.Unstructured) {
			thing.SetAnnotations(map[string]string{v1alpha1.KeepAnnotation: "true"})
			require.NoError(t, admin.Create(t.Context(), thing))
		}, false, "with the annotation keep", func(t *testing.T, _ string, thing *unstructured.Unstructured) {
			require.NoError(t, mergePatch(thing, `{"metadata":{"annotations":null}}`))
		}, false},
		"of another": {"another VidraResource owns one", func(t *testing.T, ns string, thing *unstructured.Unstructured) {
			newVidraResource(t, ns, "apiVersion: "+thing.GetAPIVersion()+"\nkind: Thing\nmetadata:\n  name: thing\n", named(ns+"-other"))
			awaitReady(t, ns+"-other")
		}, false, "of VidraResource ", func(t *testing.T, ns string, _ *unstructured.Unstructured) {
			require.NoError(t, deleteVidraResource(t.Context(), ns+"-other"))
		}, false},
		"under break-glass": {"its own object is exempt from its removal", func(t *testing.T, ns string, thing *unstructured.Unstructured) {
			until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
			require.NoError(t, mergePatch(thing, `{"metadata":{"annotations":{%q:%q,%q:"incident 42"}}}`, v1alpha1.BreakGlassUntilAnnotation, until, v1alpha1.BreakGlassReasonAnnotation))
			await(t, func(c *assert.CollectT) {
				answer := entry(c, getVidraResource(c, ns), "Thing", "thing").BreakGlass
				require.NotNil(c, answer)
				require.Equal(c, v1alpha1.BreakGlassAccepted, answer.State)
			})
		}, false, "incident 42", func(t *testing.T, _ string, thing *unstructured.Unstructured) {
			require.NoError(t, mergePatch(thing, `{"metadata":{"annotations":{%q:null,%q:null}}}`, v1alpha1.BreakGlassUntilAnnotation, v1alpha1.BreakGlassReasonAnnotation))
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			group := ns + ".example.com"
			definition := func(scope string) string {
				return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things." + group +
					"\n  annotations: {" + v1alpha1.AllowRecreateAnnotation + ": \"true\"}\nspec:\n  group: " + group + "\n  scope: " + scope +
					"\n  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}\n  versions:\n" +
					"  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n"
			}
			manifest := func(scope string) string {
				if tt.own {
					return manifests(definition(scope), "apiVersion: "+group+"/v1\nkind: Thing\nmetadata:\n  name: thing\n")
				}
				return definition(scope)
			}
			crd := declaredObject(t, ns, definition("Namespaced"), "CustomResourceDefinition", "things."+group)
			newVidraResource(t, ns, manifest("Namespaced"), func(v *v1alpha1.VidraResource) {
				v.Spec.Force = true
				if tt.block {
					v.Spec.UnmanagedContents = v1alpha1.UnmanagedBlock
				}
			})
			t.Cleanup(func() { _ = admin.Delete(context.Background(), crd.DeepCopy()) })
			awaitReady(t, ns)
			uid := get(t, crd).GetUID()
			thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Thing"}}
			thing.SetNamespace(ns)
			thing.SetName("thing")
			await(t, func(c *assert.CollectT) {
				if err := admin.Get(t.Context(), client.ObjectKeyFromObject(thing), thing.DeepCopy()); !tt.own {
					require.ErrorContains(c, err, `"thing" not found`)
				}
			})
			tt.fill(t, ns, thing)
			setManifest(t, ns, manifest("Cluster"))
			if tt.blocked != "" {
				awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "spec.scope", tt.blocked)
				require.Equal(t, uid, get(t, crd).GetUID(), tt.reason)
				require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(thing), thing))
				time.Sleep(20 * time.Second) // longer than the attempts of a backoff
				tt.free(t, ns, thing)
			}
			awaitReady(t, ns)
			require.NotEqual(t, uid, get(t, crd).GetUID(), tt.reason)
		})
	}
}
