package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestLeasesOfTenants writes Leases as the administrators of namespaces may. None of them delays an operator that
// elects a leader: neither one that names the ServiceAccount of Vidra, nor one that names an account of the namespace
// with all rights there, nor times in the future.
func TestLeasesOfTenants(t *testing.T) {
	stopOperator(t)
	forged := func(identity string, renewed time.Time, seconds int32) {
		ns := newNamespace(t)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: testenv.OperatorServiceAccount}}
		require.NoError(t, admin.Create(t.Context(), account))
		require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "all"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{
				{Kind: "ServiceAccount", Namespace: ns, Name: account.Name},
				{Kind: "ServiceAccount", Namespace: testenv.OperatorNamespace, Name: testenv.OperatorServiceAccount},
			},
		}))
		require.NoError(t, admin.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: leaseName.Name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &identity, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: renewed},
				AcquireTime: &metav1.MicroTime{Time: renewed}, LeaseTransitions: ptr.To[int32](0),
			},
		}))
	}
	now := time.Now()
	forged("tenant", now.Add(time.Hour), 15)
	forged("host_0_"+testenv.OperatorServiceAccount, now.AddDate(10, 0, 0), 1<<30)
	forged("host_0_../"+testenv.OperatorNamespace+":"+testenv.OperatorServiceAccount, now.Add(time.Minute), 3600)
	awaitLeads(t, startAnother(t, electing()...))
}

// TestLeaseOfAnUnknownHolder has another namespace hold a Lease while the API server does not answer who may reconcile VidraResources. An operator
// leads only once that is known, and the holder has gone.
func TestLeaseOfAnUnknownHolder(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	ns := newNamespace(t)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "elsewhere"}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), binding)) })
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: leaseName.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("host_0_elsewhere"), LeaseDurationSeconds: ptr.To[int32](60), RenewTime: &now, AcquireTime: &now, LeaseTransitions: ptr.To[int32](0),
		},
	}
	require.NoError(t, admin.Create(t.Context(), lease))
	proxy, through := proxied(t)
	reviews := faultproxy.Match{Verb: "create", Resource: schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}}
	unanswered := proxy.Inject(reviews, faultproxy.Status(apierrors.NewServiceUnavailable("overloaded")))
	other := startAnother(t, electing(through)...)
	await(t, func(c *assert.CollectT) { require.True(c, leads(c, other) || unanswered.Hits() > 5) }, "it asks again and again")
	require.False(t, leads(t, other), "the holder may be an operator")
	unanswered.Remove()
	await(t, func(c *assert.CollectT) {
		printed, err := os.ReadFile(other.Log)
		require.NoError(c, err)
		require.Contains(c, string(printed), "leads in the namespace "+ns)
	})
	require.NoError(t, admin.Delete(t.Context(), lease))
	awaitLeads(t, other)
}
