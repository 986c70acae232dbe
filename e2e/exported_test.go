package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// otherUID is the UID of an object of another cluster.
const otherUID = "11111111-1111-1111-1111-111111111111"

// TestFieldsThatControllersFill applies objects as kubectl get -o yaml prints them, and as manifests have them with empty values, while the controllers of
// Kubernetes write their fields: they are created once, few writes follow, and the controllers finish their work.
func TestFieldsThatControllersFill(t *testing.T) {
	t.Parallel()
	token := func(annotation, data string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  annotations:\n    kubernetes.io/service-account.name: default\n" + annotation +
			"type: kubernetes.io/service-account-token\n" + data
	}
	filled := func(c *assert.CollectT, live *unstructured.Unstructured) {
		data, _, err := unstructured.NestedStringMap(live.Object, "data")
		require.NoError(c, err)
		require.NotEmpty(c, data["token"])
		require.Greater(c, len(data["ca.crt"]), 100, "the certificate of this cluster")
	}
	cases := map[string]struct {
		reason, kind, resource, manifest string
		finished                         func(c *assert.CollectT, live *unstructured.Unstructured)
	}{
		"Token": {
			"The token controller deletes a token with the UID of another ServiceAccount.", "Secret", "secrets",
			token("    kubernetes.io/service-account.uid: "+otherUID+"\n", ""), filled,
		},
		"TokenEmpty": {
			"The token controller fills each key.", "Secret", "secrets", token("", "data:\n  token: \"\"\n  ca.crt: \"\"\n  namespace: \"\"\n"), filled,
		},
		"TokenStale": {
			"The token controller replaces the certificate of another cluster.", "Secret", "secrets",
			token("", "data:\n  token: YWJj\n  ca.crt: YWJj\n  namespace: YWJj\n"), filled,
		},
		"NamespaceFinalizers": {
			"The API server adds its finalizer.", "Namespace", "namespaces", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: <ns>-in\nspec:\n  finalizers: []\n",
			func(c *assert.CollectT, live *unstructured.Unstructured) {
				finalizers, _, err := unstructured.NestedStringSlice(live.Object, "spec", "finalizers")
				require.NoError(c, err)
				require.Equal(c, []string{"kubernetes"}, finalizers)
			},
		},
		"RootCA": {
			"The publisher of the root CA writes it in each namespace.", "ConfigMap", "configmaps",
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kube-root-ca.crt\ndata:\n  ca.crt: stale\n",
			func(c *assert.CollectT, live *unstructured.Unstructured) {
				text, _, err := unstructured.NestedString(live.Object, "data", "ca.crt")
				require.NoError(c, err)
				require.Contains(c, text, "BEGIN CERTIFICATE")
			},
		},
		"Volume": {
			"The controller of volumes deletes one that is bound to a claim with another UID.", "PersistentVolume", "persistentvolumes",
			"apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: <ns>\n  annotations:\n    pv.kubernetes.io/bound-by-controller: \"yes\"\nspec:\n" +
				"  capacity: {storage: 1Gi}\n  accessModes: [ReadWriteOnce]\n  persistentVolumeReclaimPolicy: Delete\n  hostPath: {path: /tmp/vidra-test}\n" +
				"  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: <ns>, name: a, uid: " + otherUID + ", resourceVersion: \"12\"}\n" +
				"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: a\n  annotations:\n    pv.kubernetes.io/bind-completed: \"yes\"\n" +
				"    pv.kubernetes.io/bound-by-controller: \"yes\"\nspec:\n  accessModes: [ReadWriteOnce]\n  storageClassName: \"\"\n  volumeName: <ns>\n" +
				"  resources: {requests: {storage: 1Gi}}\n",
			func(c *assert.CollectT, live *unstructured.Unstructured) {
				phase, _, err := unstructured.NestedString(live.Object, "status", "phase")
				require.NoError(c, err)
				require.Equal(c, "Bound", phase)
				claim := &corev1.PersistentVolumeClaim{}
				require.NoError(c, admin.Get(t.Context(), client.ObjectKey{Namespace: live.GetName(), Name: "a"}, claim))
				require.Equal(c, corev1.ClaimBound, claim.Status.Phase)
				uid, _, err := unstructured.NestedString(live.Object, "spec", "claimRef", "uid")
				require.NoError(c, err)
				require.Equal(c, string(claim.UID), uid)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := strings.ReplaceAll(tc.manifest, "<ns>", ns)
			object := declared(t, ns, manifest)[0]
			await(t, func(c *assert.CollectT) { // a token of an account that does not exist is deleted
				get(c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}})
				get(c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kube-root-ca.crt"}})
			})
			mark := auditMark(t)
			newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
			awaitReady(t, ns)
			await(t, func(c *assert.CollectT) { tc.finished(c, get(c, object)) }, tc.reason)
			awaitReady(t, ns)
			awaitFewWrites(t, func() requests {
				return operatorSince(t, mark).On(tc.resource, object.GetNamespace(), object.GetName())
			}, tc.reason)
		})
	}
}

// awaitFewWrites requires that an object was created once at most, and written few times, some reconciles later.
func awaitFewWrites(t *testing.T, sent func() requests, reason string) {
	t.Helper()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	for i := range 5 {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"edit %d"}}`, i))
		awaitInOrder(t, ns, page)
	}
	writes := sent().Writes()
	created := writes.Only(func(r request) bool { return r.Code == http.StatusCreated })
	require.LessOrEqual(t, len(created), 1, "%s: %s", reason, writes)
	require.LessOrEqual(t, len(writes), 6, "%s: %s", reason, writes)
}

// TestPodWithGates applies a Pod whose gates its controller removes, and that the scheduler binds: neither is reverted.
func TestPodWithGates(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  nodeName: \"\"\n  schedulingGates: [{name: example.com/gate}]\n  containers: [{name: a, image: a}]\n"
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	pod := declaredObject(t, ns, manifest, "Pod", "a")
	gates, _, err := unstructured.NestedSlice(get(t, pod).Object, "spec", "schedulingGates")
	require.NoError(t, err)
	require.Len(t, gates, 1, "it is created with its gates")
	mark := auditMark(t)
	require.NoError(t, mergePatch(pod, `{"spec":{"schedulingGates":null}}`))
	require.NoError(t, admin.SubResource("binding").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}}, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}))
	awaitFewWrites(t, func() requests { return operatorSince(t, mark).On("pods", ns, "a") }, "the Pod is bound")
	awaitReady(t, ns)
}

// TestLeaseOfAManifest has a client hold a Lease that the manifest has with empty values.
func TestLeaseOfAManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: a\nspec:\n  holderIdentity: \"\"\n  leaseTransitions: 0\n  leaseDurationSeconds: 15\n"
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	lease := declaredObject(t, ns, manifest, "Lease", "a")
	mark := auditMark(t)
	require.NoError(t, mergePatch(lease, `{"spec":{"holderIdentity":"me","renewTime":"2026-01-02T03:04:05.000000Z","leaseTransitions":1}}`))
	awaitFewWrites(t, func() requests { return operatorSince(t, mark).On("leases", ns, "a") }, "the Lease is held")
	require.Equal(t, "me", get(t, lease).Object["spec"].(map[string]any)["holderIdentity"])
	require.Empty(t, operatorSince(t, mark).On("leases", ns, "a").Writes())
}

// TestDanglingReferences applies objects with owner references, as they are exported: with one to an owner that does not exist, the garbage collector
// would delete the object after each apply. It is refused, and is not created without end.
func TestDanglingReferences(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	owner := unmanagedIn(t, ns, "owner", nil)
	owned := func(uids ...string) string {
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n"
		for i, uid := range uids {
			text += fmt.Sprintf("  - {apiVersion: v1, kind: ConfigMap, name: %s, uid: %s}\n", []string{"owner", "gone"}[i], uid)
		}
		return text + "data:\n  greeting: hello\n"
	}
	vidra := buildVidra(t)
	cases := map[string]struct {
		reason, manifest, refused string
	}{
		"Exists":  {"It is deleted with its owner.", owned(string(owner.UID)), ""},
		"Another": {"The owner is another object of the name.", owned(otherUID), "metadata.ownerReferences[0] names ConfigMap owner with the uid " + otherUID},
		"Mixed":   {"The garbage collector removes the reference.", owned(string(owner.UID), otherUID), "metadata.ownerReferences[1] names ConfigMap gone"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := ns
			manifest := strings.Replace(tc.manifest, "name: owned", "name: "+strings.ToLower(name), 1)
			mark := auditMark(t)
			own := in + "-" + strings.ToLower(name)
			newVidraResource(t, in, manifests(configMap("fence-"+strings.ToLower(name), "hello"), manifest), named(own))
			sent := func() requests { return operatorSince(t, mark).On("configmaps", in, strings.ToLower(name)) }
			if tc.refused == "" {
				awaitReady(t, own)
				awaitFewWrites(t, sent, tc.reason)
				return
			}
			awaitNotReady(t, own, v1alpha1.ReasonApplyFailed, tc.refused, "garbage collector", "Remove the reference")
			awaitFewWrites(t, sent, tc.reason)
			require.Empty(t, sent().Writes(), tc.reason)
			diff, problem, _ := commandLine{binary: vidra, kubeconfig: env.KubeconfigPath, name: "diff"}.run(t, own)
			require.Contains(t, diff, "x refuse ConfigMap "+in+"/"+strings.ToLower(name), problem)
			require.Contains(t, diff, tc.refused)
			setManifest(t, own, manifests(configMap("fence-"+strings.ToLower(name), "hello"), configMap(strings.ToLower(name), "hello")))
			awaitReady(t, own)
		})
	}
}
