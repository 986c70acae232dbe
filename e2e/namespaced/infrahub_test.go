package namespaced

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestInfrahub syncs an InfrahubSync whose objects are in one of the namespaces: the credentials are those in the namespace of the operator, the
// part of a manifest with Secrets is in the namespace of the objects, and no request leaves the namespaces.
func TestInfrahub(t *testing.T) {
	name := suite.Unique(t)
	artifacts := standin.New(standin.Options{})
	server := suite.Serve(t, artifacts)
	artifacts.Set(standin.Artifact{ID: name, Name: name, Branch: "main", Content: configMapIn(teamA, name, "hello") +
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: " + teamA + "}\nstringData: {password: sesame}\n"})
	for namespace, password := range map[string]string{testenv.OperatorNamespace: "infrahub", teamB: "wrong"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.InfrahubURLLabel: "127.0.0.1"}},
			StringData: map[string]string{"username": "admin", "password": password},
		}
		require.NoError(t, admin.Create(t.Context(), secret))
		t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), secret)) })
	}
	mark := cluster.AuditMark(t)
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: name}}
	is.Spec.Source = v1alpha1.InfrahubSyncSource{InfrahubAPIURL: server.URL, ArtifactName: name}
	is.Spec.Destination = v1alpha1.InfrahubSyncDestination{Namespace: teamA, ReconcileOnEvents: true}
	require.NoError(t, admin.Create(t.Context(), is))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), is)) })
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(is), is))
		require.True(c, meta.IsStatusConditionTrue(is.Status.Conditions, v1alpha1.ConditionReady), is.Status.LastError)
	})
	vr := cluster.AwaitReady(t, name)
	require.Equal(t, teamA, vr.Spec.ManifestFrom[0].Namespace)
	require.Equal(t, "hello", greeting(t, teamA, name))

	// Artifacts are not published elsewhere, with whatever rights.
	elsewhere := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: name + "-published"}}
	elsewhere.Spec.Source, elsewhere.Spec.Publish = is.Spec.Source, &v1alpha1.InfrahubSyncPublish{Namespace: other}
	require.NoError(t, admin.Create(t.Context(), elsewhere))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), elsewhere)) })
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(elsewhere), elsewhere))
		require.Contains(c, elsewhere.Status.LastError, "spec.publish.namespace: this Vidra does nothing in the namespace "+other)
	})
	require.Empty(t, requireInScope(t, mark))
	artifacts.Replace() // it is not created again
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), name))
}
