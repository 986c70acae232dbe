package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// as has the objects written as a ServiceAccount.
func as(account string) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = account }
}

// newAccount makes a ServiceAccount that may do with ConfigMaps of its namespace what
// Vidra does.
func newAccount(t *testing.T, namespace, name string, resources ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	grant(t, namespace, name, resources...)
}

// grant lets a ServiceAccount do with resources of its namespace what Vidra does.
func grant(t *testing.T, namespace, name string, resources ...string) {
	t.Helper()
	cluster.GrantRule(t, namespace, name, rbacv1.PolicyRule{
		APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"get", "create", "patch", "delete"},
	})
}

// TestServiceAccount writes as the account that the VidraResource names, and not what
// that account may not write.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newAccount(t, ns, "deployer", "configmaps")
	manifest := manifests(configMap("allowed", "hello"), "apiVersion: v1\nkind: Secret\nmetadata:\n  name: denied\ndata:\n  password: aHVudGVyMg==\n")
	mark := auditMark(t)
	newVidraResource(t, ns, manifest, as("deployer"))
	user := "system:serviceaccount:" + ns + ":deployer"
	v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "Secret "+ns+"/denied", user, "secrets", ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", user)
	allowed := declaredObject(t, ns, manifest, "ConfigMap", "allowed")
	awaitInOrder(t, ns, allowed) // a right counts a moment after it is granted
	for _, r := range operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("patch")) {
		require.Equal(t, user, r.As, "%s", r)
	}

	// The right is noticed when it is granted, ahead of the next attempt.
	grant(t, ns, "deployer", "secrets")
	awaitReady(t, ns)
	require.NoError(t, mergePatch(allowed, `{"data":{"greeting":"changed"}}`))
	awaitInOrder(t, ns, allowed)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	awaitGone(t, allowed)
}

// TestServiceAccountMayNotReadThePart names the part of the manifest that the account
// may not read, and asks for the right to read that one alone until it is granted.
func TestServiceAccountMayNotReadThePart(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newAccount(t, ns, "deployer", "secrets")
	part := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"},
		Data:       map[string]string{"secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: made\n"},
	}
	require.NoError(t, admin.Create(t.Context(), part))
	mark := auditMark(t)
	newVidraResource(t, ns, "", as("deployer"), fromParts(partIn("ConfigMap", "parts", "secret.yaml")))
	user := "system:serviceaccount:" + ns + ":deployer"
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "ConfigMap "+ns+"/parts", user, "forbidden")
	await(t, func(c *assert.CollectT) {
		asked := operatorSince(t, mark).Only(func(r request) bool {
			return r.As == user && r.Resource == "selfsubjectaccessreviews"
		})
		require.NotEmpty(c, asked)
	}, "the right is asked for")

	cluster.GrantRule(t, ns, "deployer", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"parts"}, Verbs: []string{"get"},
	})
	awaitReady(t, ns)
}

// TestServiceAccountNeedsNamespace has the API server refuse an account of nowhere.
func TestServiceAccountNeedsNamespace(t *testing.T) {
	t.Parallel()
	v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: unique(t)}}
	v.Spec.ServiceAccountName = "deployer"
	require.ErrorContains(t, admin.Create(t.Context(), v), "spec.destination.namespace")
}

// TestServiceAccountIsRequired starts an operator that applies nothing with its own
// rights.
func TestServiceAccountIsRequired(t *testing.T) {
	stopOperator(t)
	strict, err := env.StartOperator(t.Context(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--require-service-account"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, strict.Stop(stopTimeout)) })
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("c", "hello"))
	v := awaitNotReady(t, ns, v1alpha1.ReasonServiceAccountRequired, "spec.serviceAccountName")
	require.Empty(t, v.Status.ManagedResources)
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonServiceAccountRequired, "Apply")
	newAccount(t, ns, "deployer", "configmaps")
	require.NoError(t, mergePatch(v, `{"spec":{"serviceAccountName":"deployer"}}`))
	awaitReady(t, ns)
}
