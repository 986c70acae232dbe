package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// refusals bring a VidraResource of the name of a namespace into a state in which it stays.
var refusals = map[string]struct {
	reason string
	begin  func(t *testing.T, ns string)
	// end ends the cause; nil if only a change of the VidraResource does. awaitReady follows.
	end func(t *testing.T, ns string)
}{
	"OwnershipConflict": {v1alpha1.ReasonOwnershipConflict, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "mine"), named(ns+"-first"))
		awaitReady(t, ns+"-first")
		newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("other", "hello")))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, deleteVidraResource(t.Context(), ns+"-first"))
	}},
	"OwnershipConflictOfAChange": {v1alpha1.ReasonOwnershipConflict, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), named(ns+"-first"))
		awaitReady(t, ns+"-first")
		newVidraResource(t, ns, configMap("page", "hello"))
		awaitReady(t, ns)
		setManifest(t, ns, configMap("page", "mine"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, deleteVidraResource(t.Context(), ns+"-first"))
	}},
	"Crowded": {v1alpha1.ReasonOwnershipConflict, func(t *testing.T, ns string) {
		t.Helper()
		for i := range 16 {
			newVidraResource(t, ns, configMap("page", "hello"), named(fmt.Sprintf("%s-%d", ns, i)))
			awaitReady(t, fmt.Sprintf("%s-%d", ns, i))
		}
		newVidraResource(t, ns, configMap("page", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, deleteVidraResource(t.Context(), ns+"-7"))
	}},
	"AdoptionRefused": {v1alpha1.ReasonAdoptionRefused, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}, Data: map[string]string{"greeting": "mine"}}))
		newVidraResource(t, ns, configMap("page", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}))
	}},
	"Unreadable": {v1alpha1.ReasonManifestInvalid, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: [")
	}, nil},
	"Invalid": {v1alpha1.ReasonManifestInvalid, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: Service\nmetadata: {name: page}\nspec: {ports: [{port: 100000}]}\n")
	}, nil},
	"HoldsItself": {v1alpha1.ReasonManifestInvalid, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: "+ns+"}\nspec: {manifest: \"\"}\n")
	}, nil},
	"Empty": {v1alpha1.ReasonManifestEmpty, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "# nothing\n")
	}, nil},
	"Forbidden": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "powerless"}}))
		newVidraResource(t, ns, configMap("page", "hello"), as("powerless"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		grant(t, ns, "powerless", "configmaps")
	}},
	"RoleAboveItsAccount": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newAccount(t, ns, "deployer", "roles")
		newVidraResource(t, ns, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n", as("deployer"))
		awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "attempting to grant RBAC permissions not currently held")
	}, func(t *testing.T, ns string) {
		t.Helper()
		cluster.GrantRule(t, ns, "deployer", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	}},
	"HoldsNeeded": {v1alpha1.ReasonDeletionBlocked, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, manifests(namespaceOf(ns+"-in"), pageIn(ns+"-in", "page", "hello")))
		awaitReady(t, ns)
		setManifest(t, ns, pageIn(ns+"-in", "page", "hello"))
	}, nil},
	"Immutable": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\nimmutable: true\ndata: {a: b}\n")
		awaitReady(t, ns)
		setManifest(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\nimmutable: true\ndata: {a: c}\n")
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}))
	}},
	"Denied": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		meta := metav1.ObjectMeta{Name: ns}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false"}},
		}}
		require.NoError(t, admin.Create(t.Context(), policy))
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}
		require.NoError(t, admin.Create(t.Context(), binding))
		t.Cleanup(func() { _ = admin.Delete(t.Context(), binding); _ = admin.Delete(t.Context(), policy) })
		await(t, func(c *assert.CollectT) { // the API server takes a moment
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
			require.ErrorContains(c, admin.Create(t.Context(), probe, client.DryRunAll), "denied request")
		})
		newVidraResource(t, ns, configMap("page", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}},
	"PolicyFails": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"))
		awaitReady(t, ns)
		startFailingPolicy(t, ns, admissionregistrationv1.Update)
		setManifest(t, ns, configMap("page", "hi"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}},
	"Quota": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}},
		}))
		newVidraResource(t, ns, "apiVersion: v1\nkind: Secret\nmetadata: {name: page}\n")
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"}}))
	}},
	"KindMissing": {v1alpha1.ReasonKindUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: example.com/v1\nkind: Missing\nmetadata: {name: page}\n")
	}, nil},
	"NamespaceMissing": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: "+ns+"-missing}\n")
	}, func(t *testing.T, ns string) {
		t.Helper()
		missing := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-missing"}}
		require.NoError(t, admin.Create(t.Context(), missing))
		t.Cleanup(func() { _ = admin.Delete(context.Background(), missing) })
	}},
	"SourceMissing": {v1alpha1.ReasonSourceUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "missing", "app.yaml")))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "missing"}, Data: map[string]string{"app.yaml": configMap("page", "hello")}}))
	}},
	"DestinationUnreachable": {v1alpha1.ReasonDestinationUnreachable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Destination.Server = "https://" + ns + ".example.com" })
	}, nil},
	"AdoptNever": {v1alpha1.ReasonAdoptionRefused, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}, Data: map[string]string{"greeting": "hello"}}))
		newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptNever })
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}))
	}},
	"AdoptionOfAnother": {v1alpha1.ReasonAdoptionRefused, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}, Data: map[string]string{"greeting": "mine"}}))
		newVidraResource(t, ns, configMap("page", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"data":{"greeting":"hello"}}`))
	}},
	"CoreVersionMissing": {v1alpha1.ReasonKindUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, manifests("apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: page}\n", configMap("page", "hello")))
	}, nil},
	"SourceWithoutItsKey": {v1alpha1.ReasonSourceUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "part"}}))
		newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "part", "app.yaml")))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, mergePatch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "part"}}, `{"data":{"app.yaml":%q}}`, configMap("page", "hello")))
	}},
	"SourceForbidden": {v1alpha1.ReasonSourceUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "part"}, Data: map[string]string{"app.yaml": configMap("page", "hello")}}))
		require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "powerless"}}))
		newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "part", "app.yaml")), as("powerless"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		grant(t, ns, "powerless", "configmaps")
	}},
	"AccountMissing": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), as("missing"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		newAccount(t, ns, "missing", "configmaps")
	}},
	"RemovalDenied": {v1alpha1.ReasonPruneFailed, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "deployer"}}))
		cluster.GrantRule(t, ns, "deployer", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch"}})
		newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("other", "hello")), as("deployer"))
		t.Cleanup(func() {
			_ = mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}}, `{"spec":{"deletionPolicy":"Orphan"}}`)
		})
		awaitReady(t, ns)
		setManifest(t, ns, configMap("other", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		grant(t, ns, "deployer", "configmaps")
	}},
	"RemovalWaitsForFinalizers": {v1alpha1.ReasonDeletionBlocked, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("other", "hello")))
		awaitReady(t, ns)
		page := declared(t, ns, configMap("page", "hello"))[0]
		require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
		t.Cleanup(func() { _ = mergePatch(page, `{"metadata":{"finalizers":null}}`) })
		setManifest(t, ns, configMap("other", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"metadata":{"finalizers":null}}`))
	}},
	"CreationWaitsForFinalizers": {v1alpha1.ReasonDeletionBlocked, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"))
		awaitReady(t, ns)
		page := declared(t, ns, configMap("page", "hello"))[0]
		require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
		t.Cleanup(func() { _ = mergePatch(page, `{"metadata":{"finalizers":null}}`) })
		require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
		setManifest(t, ns, configMap("page", "other"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"metadata":{"finalizers":null}}`))
	}},
	"NamespaceWithContents": {v1alpha1.ReasonDeletionBlocked, func(t *testing.T, ns string) {
		t.Helper()
		inner := ns + "-inner"
		newVidraResource(t, ns, manifests(namespaced(inner), configMap("other", "hello")), func(v *v1alpha1.VidraResource) { v.Spec.UnmanagedContents = v1alpha1.UnmanagedBlock })
		awaitReady(t, ns)
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: inner, Name: "mine"}}))
		t.Cleanup(func() {
			_ = admin.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}})
		})
		setManifest(t, ns, configMap("other", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns + "-inner", Name: "mine"}}))
	}},
	"NamespaceWithContentsOfAnother": {v1alpha1.ReasonDeletionBlocked, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, manifests(namespaced(ns+"-inner"), configMap("other", "hello")))
		awaitReady(t, ns)
		newVidraResource(t, ns+"-inner", manifests(configMap("page", "hello"), configMap("other", "hello")), named(ns+"-second"))
		awaitReady(t, ns+"-second")
		setManifest(t, ns, configMap("other", "hello"))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, deleteVidraResource(t.Context(), ns+"-second"))
	}},
	"Suspended": {v1alpha1.ReasonSuspended, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Suspend = true })
	}, nil},
	"Ignored": {v1alpha1.ReasonDriftDetected, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
		awaitReady(t, ns)
		require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"data":{"greeting":"mine"}}`))
	}, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"data":{"greeting":"hello"}}`))
	}},
}

// TestRefusalsAtRest brings VidraResources into the states in which an object or its manifest is refused, or waits. After the attempts of
// the backoff, none of them costs a request while nothing changes. The end of the cause ends each of them, long before the next resync.
//
// It is not parallel: it counts every request of the operator.
func TestRefusalsAtRest(t *testing.T) {
	const rest, measured = 25 * time.Second, 30 * time.Second
	states := map[string]string{}
	for name, state := range refusals {
		if name == "PolicyFails" && !testenv.AtLeast(36) {
			continue // MutatingAdmissionPolicy v1 needs Kubernetes 1.36
		}
		ns := newNamespace(t)
		state.begin(t, ns)
		states[ns] = name
	}
	for ns, name := range states {
		await(t, func(c *assert.CollectT) {
			ready := condition(c, getVidraResource(c, ns), v1alpha1.ConditionReady)
			require.Equal(c, refusals[name].reason, ready.Reason, "%s: %s", name, ready.Message)
		})
	}
	awaitRest(t, rest)
	mark := auditMark(t)
	assert.Never(t, func() bool { return len(operatorSince(t, mark)) > 0 }, measured, time.Second, "requests while nothing changes")
	for _, r := range operatorSince(t, mark) {
		t.Errorf("%s: %v", states[strings.TrimSuffix(r.Namespace, "-missing")], r)
	}
	for ns, name := range states {
		if end := refusals[name].end; end != nil {
			end(t, ns)
		}
	}
	for ns, name := range states {
		if refusals[name].end == nil {
			continue
		}
		began := time.Now()
		awaitReady(t, ns)
		t.Logf("%s: ready after %s more", name, time.Since(began).Round(100*time.Millisecond))
	}
}
