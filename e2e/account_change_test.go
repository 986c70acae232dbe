package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// accountChange is a VidraResource whose objects are to move from namespace was to namespace is, in each of which the account deployer
// may write ConfigMaps.
type accountChange struct {
	was, is string
	v       *v1alpha1.VidraResource
	// page is in the former namespace.
	page *unstructured.Unstructured
}

func newAccountChange(t *testing.T) accountChange {
	t.Helper()
	c := accountChange{was: newNamespace(t), is: newNamespace(t)}
	newAccount(t, c.was, "deployer", "configmaps")
	newAccount(t, c.is, "deployer", "configmaps")
	c.v = newVidraResource(t, c.was, configMap("page", "hello"), as("deployer"))
	awaitReady(t, c.was)
	c.page = declared(t, c.was, configMap("page", "hello"))[0]
	return c
}

// change changes the namespace of the VidraResource, and with it the account.
func (c accountChange) change(t *testing.T) {
	t.Helper()
	require.NoError(t, mergePatch(c.v, `{"spec":{"destination":{"namespace":%q}}}`, c.is))
}

// user is the account of a namespace.
func (c accountChange) user(namespace string) string {
	return "system:serviceaccount:" + namespace + ":deployer"
}

// deletedAs are the users as whom Vidra tried to delete the object of the former namespace.
func (c accountChange) deletedAs(all requests) (users []string) {
	for _, r := range all.ObjectsIn(c.was).Only(verbIs("delete")) {
		users = append(users, r.As)
	}
	return users
}

// TestFormerAccountRemoves changes the account of a VidraResource with the write that takes its object from the manifest: the
// former account, which the author of that write may use, removes the object.
func TestFormerAccountRemoves(t *testing.T) {
	t.Parallel()
	t.Run("Namespace", func(t *testing.T) {
		t.Parallel()
		c := newAccountChange(t)
		mark := auditMark(t)
		c.change(t)
		awaitGone(t, c.page)
		v := awaitReady(t, c.was)
		require.Equal(t, []string{c.user(c.was)}, c.deletedAs(operatorSince(t, mark)))
		require.Len(t, v.Status.ManagedResources, 1)
		require.Equal(t, c.is, v.Status.ManagedResources[0].Namespace)
		require.Empty(t, v.Status.ManagedResources[0].RemoveAs)
		awaitInOrder(t, c.was, declared(t, c.is, configMap("page", "hello"))[0])
	})
	t.Run("Name", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newAccount(t, ns, "deployer", "configmaps", "secrets")
		newAccount(t, ns, "weak", "configmaps")
		secret := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: swordfish\n"
		v := newVidraResource(t, ns, manifests(configMap("page", "hello"), secret), as("deployer"))
		awaitReady(t, ns)
		require.NoError(t, mergePatch(v, `{"spec":{"serviceAccountName":"weak","manifest":%q}}`, configMap("page", "hello")))
		awaitGone(t, declared(t, ns, secret)[0])
		awaitReady(t, ns)
	})
}

// TestFormerAccountWithoutRights: where the former account may not remove the object either, the message names both accounts and
// the missing right, which is noticed when it is granted.
func TestFormerAccountWithoutRights(t *testing.T) {
	t.Parallel()
	c := newAccountChange(t)
	require.NoError(t, admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(c.was)))
	await(t, func(ct *assert.CollectT) { require.False(ct, mayGet(ct, c.was, "deployer", "configmaps")) })
	c.change(t)
	v := awaitNotReady(t, c.was, v1alpha1.ReasonPruneFailed, "ConfigMap "+c.was+"/page", c.user(c.is), "ServiceAccount "+c.was+"/deployer",
		"grant the ServiceAccount "+c.is+"/deployer get, patch and delete on configmaps in namespace "+c.was+", or delete the object yourself")
	awaitEvent(t, v, corev1.EventTypeWarning, "PruneFailed", "Prune", "grant the ServiceAccount")
	cluster.GrantTo(t, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.is, Name: "deployer"}, c.was,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch", "delete"}})
	awaitGone(t, c.page)
	awaitReady(t, c.was)
}

// TestFormerAccountAfterARestart changes the account while no operator runs.
func TestFormerAccountAfterARestart(t *testing.T) {
	c, kept := newAccountChange(t), newAccountChange(t)
	stopOperator(t)
	c.change(t)
	// Two writes may be those of two authors, of whom the second one may not use the former account.
	require.NoError(t, mergePatch(kept.v, `{"spec":{"manifest":%q}}`, manifestIn(kept.was)))
	kept.change(t)
	require.NoError(t, mergePatch(kept.v, `{"spec":{"manifest":%q}}`, configMap("other", "hello")))
	mark := auditMark(t)
	startOperator(t)
	awaitGone(t, c.page)
	awaitReady(t, c.was)
	awaitNotReady(t, kept.was, v1alpha1.ReasonPruneFailed, "ConfigMap "+kept.was+"/page", "grant the ServiceAccount "+kept.is+"/deployer")
	require.NotContains(t, kept.deletedAs(operatorSince(t, mark)), kept.user(kept.was))
	require.Nil(t, get(t, kept.page).GetDeletionTimestamp())

	// The user removes it, as the message says.
	require.NoError(t, admin.Delete(t.Context(), kept.page.DeepCopy()))
	awaitReady(t, kept.was)
}

// manifestIn is the ConfigMap page with its namespace.
func manifestIn(namespace string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: " + namespace + "\ndata:\n  greeting: hello\n"
}

// TestFormerAccountIsOfOneChange: an object that leaves the manifest by a later write than the one that changed the account is removed
// as the present account alone.
func TestFormerAccountIsOfOneChange(t *testing.T) {
	t.Parallel()
	c := newAccountChange(t)
	require.NoError(t, mergePatch(c.v, `{"spec":{"manifest":%q,"destination":{"namespace":%q}}}`, manifestIn(c.was), c.is))
	await(t, func(ct *assert.CollectT) {
		v := getVidraResource(ct, c.was)
		require.Equal(ct, v.Generation, v.Status.ObservedGeneration)
	})
	mark := auditMark(t)
	require.NoError(t, mergePatch(c.v, `{"spec":{"manifest":%q}}`, configMap("other", "hello")))
	awaitNotReady(t, c.was, v1alpha1.ReasonPruneFailed, "ConfigMap "+c.was+"/page", "grant the ServiceAccount "+c.is+"/deployer")
	require.NotContains(t, c.deletedAs(operatorSince(t, mark)), c.user(c.was))
	require.NoError(t, mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: c.was}}, `{"spec":{"destination":{"namespace":%q}}}`, c.was))
	awaitGone(t, c.page)
	awaitReady(t, c.was)
}
