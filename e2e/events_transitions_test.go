package e2e

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"

	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsOfAWatch runs an operator that may write Secrets but not watch them: that
// is told, and that it may in the end, too. It is not parallel because it stops the
// operator that all tests share.
func TestEventsOfAWatch(t *testing.T) {
	ns := newNamespace(t)
	stopOperator(t)
	role := narrowAccount(t, ns)
	narrow, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Namespace: ns, ServiceAccount: ns})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, narrow.Stop(stopTimeout)) })
	newVidraResource(t, ns, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  user: me\n")
	v := getVidraResource(t, ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "WatchFailed", "Watch", "secrets", "Forbidden")
	awaitNotReady(t, ns, v1alpha1.ReasonWatchFailed)

	role.Rules[0].Verbs = []string{rbacv1.VerbAll}
	require.NoError(t, admin.Update(t.Context(), role))
	awaitEvent(t, v, corev1.EventTypeNormal, "WatchRestored", "Watch")
	awaitReady(t, ns)
}

// narrowAccount makes a ServiceAccount with the name of its namespace, with what
// the operator needs for itself, and a role that lets it write Secrets.
func narrowAccount(t *testing.T, ns string) *rbacv1.ClusterRole {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}}))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "patch", "delete"}},
	}}
	require.NoError(t, admin.Create(t.Context(), role))
	for _, name := range []string{ns, "vidra-operator"} {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: ns}},
		}))
	}
	return role
}

// TestEventsOfAFailedPrune: an object that may not be deleted is told, and so is that
// it could be in the end: as what had failed.
func TestEventsOfAFailedPrune(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	deny := denyDeletion(t, ns)
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), configMap("goes", "hello")))
	v := awaitReady(t, ns)
	setManifest(t, ns, configMap("stays", "hello"))
	awaitEvent(t, v, corev1.EventTypeWarning, "PruneFailed", "Prune", "ConfigMap "+ns+"/goes", "cannot be removed")

	require.NoError(t, admin.Delete(t.Context(), deny))
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "ConfigMap "+ns+"/goes")
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Prune", "ConfigMap "+ns+"/goes: cannot be removed")
	awaitReady(t, ns)
}

// denyDeletion forbids everybody to delete ConfigMaps in a namespace, until what it
// returns is deleted.
func denyDeletion(t *testing.T, ns string) *admissionv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	binding := denyRequests(t, ns, admissionv1.Delete, "false", "nothing is deleted here")
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
	await(t, func(c *assert.CollectT) {
		_ = admin.Create(t.Context(), probe.DeepCopy()) // it may be there still
		require.ErrorContains(c, admin.Delete(t.Context(), probe.DeepCopy()), "nothing is deleted here")
	}, "the policy is in force")
	return binding
}

// denyRequests forbids requests about ConfigMaps in a namespace for which a CEL expression is
// false, until what it returns is deleted. It takes a moment until that is in force.
func denyRequests(t *testing.T, ns string, operation admissionv1.OperationType, unless, message string) *admissionv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	meta := metav1.ObjectMeta{Name: ns}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{operation},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}}},
		},
		Validations: []admissionv1.Validation{{Expression: unless, Message: message}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	require.NoError(t, admin.Create(t.Context(), policy))
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), binding.DeepCopy()) }) // the test may have
	return binding
}

// TestEventsSurviveARestart: a problem is not told again by an operator that is
// started anew, and one that ended meanwhile is told to be over. It is not parallel
// because it restarts the operator.
func TestEventsSurviveARestart(t *testing.T) {
	ns, other := newNamespace(t), newNamespace(t)
	crd, manifest := newKind(t)
	otherCRD, otherManifest := newKind(t)
	newVidraResource(t, ns, manifest)
	newVidraResource(t, other, otherManifest)
	v, lasting := getVidraResource(t, ns), getVidraResource(t, other)
	awaitEvent(t, v, corev1.EventTypeWarning, "KindUnavailable", "Apply", crd.Spec.Group)
	awaitEvent(t, lasting, corev1.EventTypeWarning, "KindUnavailable", "Apply", otherCRD.Spec.Group)
	awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable)
	awaitNotReady(t, other, v1alpha1.ReasonKindUnavailable)
	stopOperator(t)
	before := len(eventsAbout(t, lasting))

	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	startOperator(t)
	awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "is not served here")
	require.Len(t, eventsAbout(t, lasting), before, "what lasts is not told again")
}
