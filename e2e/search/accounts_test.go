package search

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// accounts are the ServiceAccounts that specs name.
var accounts = []string{"one", "two"}

// account returns a ServiceAccount of the run, and its rights, which are all rights: an object of a plan may be of any kind and namespace.
func (r *run) account(name string) (*corev1.ServiceAccount, *rbacv1.ClusterRoleBinding) {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.main(), Name: name}}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.prefix + "-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.main(), Name: name}},
	}
}

// noteRightless notes the objects that left a manifest, and that VidraResources want whose accounts lack rights.
func (r *run) noteRightless() {
	able := map[string]bool{}
	for name, s := range r.owners {
		for o := range s.Objects {
			able[o] = able[o] || !r.weak[s.Account]
		}
		for o := range r.read[name] {
			able[o] = able[o] || !r.weak[s.Account]
		}
	}
	for o := range r.departed {
		may, wanted := able[o]
		r.rightless[o] = r.rightless[o] || wanted && !may
	}
}

// grant creates the accounts and rights that are missing.
func (r *run) grant(ctx context.Context) {
	clear(r.weak)
	for _, name := range accounts {
		account, rights := r.account(name)
		for _, obj := range []client.Object{account, rights} {
			if err := admin.Create(ctx, obj); !apierrors.IsAlreadyExists(err) {
				require.NoError(r, err)
			}
		}
	}
}

// weaken takes the rights of accounts, and deletes accounts.
func (r *run) weaken(ctx context.Context, s step) {
	for _, name := range slices.Concat(s.Revoke, s.Remove) {
		r.weak[name] = true
	}
	for _, name := range s.Revoke {
		_, rights := r.account(name)
		require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, rights)))
	}
	for _, name := range s.Remove {
		account, _ := r.account(name)
		require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, account)))
	}
}

// requireImpersonated requires that operators wrote the objects of the run as an account alone, if each spec named one.
func (r *run) requireImpersonated() {
	if !r.accounted {
		return
	}
	sent, err := cluster.AuditSince(r.mark)
	require.NoError(r, err)
	namespaces := []string{r.main(), r.far(), r.nested()}
	own := byOperators(sent).Writes().Only(func(q suite.Request) bool {
		return q.As == "" && (slices.Contains(namespaces, q.Namespace) || slices.Contains([]string{"namespaces", "clusterroles"}, q.Resource) && r.named("", q.Name))
	})
	require.Empty(r, own, "writes without an account:\n%s", own)
}

// accounted returns the plan with an account in each spec.
func (p plan) accounted() plan {
	for i := range p.Steps {
		for j := range p.Steps[i].Apply {
			if a := &p.Steps[i].Apply[j]; a.Account == "" {
				a.Account = accounts[(i+j)%len(accounts)]
			}
		}
	}
	return p
}

// hasAccounts reports whether each spec of the plan has an account.
func (p plan) hasAccounts() bool {
	return !slices.ContainsFunc(p.Steps, func(s step) bool {
		return slices.ContainsFunc(s.Apply, func(a spec) bool { return a.Account == "" })
	})
}
