package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDefinitionComesAndGoes: the operator runs without the CustomResourceDefinition, and syncs when it is there. While InfrahubSyncs
// exist, its deletion is denied.
func TestDefinitionComesAndGoes(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	key := client.ObjectKey{Name: "infrahubsyncs.infrahub.operators.com"}
	require.NoError(t, cluster.Admin.Get(t.Context(), key, crd))
	again := crd.DeepCopy()
	again.SetResourceVersion("")
	again.SetUID("")
	unstructured.RemoveNestedField(again.Object, "status")

	suite.Await(t, func(c *assert.CollectT) { require.NoError(c, cluster.Admin.Delete(t.Context(), crd)) })
	cluster.AwaitGone(t, crd)
	suite.Await(t, func(c *assert.CollectT) {
		require.Contains(c, suite.LogOf(t, operator), "InfrahubSyncs are not served")
	})
	restartOperator(t) // it is ready without it
	crd = again.DeepCopy()
	require.NoError(t, cluster.Admin.Create(t.Context(), crd))
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, cluster.Admin.List(t.Context(), &v1alpha1.InfrahubSyncList{}))
	})
	is := l.sync()
	l.awaitGreeting("a", "hello")
	suite.Await(t, func(c *assert.CollectT) {
		require.ErrorContains(c, cluster.Admin.Delete(t.Context(), crd, client.DryRunAll), "would be deleted with all others")
	})
	require.NoError(t, cluster.Admin.Delete(t.Context(), is))
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), l.id("a"))) // the garbage collector does not know the new definition yet
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, client.IgnoreNotFound(cluster.Admin.Delete(t.Context(), crd)))
	})
	cluster.AwaitGone(t, crd)
	require.NoError(t, cluster.Admin.Create(t.Context(), again))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, cluster.Admin.List(t.Context(), &v1alpha1.InfrahubSyncList{}))
	})
}
