package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestOtherWriters: fields and items of other writers are theirs, also with the name of a field manager of Vidra, and with a key that the
// manifest leaves out.
func TestOtherWriters(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "others")
	cluster.NewVidraResource(t, "others", suite.Manifests(settings, "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector: {app: web}\n  ports:\n  - name: http\n    port: 80\n"))
	cluster.AwaitReady(t, "others")
	meta := metav1.ObjectMeta{Namespace: "others", Name: "web"}
	service := &corev1.Service{ObjectMeta: meta}
	require.NoError(t, admin.Patch(t.Context(), service, client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"add","path":"/spec/ports/-","value":{"port":80,"protocol":"UDP","name":"dns"}}]`)), client.FieldOwner("kubectl-patch")))
	require.Contains(t, stable(ok(t, "why", "svc/web", "-n", "others", "-o", "wide")), `Set by others, not in the manifest: Vidra does not change them
kubectl-patch   AGE ago   spec.ports[port=80,protocol="UDP"].name = "dns"
kubectl-patch   AGE ago   spec.ports[port=80,protocol="UDP"].port = 80
kubectl-patch   AGE ago   spec.ports[port=80,protocol="UDP"].protocol = "UDP"
kubectl-patch   AGE ago   spec.ports[port=80,protocol="UDP"].targetPort = 80

Owned by`)

	meta.Name = "settings"
	cm := &corev1.ConfigMap{ObjectMeta: meta}
	require.NoError(t, admin.Patch(t.Context(), cm, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"own":"name"}}`)), client.FieldOwner("vidra/others")))
	forged := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{"forged": "yes"}}
	require.NoError(t, admin.Patch(t.Context(), forged, client.Apply, client.FieldOwner("vidra/forged"))) //nolint:staticcheck // as a user would
	require.Contains(t, stable(ok(t, "why", "cm/settings", "-n", "others")), `Set by others, not in the manifest: Vidra does not change them
vidra/forged   AGE ago   data.forged = "yes"
vidra/others   AGE ago   data.own = "name"
`)
	require.Equal(t, `# others: spec.manifest of VidraResource others
                       │ data:
vidra/forged, AGE ago   │   forged: "yes"
vidra/others, AGE ago   │   own: name
`, stable(ok(t, "blame", "cm/settings", "-n", "others", "--foreign")))
}

// TestVersionOfTheManifest: an object is explained in the version in which the manifest has it, whose fields have other names in the version
// that the API server prefers.
func TestVersionOfTheManifest(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "version")
	vr := cluster.NewVidraResource(t, "version", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: web\nspec:\n"+
		"  maxReplicas: 5\n  targetCPUUtilizationPercentage: 70\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n")
	cluster.AwaitReady(t, "version")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "version", Name: "web"}}
	require.NoError(t, cluster.MergePatch(hpa, `{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":90}}}]}}`))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "spec.targetCPUUtilizationPercentage")
	require.Regexp(t, `version: document 1, line 7 +│   targetCPUUtilizationPercentage: 70  # \S+ ago: reverted`, ok(t, "blame", "hpa/web", "-n", "version"))
	require.Contains(t, ok(t, "why", "hpa/web", "-n", "version", "-o", "json"), `"apiVersion": "autoscaling/v1"`)
}
