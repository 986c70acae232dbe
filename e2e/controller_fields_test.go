package e2e

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// aggregated is a manifest with an aggregated ClusterRole, as in the Kubernetes documentation, and a ClusterRole that it
// aggregates.
func aggregated(name string) string {
	return manifests(
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: "+name+
			"\naggregationRule:\n  clusterRoleSelectors:\n  - matchLabels:\n      aggregate: "+name+"\nrules: []\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: "+name+"-part\n  labels:\n    aggregate: "+name+
			"\nrules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [get]\n")
}

// asClusterAdmin has a VidraResource apply as an account that may use an aggregationRule.
func asClusterAdmin(t *testing.T, ns string) func(*v1alpha1.VidraResource) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "admin"}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "admin"}},
	}))
	return func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = "admin" }
}

// awaitHeals waits until the status counts heals, and no more of them.
func awaitHeals(t *testing.T, name string, heals int64) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		drift := getVidraResource(c, name).Status.Drift
		require.NotNil(c, drift)
		require.Equal(c, heals, drift.Heals)
	})
}

// TestControllersFillFields has controllers write fields for which the manifest has an empty value: nothing is reverted, and
// other fields are. With controllerFields: Revert, the writer and the field are named.
func TestControllersFillFields(t *testing.T) {
	t.Parallel()
	t.Run("AggregatedClusterRole", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, aggregated(ns), asClusterAdmin(t, ns))
		awaitReady(t, ns)
		role := declaredObject(t, ns, aggregated(ns), "ClusterRole", ns)
		await(t, func(c *assert.CollectT) {
			rules, _, err := unstructured.NestedSlice(get(c, role).Object, "rules")
			require.NoError(c, err)
			require.Len(c, rules, 1, "the controller has aggregated them")
		})
		awaitReady(t, ns)
		vidra := buildVidra(t)
		forecast, _, code := commandLine{binary: vidra, kubeconfig: env.KubeconfigPath, name: "forecast"}.run(t, ns)
		require.Zero(t, code, "no fight is expected: %s", forecast)
		require.Contains(t, forecast, "= ClusterRole "+ns+": left to the controllers that write it (spec.drift.controllerFields): rules\n")
		mark := auditMark(t)
		require.NoError(t, mergePatch(declaredObject(t, ns, aggregated(ns), "ClusterRole", ns+"-part"), `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["list"]}]}`))
		awaitInOrder(t, ns, declaredObject(t, ns, aggregated(ns), "ClusterRole", ns+"-part"))
		awaitHeals(t, ns, 1) // some seconds later
		require.Empty(t, operatorSince(t, mark).On("clusterroles", "", ns).Writes(), "the fight of the controller is none of Vidra's")
		text, said, _ := commandLine{binary: vidra, kubeconfig: env.KubeconfigPath, name: "why"}.run(t, "clusterrole/"+ns)
		require.Contains(t, text, "because controllers write them (spec.drift.controllerFields)", said)
	})
	for name, subresource := range map[string]bool{"Status": false, "StatusSubresource": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			crd, manifest := newKind(t)
			if subresource {
				crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
			}
			require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
			newVidraResource(t, ns, manifest+"status:\n  phase: \"\"\n")
			awaitReady(t, ns)
			thing := thingIn(crd, ns)
			options := []client.SubResourcePatchOption{client.FieldOwner("thing-controller")}
			report := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Ready"}}`))
			if subresource {
				require.NoError(t, admin.Status().Patch(t.Context(), thing.DeepCopy(), report, options...))
			} else {
				require.NoError(t, admin.Patch(t.Context(), thing.DeepCopy(), report, client.FieldOwner("thing-controller")))
			}
			require.NoError(t, mergePatch(thing, `{"spec":{"size":7}}`))
			await(t, func(c *assert.CollectT) {
				live := get(c, thing).Object
				require.EqualValues(c, 1, live["spec"].(map[string]any)["size"])
				require.Equal(c, "Ready", live["status"].(map[string]any)["phase"])
			})
			awaitHeals(t, ns, 1)
			awaitReady(t, ns)
		})
	}
	t.Run("Webhook", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		manifest := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n  name: " + ns +
			"\nwebhooks:\n- name: a.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  clientConfig:\n    url: https://127.0.0.1:1\n    caBundle: \"\"\n"
		newVidraResource(t, ns, manifest)
		awaitReady(t, ns)
		webhook := declaredObject(t, ns, manifest, "ValidatingWebhookConfiguration", ns)
		mark := auditMark(t)
		require.NoError(t, jsonPatch(webhook, `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(env.Config.CAData)))
		require.NoError(t, jsonPatch(webhook, `[{"op":"replace","path":"/webhooks/0/sideEffects","value":"NoneOnDryRun"}]`))
		await(t, func(c *assert.CollectT) {
			hooks, _, err := unstructured.NestedSlice(get(c, webhook).Object, "webhooks")
			require.NoError(c, err)
			require.Equal(c, "None", hooks[0].(map[string]any)["sideEffects"])
			require.NotEmpty(c, hooks[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"])
		})
		awaitHeals(t, ns, 1)
		require.LessOrEqual(t, len(operatorSince(t, mark).On("validatingwebhookconfigurations", "", ns).Writes().Accepted()), 2)
	})
	t.Run("Revert", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, aggregated(ns), asClusterAdmin(t, ns), withDrift(v1alpha1.DriftPolicy{ControllerFields: v1alpha1.ControllerFieldsRevert}))
		v := getVidraResource(t, ns)
		awaitEvent(t, v, "Warning", "DriftContended", "Restore", "ClusterRole "+ns, "rules")
	})
}

// TestBindingsFromRevert stops the revert of the fields that controllers write: the values of the manifest stay in the objects, owned by
// their controllers alone.
func TestBindingsFromRevert(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "robot"}}
	require.NoError(t, admin.Create(t.Context(), account))
	claim := declaredObject(t, ns, claimOf("claim", "one"), "PersistentVolumeClaim", "claim")
	require.NoError(t, unstructured.SetNestedField(claim.Object, ns, "spec", "storageClassName")) // no volume of another test fits
	require.NoError(t, admin.Create(t.Context(), claim))
	empty := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: lost\n  annotations: {pv.kubernetes.io/bind-completed: \"yes\", pv.kubernetes.io/bound-by-controller: \"yes\"}\n" +
		"spec:\n  accessModes: [ReadWriteOnce]\n  storageClassName: " + ns + "\n  resources: {requests: {storage: 1Gi}}\n"
	cases := map[string]struct {
		reason, kind, name, manifest string
		paths                        [][]string
	}{
		"Volume": {
			"A volume without the UID of its claim waits to be bound again.", "PersistentVolume", ns,
			"apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: " + ns + "\n  annotations: {pv.kubernetes.io/bound-by-controller: \"yes\"}\nspec:\n  accessModes: [ReadWriteOnce]\n" +
				"  capacity: {storage: 1Gi}\n  persistentVolumeReclaimPolicy: Retain\n  storageClassName: " + ns + "\n  hostPath: {path: /nowhere}\n" +
				"  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: " + ns + ", name: claim, uid: " + string(claim.GetUID()) + "}\n",
			[][]string{{"spec", "claimRef", "uid"}, {"metadata", "annotations", "pv.kubernetes.io/bound-by-controller"}},
		},
		"Claim": {
			"A claim that was bound is not bound to another volume.", "PersistentVolumeClaim", "lost", empty,
			[][]string{{"metadata", "annotations", "pv.kubernetes.io/bind-completed"}, {"metadata", "annotations", "pv.kubernetes.io/bound-by-controller"}},
		},
		"Token": {
			"The token is one of this account.", "Secret", "token",
			"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata:\n  name: token\n  annotations: {kubernetes.io/service-account.name: robot, kubernetes.io/service-account.uid: " + string(account.UID) + "}\n",
			[][]string{{"metadata", "annotations", "kubernetes.io/service-account.uid"}},
		},
		"Lease": {
			"The holder keeps its Lease.", "Lease", "leader",
			"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: leader\nspec:\n  holderIdentity: one\n  leaseDurationSeconds: 15\n",
			[][]string{{"spec", "holderIdentity"}},
		},
		"Account": {
			"The list of the manifest is empty.", "ServiceAccount", "builder",
			"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: builder\nsecrets: []\nimagePullSecrets: []\n", nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := ns + "-" + strings.ToLower(name)
			newVidraResource(t, ns, tc.manifest, named(vr), orphaning, withDrift(v1alpha1.DriftPolicy{ControllerFields: v1alpha1.ControllerFieldsRevert}))
			awaitReadyIgnoringHealth(t, vr)
			obj := declaredObject(t, ns, tc.manifest, tc.kind, tc.name)
			before := get(t, obj)
			uid := before.GetUID()
			owned := func(live *unstructured.Unstructured, path []string) bool {
				configuration, recorded := ownership.Extract(live, "vidra/"+vr)
				require.True(t, recorded)
				_, found, err := unstructured.NestedFieldNoCopy(configuration.Object, path...)
				require.NoError(t, err)
				return found
			}
			for _, path := range tc.paths {
				require.True(t, owned(before, path), "the manifest sets %s", path)
			}
			changeSpec(t, vr, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = nil })
			awaitReadyIgnoringHealth(t, vr)
			after := get(t, obj)
			require.Equal(t, uid, after.GetUID())
			for _, path := range tc.paths {
				was, _, err := unstructured.NestedFieldNoCopy(before.Object, path...)
				require.NoError(t, err)
				is, _, err := unstructured.NestedFieldNoCopy(after.Object, path...)
				require.NoError(t, err)
				require.Equal(t, was, is, tc.reason)
				require.False(t, owned(after, path), "it is left to its controller")
			}
		})
	}
}
