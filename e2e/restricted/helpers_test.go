package restricted

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// account is the ServiceAccount of each team.
	account = "deployer"
	// allowed is the label of the namespaces whose accounts Vidra may act as.
	allowed = "vidraresource.infrahub.operators.com/impersonation"
	// editorRole is the role of the authors of VidraResources.
	editorRole = "vidra-vidraresource-editor"
)

// What package suite does, on the cluster of this package, under short names.
var (
	await            = suite.Await
	getVidraResource = cluster.GetVidraResource
	configMap        = suite.Greeting
	awaitReady       = cluster.AwaitReady
	awaitNotReady    = cluster.AwaitNotReady
)

// team has a namespace that is set up for Vidra, as config/restricted says, with an account
// that may write ConfigMaps in it, and a person who is an admin of the namespace and may
// write VidraResources.
type team struct {
	namespace string
	// user is the name of the person, and person a client of theirs.
	user   string
	person client.Client
}

// newTeam makes a team. Its namespace has the label and the RoleBinding for Vidra.
func newTeam(t *testing.T, name string) team {
	t.Helper()
	m := newOutsider(t, name)
	m.label(t, `"allowed"`)
	bind(t, m.namespace, "ClusterRole", "vidra-impersonation", rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: testenv.OperatorNamespace, Name: testenv.OperatorServiceAccount,
	})
	return m
}

// newOutsider makes a team whose namespace is not set up for Vidra.
func newOutsider(t *testing.T, name string) team {
	t.Helper()
	m := team{namespace: suite.Unique(t) + "-" + name}
	m.user = m.namespace + "-person"
	cluster.MakeNamespace(t, m.namespace)
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: account}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: account},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"},
		}},
	}))
	bind(t, m.namespace, "Role", account, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: m.namespace, Name: account})
	person := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: m.user}
	bind(t, m.namespace, "ClusterRole", "admin", person)
	bind(t, "", "ClusterRole", editorRole, person)
	m.person = clientOf(t, m.user)
	return m
}

// bind grants a role in a namespace, or everywhere if that is empty.
func bind(t *testing.T, namespace, kind, role string, subject rbacv1.Subject) {
	t.Helper()
	name := metav1.ObjectMeta{Namespace: namespace, Name: testenv.UniqueName(role)}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}
	if namespace == "" {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}))
		return
	}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}))
}

// clientOf is a client of a user.
func clientOf(t *testing.T, user string) client.Client {
	t.Helper()
	cfg, err := env.UserConfig(user)
	require.NoError(t, err)
	c, err := testenv.Client(cfg)
	require.NoError(t, err)
	return c
}

// label sets the label of the namespace; null removes it.
func (m team) label(t *testing.T, value string) {
	t.Helper()
	require.NoError(t, patch(admin, m.space(), `{"metadata":{"labels":{%q:%s}}}`, allowed, value))
}

// space is the Namespace of the team.
func (m team) space() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}}
}

// resource is a VidraResource of the team that applies a ConfigMap as its account.
func (m team) resource(name string) *v1alpha1.VidraResource {
	return &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: m.namespace + "-" + name},
		Spec: v1alpha1.VidraResourceSpec{
			Destination:        v1alpha1.Destination{Namespace: m.namespace},
			ServiceAccountName: account,
			Manifest:           configMap(name, "hello"),
		},
	}
}

// create has the person of the team create a VidraResource, as soon as their rights count.
// It is removed when the test ends.
func (m team) create(t *testing.T, v *v1alpha1.VidraResource) *v1alpha1.VidraResource {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.NoError(c, m.person.Create(context.Background(), v)) })
	remove(t, v)
	return v
}

// remove removes a VidraResource when the test ends, and leaves its objects.
func remove(t *testing.T, v *v1alpha1.VidraResource) {
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), v.DeepCopy())))
		_ = patch(admin, v, `{"metadata":{"finalizers":null}}`)
	})
}

// patch merges a patch into an object, and leaves obj as it is.
func patch(as client.Client, obj client.Object, format string, args ...any) error {
	copied := obj.DeepCopyObject().(client.Object)
	return as.Patch(context.Background(), copied, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// patchStatus merges a patch into the status of an object.
func patchStatus(as client.Client, obj client.Object, format string, args ...any) error {
	copied := obj.DeepCopyObject().(client.Object)
	return as.Status().Patch(context.Background(), copied, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// says is the greeting of a ConfigMap of the team; empty if it does not exist.
func (m team) says(t require.TestingT, name string) string {
	cm := &corev1.ConfigMap{}
	err := admin.Get(context.Background(), client.ObjectKey{Namespace: m.namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(t, err)
	return cm.Data["greeting"]
}

// requireForbidden requires that the policy refused a request, with each part in its message.
func requireForbidden(t require.TestingT, err error, parts ...string) {
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "ValidatingAdmissionPolicy")
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}
