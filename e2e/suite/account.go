package suite

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GrantRule lets a ServiceAccount do in its namespace what a rule allows.
func (c *Cluster) GrantRule(t *testing.T, namespace, account string, rule rbacv1.PolicyRule) {
	t.Helper()
	c.GrantTo(t, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}, namespace, rule)
}

// GrantTo lets a subject do in a namespace what a rule allows.
func (c *Cluster) GrantTo(t *testing.T, subject rbacv1.Subject, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: subject.Name + "-"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	require.NoError(t, c.Admin.Create(t.Context(), role))
	require.NoError(t, c.Admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{subject},
	}))
}
