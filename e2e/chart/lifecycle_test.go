package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// release are the arguments of helm that name the release.
var release = []string{"vidra", "--namespace=" + testenv.OperatorNamespace}

// upgrade installs the chart of the checkout, or upgrades to it, as docs/operations.md says.
func upgrade(t *testing.T, flags ...string) string {
	t.Helper()
	args := append([]string{"upgrade", "--install", "--create-namespace"}, release...)
	return mustHelm(t, append(append(args, filepath.Join(config, "chart")), flags...)...)
}

// startOperator runs the operator as the Deployment in the cluster says, with the rights of its
// ServiceAccount: there is no kubelet.
func startOperator(t *testing.T) *testenv.Operator {
	t.Helper()
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: "vidra-operator"}
	require.NoError(t, cluster.Admin.Get(t.Context(), key, deployment))
	// The addresses are those of a Pod, and its Lease is held in the test of the leader.
	args := slices.DeleteFunc(deployment.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains([]string{"--metrics-bind-address", "--health-probe-bind-address", "--leader-elect"}, name)
	})
	operator, err := cluster.StartOperator(t.Context(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: args, ServiceAccount: deployment.Spec.Template.Spec.ServiceAccountName,
	})
	require.NoError(t, err)
	return operator
}

// settings is the ConfigMap of a VidraResource.
func settings(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}}
}

// requireHeals requires that an edit is reverted. It waits until the status counts the heal, which
// is then no write of an upgrade.
func requireHeals(t *testing.T, name string) {
	t.Helper()
	heals := func(t require.TestingT) int64 {
		if drift := cluster.GetVidraResource(t, name).Status.Drift; drift != nil {
			return drift.Heals
		}
		return 0
	}
	before := heals(t)
	require.NoError(t, cluster.MergePatch(settings(name), `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, before+1, heals(c)) })
	require.Equal(t, "hello", cluster.Get(t, settings(name)).Object["data"].(map[string]any)["greeting"])
}

// TestLifecycle installs Vidra as it was before there was a chart, and then does with helm what
// docs/operations.md says, while two VidraResources exist: one deletes its objects, and one leaves
// them in place. Both have a value that the CustomResourceDefinition refuses from the upgrade on.
//
// The manifests are the older ones, and the operator is that of the checkout: an older one would need the
// history of git, and minutes to build what its go.mod names.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "before.yaml"))
	require.NoError(t, err)
	require.NoError(t, testenv.Apply(t.Context(), cluster.Config, parse(t, string(text))))
	operator := startOperator(t)
	deletes, leaves := cluster.NewNamespace(t), cluster.NewNamespace(t)+"-left"
	cluster.MakeNamespace(t, leaves)
	cluster.NewVidraResource(t, deletes, suite.Greeting("settings", "hello"), refusedNow)
	cluster.NewVidraResource(t, leaves, suite.Greeting("settings", "hello"), refusedNow, suite.Orphaning)
	both := []string{deletes, leaves}
	for _, name := range both {
		cluster.AwaitReady(t, name)
		requireHeals(t, name)
	}

	t.Run("upgrade from kustomize", func(t *testing.T) {
		operator = requireQuietUpgrade(t, operator, both, "--take-ownership", "--force-conflicts")
		requireHeals(t, deletes)
		requireStaysEditable(t, deletes)
	})
	t.Run("upgrade with other values", func(t *testing.T) {
		operator = requireQuietUpgrade(t, operator, both, "--force-conflicts", "--set=replicas=2,networkPolicy.enabled=true,flags.workers=9,crds.enabled=false")
		require.Len(t, installed(t, "NetworkPolicy"), 1)
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
		require.Nil(t, cluster.Get(t, crd).GetDeletionTimestamp(), "it stays, also outside of the release")
		operator = requireQuietUpgrade(t, operator, both, "--reset-values", "--force-conflicts")
		require.Empty(t, installed(t, "NetworkPolicy"), "values that are not named are those of the chart")
	})
	require.NoError(t, operator.Stop(suite.Patience))
	t.Run("uninstall", func(t *testing.T) { requireUninstalled(t, both) })
	t.Run("reinstall", func(t *testing.T) {
		require.NoError(t, cluster.DeleteVidraResource(t.Context(), deletes))
		require.NotNil(t, cluster.GetVidraResource(t, deletes).DeletionTimestamp, "it waits for Vidra")
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testenv.OperatorNamespace}}
		require.NoError(t, cluster.Admin.Delete(t.Context(), namespace))
		cluster.AwaitGone(t, namespace)
		upgrade(t)
		operator = startOperator(t)
		cluster.AwaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: deletes}})
		require.False(t, cluster.Exists(t, settings(deletes)))
		requireHeals(t, leaves)
	})
	t.Run("remove", func(t *testing.T) {
		left := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: leaves}}
		require.NoError(t, cluster.DeleteVidraResource(t.Context(), leaves))
		cluster.AwaitGone(t, left)
		require.True(t, cluster.Exists(t, settings(leaves)), "spec.deletionPolicy: Orphan")
		require.NoError(t, operator.Stop(suite.Patience))
		mustHelm(t, append([]string{"uninstall"}, release...)...)
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
		require.NoError(t, cluster.Admin.Delete(t.Context(), crd))
		cluster.AwaitGone(t, crd)
	})
}

// refusedNow gives a VidraResource a value that is refused since the key of a source has a rule. The
// operator ignores the source, which does not exist.
func refusedNow(vr *v1alpha1.VidraResource) {
	vr.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "extra", Key: "no key has spaces", Optional: true}}
}

// requireStaysEditable requires that a VidraResource with a value that its schema refuses can be
// changed in other fields and in its status, as long as that value stays.
func requireStaysEditable(t *testing.T, name string) {
	t.Helper()
	const rule = "key must be one of data"
	another := cluster.GetVidraResource(t, name)
	another.ObjectMeta = metav1.ObjectMeta{Name: name + "-another"}
	require.ErrorContains(t, cluster.Admin.Create(t.Context(), another, client.DryRunAll), rule, "a new one is refused")
	edited := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.ErrorContains(t, cluster.MergePatch(edited, `{"spec":{"manifestFrom":[{"kind":"ConfigMap","name":"extra","key":"nor has this"}]}}`), rule, "so is another value")
	require.NoError(t, cluster.MergePatch(edited, `{"spec":{"interval":"1h"},"metadata":{"annotations":{"example.com/edited":"yes"}}}`))
	suite.Await(t, func(c *assert.CollectT) {
		vr := &v1alpha1.VidraResource{}
		require.NoError(c, cluster.Admin.Get(t.Context(), client.ObjectKeyFromObject(edited), vr))
		require.Equal(c, vr.Generation, vr.Status.ObservedGeneration, "the operator writes the status")
	})
	requireHeals(t, name)
}

// requireQuietUpgrade upgrades with flags, replaces the operator as the Deployment does, and requires
// that neither writes a managed object, a VidraResource or an Event. From a Vidra without revisions, each VidraResource gets
// its first one: a Secret, and status.revision.
func requireQuietUpgrade(t *testing.T, running *testenv.Operator, names []string, flags ...string) *testenv.Operator {
	t.Helper()
	first := cluster.GetVidraResource(t, names[0]).Status.Revision == nil
	state := func(name string) string {
		vr, of := cluster.GetVidraResource(t, name), cluster.Get(t, settings(name)).GetResourceVersion()
		if !first {
			return of + " " + vr.ResourceVersion
		}
		vr.Status.Revision = nil
		encoded, err := json.Marshal(vr.Status)
		require.NoError(t, err)
		return fmt.Sprintf("%s %d %s", of, vr.Generation, encoded)
	}
	before := map[string]string{}
	for _, name := range names {
		before[name] = state(name)
	}
	mark := cluster.AuditMark(t)
	printed := upgrade(t, flags...)
	require.Contains(t, printed, "rollout status deployment/vidra-operator", "the notes say what to do next")
	require.NoError(t, running.Stop(suite.Patience))
	operator := startOperator(t)
	suite.Await(t, func(c *assert.CollectT) {
		require.GreaterOrEqual(c, suite.Metric(c, operator, "controller_runtime_reconcile_total"), len(names))
	})
	for _, name := range names {
		cluster.AwaitReady(t, name)
		if first {
			suite.Await(t, func(c *assert.CollectT) { require.NotNil(c, cluster.GetVidraResource(t, name).Status.Revision) })
		}
		require.Equal(t, before[name], state(name), "nothing was written")
	}
	revisions := 0
	sent := cluster.ByOperator(t, mark).Writes().Only(func(r suite.Request) bool {
		if first && (r.Resource == "secrets" && r.Verb == "create" || r.Resource == "vidraresources" && r.Subresource == "status") {
			revisions++
			return false
		}
		return r.Group != "authentication.k8s.io"
	})
	require.Empty(t, sent, "no write and no Event: %s", sent)
	require.LessOrEqual(t, revisions, 2*len(names))
	return operator
}

// installed returns the objects of a kind in the release, as `helm get manifest` prints them, that exist.
func installed(t *testing.T, kind string) (ids []string) {
	t.Helper()
	for id, obj := range byID(t, parse(t, mustHelm(t, append([]string{"get", "manifest"}, release...)...))) {
		if obj.GetKind() == kind && cluster.Exists(t, obj) {
			ids = append(ids, id)
		}
	}
	return ids
}

// requireUninstalled uninstalls the chart and requires that the VidraResources, their objects and
// the CustomResourceDefinition stay, and that the user is warned.
func requireUninstalled(t *testing.T, names []string) {
	t.Helper()
	manifest := byID(t, parse(t, mustHelm(t, append([]string{"get", "manifest"}, release...)...)))
	printed := mustHelm(t, append([]string{"uninstall"}, release...)...)
	require.Contains(t, printed, "no edit is reverted", "the API server warns")
	require.Contains(t, printed, crdName, "helm prints what it keeps")
	for id, obj := range manifest {
		require.Equal(t, obj.GetKind() == "CustomResourceDefinition", cluster.Exists(t, obj), id)
	}
	for _, name := range names {
		require.Nil(t, cluster.GetVidraResource(t, name).DeletionTimestamp)
		require.True(t, cluster.Exists(t, settings(name)))
	}
}
