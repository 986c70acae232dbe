package remote

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// TestTwoManagementClusters has a second cluster with Vidra, the installation east, whose
// VidraResource has the name, the destination and the objects of one here. Neither Vidra can
// read the VidraResources of the other one. They own together what they agree on, neither
// takes a field from the other one, and what one of them removes stays for the other one.
func TestTwoManagementClusters(t *testing.T) {
	const east = v1alpha1.Installation("east")
	d, _ := newDestination(t)
	second := site{&suite.Cluster{}}
	require.NoError(t, second.Start(t.Context(), testenv.Options{}))
	t.Cleanup(func() { require.NoError(t, second.Stop()) })
	require.NoError(t, second.Install(t.Context()))
	require.NoError(t, second.Admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: d.name, Labels: map[string]string{cluster.KubeconfigLabel: ""}},
		StringData: map[string]string{"kubeconfig": kubeconfig(t, d.config)},
	}))
	eastern, err := second.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--kubeconfig-namespace=" + testenv.OperatorNamespace, "--installation=" + string(east)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eastern.Stop(10*time.Second)) })
	create := func(name, manifest string) {
		second.NewVidraResource(t, d.name, manifest, named(name), func(v *v1alpha1.VidraResource) {
			v.Spec.Destination.Server, v.Labels = d.url(), map[string]string{v1alpha1.InstallationLabel: string(east)}
		})
	}
	page := configMap(d.name, "page")
	requireManagers := func(c require.TestingT, want ...string) {
		require.NoError(c, there.Admin.Get(context.Background(), client.ObjectKeyFromObject(page), page))
		var managers []string
		for _, entry := range page.ManagedFields {
			if entry.Operation == metav1.ManagedFieldsOperationApply {
				managers = append(managers, entry.Manager)
			}
		}
		require.ElementsMatch(c, want, managers)
	}
	one, two := v1alpha1.FieldManager(d.name), east.FieldManager(d.name)

	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), greeting("alone", "hello")))
	awaitReady(t, d.name)
	create(d.name, greeting("page", "hello"))
	second.AwaitReady(t, d.name)
	requireManagers(t, one, two)
	uid := page.UID
	create(d.name+"-alone", greeting("alone", "eastern"))
	second.AwaitNotReady(t, d.name+"-alone", v1alpha1.ReasonOwnershipConflict, one, "another Vidra installation applied it", "data.greeting")
	second.SetManifest(t, d.name, greeting("page", "eastern"))
	second.AwaitNotReady(t, d.name, v1alpha1.ReasonOwnershipConflict, one, "another Vidra installation", "data.greeting")
	require.Equal(t, "hello", there.says(t, d.name, "page"))
	require.Equal(t, "hello", there.says(t, d.name, "alone"))
	second.SetManifest(t, d.name, greeting("page", "hello"))
	second.AwaitReady(t, d.name)

	require.NoError(t, here.DeleteVidraResource(t.Context(), d.name))
	here.AwaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: d.name}})
	requireManagers(t, two)
	require.Equal(t, uid, page.UID, "it was never deleted")
	require.Equal(t, "hello", there.says(t, d.name, "page"))
	require.NotContains(t, page.Annotations, v1alpha1.OwnerAnnotationKey(d.name))
	require.Contains(t, page.Annotations, east.OwnerAnnotationKey(d.name))
	require.NoError(t, there.MergePatch(page, `{"data":{"greeting":"mine"}}`))
	there.awaitSays(t, d.name, "page", "hello")
	require.NoError(t, second.DeleteVidraResource(t.Context(), d.name))
	there.AwaitGone(t, configMap(d.name, "page"))
}
