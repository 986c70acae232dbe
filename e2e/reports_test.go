package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file try what users of other engines have reported.

// TestUndeletableNamespaces has a manifest with a Namespace that the API server never deletes: it is released, which an Event says,
// and the deletion of the VidraResource ends.
func TestUndeletableNamespaces(t *testing.T) {
	t.Parallel()
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {" + ns + ": here}}\n"
			live := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			for how, remove := range map[string]func(){
				"pruned":  func() { setManifest(t, ns, configMap("page", "hello")) },
				"deleted": func() { require.NoError(t, deleteVidraResource(t.Context(), ns)) },
			} {
				v := newVidraResource(t, ns, manifests(namespace, configMap("page", "hello")), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
				v = awaitReady(t, v.Name)
				remove()
				awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place, unmanaged: ", "Namespace "+name, "the API server never deletes it")
				if how == "pruned" {
					awaitReady(t, ns)
					require.NoError(t, deleteVidraResource(t.Context(), ns))
				}
				awaitGone(t, v)
				require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(live), live))
				require.Nil(t, live.DeletionTimestamp)
				require.NotContains(t, live.Labels, v1alpha1.ManagedByLabel, "it is unmanaged")
				require.NotContains(t, live.Annotations, v1alpha1.OwnerAnnotationKey(ns))
			}
		})
	}
}

// TestNormalizedValues applies values for which the API server stores another form. They are the same values: no webhook is accused,
// nothing is applied again, and an edit is still reverted.
func TestNormalizedValues(t *testing.T) {
	t.Parallel()
	pod := func(fields string) string { return podOf(fields, "") }
	tests := map[string]struct {
		reason, manifest, kind string
		// edit is a merge patch that is reverted.
		edit string
	}{
		"base64 with line ends": {
			"base64 prints lines of 76 characters", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata:\n  key: |\n    aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjJodW50\n    ZXIy\n",
			"Secret", `{"data":{"key":"eA=="}}`,
		},
		"quantities": {
			"1000m is 1", pod("resources: {requests: {cpu: 1000m, memory: 1024Mi}, limits: {cpu: \"2.0\", memory: 1.5Gi}}\n"),
			"Deployment", `{"spec":{"replicas":3}}`,
		},
		"numbers": {
			"YAML reads 1e3 as a number", pod("resources: {requests: {cpu: 0.50, ephemeral-storage: 1e3}}\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"empty fields": {
			"the API server omits what is empty", pod("command: []\nenv: []\nresources: {}\nlivenessProbe: null\nstdin: false\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest)
			v := awaitReady(t, ns)
			requireNoAccusation(t, v)
			obj := declaredObject(t, ns, tt.manifest, tt.kind, "web")
			version := get(t, obj).GetResourceVersion()
			require.NoError(t, mergePatch(obj, "%s", tt.edit))
			require.Eventually(t, func() bool { return getVidraResource(t, ns).Status.Drift != nil }, patience, 10*poll)
			v = awaitReady(t, ns)
			requireNoAccusation(t, v)
			require.NotEqual(t, version, get(t, obj).GetResourceVersion())
			require.Equal(t, int64(1), v.Status.Drift.Heals, tt.reason)
		})
	}
}

// requireNoAccusation requires that no condition, problem or Event of a VidraResource suspects a webhook.
func requireNoAccusation(t *testing.T, v *v1alpha1.VidraResource) {
	t.Helper()
	require.Nil(t, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionWarnings))
	require.NotContains(t, fmt.Sprint(v.Status), "webhook")
	for _, e := range eventsAbout(t, v) {
		require.NotContains(t, e.Note, "webhook")
	}
}

// TestRefusedChanges changes what the API server does not let change, or only within bounds: the message has its words and the field,
// and no advice that destroys data.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: web}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}], clusterIP: None}\n"
	const scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n"
	const ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n"
	const binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: web}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}\n"
	tests := map[string]struct {
		reason, manifest, old, changed, kind, because string
		parts                                         []string
	}{
		"claim": {
			"an unbound claim changes in no field", claim, "1Gi", "512Mi", "PersistentVolumeClaim", v1alpha1.ReasonApplyFailed,
			[]string{"spec.resources.requests.storage", "never shrink"},
		},
		"selector": {
			"another name loses nothing", podOf("", ""), "{app: web}", "{app: shop}", "Deployment", v1alpha1.ReasonApplyFailed,
			[]string{"spec.selector", "immutable", "Give the Deployment another name"},
		},
		"address": {
			"the field can be omitted", service, "clusterIP: None", "clusterIP: 10.0.0.200", "Service", v1alpha1.ReasonApplyFailed,
			[]string{"spec.clusterIPs", "may not change once set", "Omit the field"},
		},
		"role": {
			"the subjects keep their rights", binding, "name: a}", "name: b}", "RoleBinding", v1alpha1.ReasonApplyFailed,
			[]string{"roleRef", "cannot change roleRef", "Add a RoleBinding with another name"},
		},
		"autoscaler": {
			"a bound of one field by another", scaler, "maxReplicas: 3", "maxReplicas: 3, minReplicas: 5", "HorizontalPodAutoscaler", v1alpha1.ReasonManifestInvalid,
			[]string{"spec.maxReplicas", "must be greater than or equal to"},
		},
		"backend": {
			"two fields that exclude each other", ingress, "service: {name: web, port: {number: 80}}", "service: {name: web, port: {number: 80, name: http}}", "Ingress",
			v1alpha1.ReasonManifestInvalid, []string{"spec.defaultBackend", "cannot set both port name & port number"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			for _, role := range []string{"a", "b"} {
				require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role}}))
			}
			newVidraResource(t, ns, tt.manifest)
			v := awaitReady(t, ns)
			uid := entry(t, v, tt.kind, "web").UID
			setManifest(t, ns, strings.ReplaceAll(tt.manifest, tt.old, tt.changed))
			v = awaitNotReady(t, ns, tt.because, append(tt.parts, tt.kind+" "+ns+"/web")...)
			message := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message
			require.NotContains(t, message, "delete the object", tt.reason)
			require.NotContains(t, message, `\n`)
			require.Equal(t, uid, entry(t, v, tt.kind, "web").UID)
			setManifest(t, ns, tt.manifest)
			awaitReady(t, ns)
		})
	}
}

// TestMissingReference applies an object that names another one, which does not exist: the message names that one, and it is applied once
// that exists.
func TestMissingReference(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: web}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}\n")
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "RoleBinding "+ns+"/web", "names an object that does not exist", `"reader" not found`)
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}}))
	awaitReady(t, ns)
}

// TestOldVersions names the version to use where discovery knows it, and advises no CustomResourceDefinition.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ manifest, kind, served string }{
		"Deployment":  {strings.Replace(podOf("", ""), "apps/v1", "apps/v1beta2", 1), "Deployment", "apps/v1"},
		"Ingress":     {"apiVersion: networking.k8s.io/v1beta1\nkind: Ingress\nmetadata: {name: web}\n", "Ingress", "networking.k8s.io/v1"},
		"CronJob":     {"apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: web}\n", "CronJob", "batch/v1"},
		"autoscaler":  {"apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n", "HorizontalPodAutoscaler", "autoscaling/v2"},
		"other group": {"apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: web}\n", "Ingress", "networking.k8s.io/v1"},
		"budget":      {"apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n", "PodDisruptionBudget", "policy/v1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest)
			v := awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, tt.kind, "set apiVersion to "+tt.served)
			require.NotContains(t, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message, "install")
		})
	}
}

// TestAmbiguousKinds has two groups with a kind of one name, and objects of one name in both: messages and Events name the group.
func TestAmbiguousKinds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, _ := newKind(t)
	crd.Spec.Names.Kind, crd.Spec.Names.ListKind = "Service", "ServiceList"
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}}},
	}}
	require.NoError(t, admin.Create(t.Context(), crd))
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
	custom := "apiVersion: " + crd.Spec.Group + "/v1\nkind: Service\nmetadata: {name: web}\nspec: {size: 1}\n"
	manifest := manifests(service, custom)
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(crd.Spec.Group + "/v1")
	obj.SetKind("Service")
	obj.SetNamespace(ns)
	obj.SetName("web")
	require.NoError(t, mergePatch(obj, `{"spec":{"size":3}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "Service."+crd.Spec.Group+" "+ns+"/web", "spec.size")
	setManifest(t, ns, strings.ReplaceAll(manifest, "size: 1", "size: big"))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Service."+crd.Spec.Group+" "+ns+"/web", "spec.size")
}
