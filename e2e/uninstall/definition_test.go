package uninstall

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// definition is the CustomResourceDefinition of VidraResources, and syncDefinition the one of InfrahubSyncs.
func definition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vidraresources.infrahub.operators.com"}}
}

func syncDefinition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "infrahubsyncs.infrahub.operators.com"}}
}

// install installs Vidra and starts an operator, which ends with the test.
func install(t *testing.T) {
	t.Helper()
	require.NoError(t, env.Install(t.Context()))
	operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Stop(10 * time.Second) })
}

// page returns the ConfigMap that suite.Greeting describes.
func page(namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	u.SetNamespace(namespace)
	u.SetName("page")
	return u
}

// vidraResource is a VidraResource with the page.
func vidraResource(namespace string) *v1alpha1.VidraResource {
	return &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.VidraResourceSpec{
			Destination: v1alpha1.Destination{Namespace: namespace}, Manifest: suite.Greeting("page", "hello"),
		},
	}
}

// TestDefinitionIsDeleted deletes the CustomResourceDefinition of VidraResources, which deletes all of them: their objects stay,
// and Vidra that is installed again manages them as before.
func TestDefinitionIsDeleted(t *testing.T) {
	install(t)
	kept, changed := cluster.NewNamespace(t), cluster.NewNamespace(t)
	uids := map[string]types.UID{}
	for _, ns := range []string{kept, changed} {
		require.NoError(t, admin.Create(t.Context(), vidraResource(ns)))
		cluster.AwaitReady(t, ns)
		uids[ns] = cluster.Get(t, page(ns)).GetUID()
	}
	withoutPolicy(t, "vidra-definition-deletion", definition())
	require.NoError(t, admin.Delete(t.Context(), definition()))
	for _, ns := range []string{kept, changed} {
		v := cluster.AwaitNotReady(t, ns, v1alpha1.ReasonDeletionSuspended,
			"CustomResourceDefinition "+definition().Name+" is being deleted", "spec.deletionPolicy to Orphan", v1alpha1.AllowDeletionAnnotation)
		cluster.AwaitEvent(t, v, "Warning", "DeletionSuspended", "Prune", "CustomResourceDefinition")
		require.Equal(t, uids[ns], cluster.Get(t, page(ns)).GetUID())
	}
	for _, ns := range []string{kept, changed} {
		require.NoError(t, cluster.MergePatch(vidraResource(ns), `{"spec":{"deletionPolicy":"Orphan"}}`))
	}
	cluster.AwaitGone(t, definition())
	for _, ns := range []string{kept, changed} {
		require.Equal(t, uids[ns], cluster.Get(t, page(ns)).GetUID())
	}

	require.NoError(t, env.Install(t.Context()))
	for _, ns := range []string{kept, changed} {
		suite.Await(t, func(c *assert.CollectT) { // the discovery of the client may be behind
			require.NoError(c, client.IgnoreAlreadyExists(admin.Create(t.Context(), vidraResource(ns))))
		})
		cluster.AwaitReady(t, ns)
		require.Equal(t, uids[ns], cluster.Get(t, page(ns)).GetUID(), "it was adopted")
	}

	// With the annotation, the objects go with the VidraResources.
	require.NoError(t, cluster.MergePatch(definition(), `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AllowDeletionAnnotation))
	require.NoError(t, admin.Delete(t.Context(), definition()))
	for _, ns := range []string{kept, changed} {
		cluster.AwaitGone(t, page(ns))
	}
	cluster.AwaitGone(t, definition())
}

// TestDefinitionOfInfrahubSyncsIsDeleted deletes the CustomResourceDefinition of InfrahubSyncs, so that the garbage collector deletes their VidraResources:
// the objects stay, also after it is installed again.
func TestDefinitionOfInfrahubSyncsIsDeleted(t *testing.T) {
	install(t)
	released, removed, deleted := cluster.NewNamespace(t), cluster.NewNamespace(t), cluster.NewNamespace(t)
	uids := map[string]types.UID{}
	create := func(ns string) {
		t.Helper()
		is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: v1alpha1.InfrahubSyncSpec{
			Suspend: true,
			Source:  v1alpha1.InfrahubSyncSource{InfrahubAPIURL: "https://infrahub.example", ArtifactName: "web", TargetBranch: "main"},
		}}
		suite.Await(t, func(c *assert.CollectT) { require.NoError(c, admin.Create(t.Context(), is)) }) // the discovery of the client may be behind
		vr := vidraResource(ns)
		vr.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(is, v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))}
		require.NoError(t, admin.Create(t.Context(), vr))
		cluster.AwaitReady(t, ns)
		uids[ns] = cluster.Get(t, page(ns)).GetUID()
	}
	for _, ns := range []string{released, removed, deleted} {
		create(ns)
	}
	require.NoError(t, admin.Delete(t.Context(), &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: deleted}}))
	cluster.AwaitGone(t, page(deleted)) // the garbage collector watches InfrahubSyncs from now on
	cluster.AwaitGone(t, vidraResource(deleted))

	withoutPolicy(t, "vidra-sync-definition-deletion", syncDefinition())
	require.NoError(t, admin.Delete(t.Context(), syncDefinition()))
	cluster.AwaitGone(t, syncDefinition())
	for _, ns := range []string{released, removed} {
		cluster.AwaitNotReady(t, ns, v1alpha1.ReasonDeletionSuspended, "CustomResourceDefinition "+syncDefinition().Name+" is being deleted",
			"spec.deletionPolicy to Orphan", v1alpha1.AllowDeletionAnnotation)
	}

	require.NoError(t, env.Install(t.Context()))
	require.NoError(t, cluster.MergePatch(vidraResource(released), `{"spec":{"deletionPolicy":"Orphan"}}`))
	cluster.AwaitGone(t, vidraResource(released))
	time.Sleep(2 * definitionRecheck)
	for _, ns := range []string{released, removed} {
		require.Equal(t, uids[ns], cluster.Get(t, page(ns)).GetUID())
	}

	require.NoError(t, cluster.MergePatch(syncDefinition(), `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AllowDeletionAnnotation))
	require.NoError(t, cluster.MergePatch(vidraResource(removed), `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.ReconcileRequestedAtAnnotation))
	cluster.AwaitGone(t, page(removed))
	cluster.AwaitGone(t, vidraResource(removed))
}

// definitionRecheck is the time between two reads of a CustomResourceDefinition that is absent.
const definitionRecheck = 10 * time.Second

// withoutPolicy removes the policy that denies the deletion of a CustomResourceDefinition, as a client may that deletes all of
// Vidra.
func withoutPolicy(t *testing.T, policy string, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy}}
	require.NoError(t, admin.Delete(t.Context(), binding))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Delete(t.Context(), definition, client.DryRunAll))
	})
}

// TestDefinitionDeletionIsDenied deletes the CustomResourceDefinition while a VidraResource exists.
func TestDefinitionDeletionIsDenied(t *testing.T) {
	install(t)
	ns := cluster.NewNamespace(t)
	require.NoError(t, admin.Create(t.Context(), vidraResource(ns)))
	cluster.AwaitReady(t, ns)
	suite.Await(t, func(c *assert.CollectT) { // the API server reads the policy and its parameters a little later
		err := admin.Delete(t.Context(), definition(), client.DryRunAll)
		require.True(c, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(c, err, "VidraResource "+ns+" exists")
		require.ErrorContains(c, err, v1alpha1.AllowDeletionAnnotation+"=true")
	})
	require.NoError(t, cluster.MergePatch(definition(), `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AllowDeletionAnnotation))
	require.NoError(t, admin.Delete(t.Context(), definition(), client.DryRunAll))
	require.NoError(t, cluster.MergePatch(definition(), `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AllowDeletionAnnotation))
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
	cluster.AwaitGone(t, page(ns))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Delete(t.Context(), definition(), client.DryRunAll))
	})
}

// TestUninstall removes Vidra in the documented order: the VidraResources first, then all of it with kubectl.
func TestUninstall(t *testing.T) {
	install(t)
	ns := cluster.NewNamespace(t)
	v := vidraResource(ns)
	require.NoError(t, admin.Create(t.Context(), v))
	cluster.AwaitReady(t, ns)
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
	cluster.AwaitGone(t, v)
	cluster.AwaitGone(t, page(ns))
	root, err := testenv.Root()
	require.NoError(t, err)
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{})
	require.NoError(t, err)
	suite.Await(t, func(c *assert.CollectT) { // the API server may still know the VidraResource
		require.NoError(c, admin.Delete(t.Context(), definition(), client.DryRunAll))
	})
	remove := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", env.KubeconfigPath, "delete", "-k", filepath.Join(root, "config", "default"), "--wait=false") //nolint:gosec // programs of the test
	out, err := remove.CombinedOutput()
	require.NoError(t, err, "%s", out)
	cluster.AwaitGone(t, definition())
}
