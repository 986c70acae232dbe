package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// suspend has Vidra write nothing for a VidraResource.
func suspend(v *v1alpha1.VidraResource) { v.Spec.Suspend = true }

// TestNamespaceWithNamedObjects removes a Namespace with an object that another VidraResource has in its manifest and that no inventory
// lists: the Namespace stays until the other VidraResource is gone, and diff reports it.
func TestNamespaceWithNamedObjects(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// receiver creates the VidraResource that has the ConfigMap page in its manifest.
		receiver func(t *testing.T, ns, name string)
		// moved has the VidraResource of the Namespace own the ConfigMap, and drop it with the Namespace.
		moved bool
		// says is the end of the message about the object; empty if the Namespace goes.
		says string
	}{
		"Suspended": {
			"It applies the object when its spec.suspend is false.", func(t *testing.T, ns, name string) {
				t.Helper()
				newVidraResource(t, ns, configMap("page", "hello"), named(name), suspend)
			}, false, " in the manifest of VidraResource OTHER",
		},
		"Moved": {
			"It received the fields of the former owner, and has no inventory.", func(t *testing.T, ns, name string) {
				t.Helper()
				newVidraResource(t, ns, configMap("first", "hello"), named(name))
				awaitReady(t, name)
				changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) {
					spec.Suspend, spec.Manifest = true, manifests(configMap("first", "hello"), configMap("page", "hello"))
				})
			}, true, " in the manifest of VidraResource OTHER",
		},
		"Invalid": {
			"Its manifest cannot be parsed, and mentions the object.", func(t *testing.T, ns, name string) {
				t.Helper()
				newVidraResource(t, ns, configMap("page", "hello")+"  : [\n", named(name))
			}, false, ", which VidraResource OTHER mentions in a manifest that cannot be read",
		},
		"AnotherOperator": {
			"The operator of its installation does not run.", func(t *testing.T, ns, name string) {
				t.Helper()
				newVidraResource(t, ns, configMap("page", "hello"), named(name), ofAnotherOperator)
			}, false, " in the manifest of VidraResource OTHER",
		},
		"WithoutRights": {
			"Its account may not apply the object, so that any author could keep any Namespace.", func(t *testing.T, ns, name string) {
				t.Helper()
				require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "weak"}}))
				newVidraResource(t, ns, configMap("page", "hello"), named(name), suspend, as("weak"))
			}, false, "",
		},
	}
	vidra := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "diff"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, ns := newNamespace(t), unique(t)
			other, in := home+"-other", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: "+ns+"\ndata:\n  greeting: hello\n"
			first := manifests(configMap("fence", "hello"), namespaceOf(ns))
			if tc.moved {
				first = manifests(first, in)
			}
			newVidraResource(t, home, first)
			awaitReady(t, home)
			if !tc.moved {
				require.NoError(t, admin.Create(t.Context(), declaredObject(t, ns, in, "ConfigMap", "page")))
			}
			tc.receiver(t, ns, other)
			page, namespace := declaredObject(t, ns, in, "ConfigMap", "page"), declaredObject(t, home, namespaceOf(ns), "Namespace", ns)
			t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace.DeepCopy()) })
			uid := get(t, page).GetUID()

			if file := filepath.Join(t.TempDir(), "manifest.yaml"); !tc.moved {
				require.NoError(t, os.WriteFile(file, []byte(configMap("fence", "hello")), 0o600))
				await(t, func(c *assert.CollectT) { // while the kind of another test ends, the contents are unknown
					diff, problem, _ := vidra.run(t, home, "-f", file)
					require.Contains(c, diff, "- delete Namespace "+ns, problem)
					if tc.says != "" {
						require.Contains(c, diff, "It is not deleted while it holds ConfigMap "+ns+"/page"+strings.ReplaceAll(tc.says, "OTHER", other))
					} else {
						require.NotContains(c, diff, "It is not deleted while")
						require.NotContains(c, diff, "It is not known")
					}
				})
			}
			setManifest(t, home, configMap("fence", "hello"))
			if tc.says == "" {
				awaitGoneFor(t, 2*patience, namespace)
				awaitReady(t, home)
				return
			}
			says := []string{"Namespace " + ns, "it holds ", "ConfigMap " + ns + "/page" + strings.ReplaceAll(tc.says, "OTHER", other)}
			if tc.moved { // it is listed by the receiver, or will be
				says = []string{"Namespace " + ns, "ConfigMap " + ns + "/page ", "VidraResource " + other}
			}
			cluster.AwaitNotReadyFor(t, 3*patience, home, v1alpha1.ReasonDeletionBlocked, says...)
			require.Equal(t, uid, get(t, page).GetUID(), tc.reason)
			require.Nil(t, get(t, namespace).GetDeletionTimestamp())
			require.NoError(t, mergePatch(vidraResourceOf(other, "", ""), `{"metadata":{"finalizers":null}}`))
			require.NoError(t, deleteVidraResource(t.Context(), other))
			awaitGoneFor(t, 3*patience, namespace)
			cluster.AwaitReadyFor(t, 2*patience, home)
		})
	}
}

// TestRestoredObjectIsNotPruned drops an object from the manifest that a backup has restored with its managedFields since, while Vidra
// writes nothing: another object than the inventory lists, which Vidra has not applied.
func TestRestoredObjectIsNotPruned(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), configMap("page", "hello")), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	restored := get(t, page)
	entries := restored.GetManagedFields()
	for i := range entries {
		entries[i].Time = &metav1.Time{Time: entries[i].Time.Add(-time.Hour)}
	}
	restored.SetManagedFields(nil)
	restored.SetResourceVersion("")
	restored.SetUID("")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	require.NoError(t, admin.Create(t.Context(), restored))
	restored.SetManagedFields(entries)
	require.NoError(t, admin.Update(t.Context(), restored))
	require.Equal(t, []string{"vidra/" + ns}, appliedBy(get(t, page)))
	uid := get(t, page).GetUID()
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) {
		spec.Suspend, spec.Manifest = false, configMap("stays", "hello")
	})
	await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(c, ns).Status.ManagedResources, 1) })
	awaitReady(t, ns)
	require.Equal(t, uid, get(t, page).GetUID())
	require.Nil(t, get(t, page).GetDeletionTimestamp())
	require.NoError(t, edit(page, types.MergePatchType, `{"data":{"greeting":"mine"}}`))
}
