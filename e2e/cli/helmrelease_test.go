package cli

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// helmReleases is the CustomResourceDefinition of the HelmReleases of Flux, which may hold anything, in a version of older clusters.
func helmReleases() *apiextensionsv1.CustomResourceDefinition {
	return testenv.AnyCRD(helmRelease, "helmreleases")
}

var helmRelease = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2beta2", Kind: "HelmRelease"}

// newHelmRelease creates a HelmRelease.
func newHelmRelease(t *testing.T, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(helmRelease)
	u.SetNamespace(namespace)
	u.SetName(name)
	require.NoError(t, admin.Create(t.Context(), u))
	return u
}

// TestMigrateHelmRelease moves a release that a HelmRelease of Flux installed: its objects are in one namespace, its records in another, and the
// HelmRelease in a third. While the HelmRelease is not suspended, nothing is written.
func TestMigrateHelmRelease(t *testing.T) {
	t.Parallel()
	helm, err := testenv.Helm(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	const home, target, storage, release = "helmrelease", "helmrelease-target", "helmrelease-storage", "helmrelease-target-web"
	for _, ns := range []string{home, target, storage} {
		makeNamespace(t, ns)
	}
	cluster.RemoveAtEnd(t, release)
	chart := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(chart, "templates"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"), 0o600))
	labelled := regexp.MustCompile(`(metadata: \{name: \w+, labels: \{app: web)`).ReplaceAllString(moving, "$1, helm.toolkit.fluxcd.io/name: web, helm.toolkit.fluxcd.io/namespace: "+home)
	require.NoError(t, os.WriteFile(filepath.Join(chart, "templates", "all.yaml"), []byte(labelled), 0o600))
	tool(t, 0, helm, "install", release, chart, "-n", target)
	record := &corev1.Secret{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: target, Name: "sh.helm.release.v1." + release + ".v1"}, record))
	require.NoError(t, admin.Delete(t.Context(), record.DeepCopy()))
	record.Namespace, record.ResourceVersion, record.UID = storage, "", ""
	require.NoError(t, admin.Create(t.Context(), record))
	owner := func() string {
		live := &corev1.Secret{}
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(record), live))
		return live.Labels["owner"]
	}
	before := moved(t, target)
	args := []string{"migrate", "helm", release, "-n", storage}
	apply := append(args, "--apply", "--accept", "helmRelease") //nolint:gocritic // args has no capacity left
	refused := func(want string, args ...string) {
		t.Helper()
		a := vidra(t, args...)
		require.NotEqual(t, 0, a.code, a.stdout)
		require.Contains(t, a.stdout+a.stderr, want)
		require.NotContains(t, a.stdout+a.stderr, "hunter2")
		require.Equal(t, "helm", owner())
		requireUntouched(t, before, moved(t, target))
	}
	refused("accept: helmRelease: the objects have the labels of HelmRelease helmrelease/web of Flux, which does not exist here", args...)

	require.NoError(t, admin.Create(t.Context(), helmReleases()))
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), helmReleases()))) })
	suite.Await(t, func(c *assert.CollectT) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2beta2", Kind: "HelmReleaseList"})
		require.NoError(c, admin.List(t.Context(), list))
	})
	web := newHelmRelease(t, home, "web", map[string]any{"targetNamespace": target, "storageNamespace": storage})
	const suspend = "suspend it first, with `flux -n helmrelease suspend helmrelease web`"
	refused("refused: helmRelease: HelmRelease helmrelease/web of Flux installs the release again: "+suspend, args...)
	refused(suspend, apply...)
	const way = "but HelmRelease helmrelease/web exists: suspend it with `flux -n helmrelease suspend helmrelease web`, and move its release with `vidra migrate helm " + release + " -n " + storage + "`"
	refused(way, "migrate", "flux", "web", "-n", home)
	refused(way, "migrate", "helm", "web", "-n", home)
	long := newHelmRelease(t, home, "long", map[string]any{"targetNamespace": target})
	long.Object["status"] = map[string]any{"history": []any{map[string]any{"name": "short-1234"}}}
	require.NoError(t, admin.Status().Update(t.Context(), long))
	refused("`vidra migrate helm short-1234 -n helmrelease`", "migrate", "flux", "long", "-n", home)
	newHelmRelease(t, home, "command", map[string]any{"releaseName": "$(id)", "storageNamespace": "a;id"})
	refused("`vidra migrate helm '$(id)' -n 'a;id'`", "migrate", "flux", "command", "-n", home)
	newHelmRelease(t, home, "remote", map[string]any{"kubeConfig": map[string]any{"secretRef": map[string]any{"name": "remote"}}})
	refused("installs its release in another cluster (spec.kubeConfig)", "migrate", "flux", "remote", "-n", home)

	require.NoError(t, cluster.MergePatch(web, `{"spec":{"suspend":true}}`))
	// Its history is kept, but it is uninstalled.
	require.NoError(t, cluster.MergePatch(record, `{"metadata":{"labels":{"status":"uninstalled"}}}`))
	refused("it was uninstalled, and its history is kept: it has no objects to move", args...)
	require.NoError(t, cluster.MergePatch(record, `{"metadata":{"labels":{"status":"deployed"}}}`))

	a := vidra(t, args...)
	require.Equal(t, 0, a.code, a.stdout+a.stderr)
	require.Contains(t, a.stdout, "note: helmRelease: HelmRelease helmrelease/web of Flux has to stay suspended")
	a = vidra(t, append(args, "--apply")...)
	require.Equal(t, 0, a.code, a.stdout+a.stderr)
	require.Contains(t, a.stdout, "manages 6 objects, of which 6 are unchanged; released 6 objects")
	require.Equal(t, "vidra-migrate", owner())
	after := moved(t, target)
	requireUnmoved(t, before, after)
	requireReleased(t, after, []string{"helm"}, []string{"meta.helm.sh/release-name", "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"})

	// It is resumed before a run that goes on.
	require.NoError(t, cluster.MergePatch(record, `{"metadata":{"labels":{"owner":"helm"}}}`))
	require.NoError(t, cluster.MergePatch(web, `{"spec":{"suspend":false}}`))
	a = vidra(t, append(args, "--apply")...)
	require.Equal(t, 2, a.code, a.stdout)
	require.Contains(t, a.stderr, suspend)
	require.Equal(t, "helm", owner())
	require.NoError(t, cluster.MergePatch(web, `{"spec":{"suspend":true}}`))
	a = vidra(t, append(args, "--apply")...)
	require.Equal(t, 0, a.code, a.stdout+a.stderr)

	a = vidra(t, append(args, "--undo")...)
	require.Equal(t, 0, a.code, a.stdout+a.stderr)
	require.Equal(t, "helm", owner())
	back := moved(t, target)
	requireUnmoved(t, before, back)
	requireBack(t, release, back)
	for kind, u := range back {
		require.Equal(t, "web", u.GetLabels()["helm.toolkit.fluxcd.io/name"], kind)
		require.Equal(t, home, u.GetLabels()["helm.toolkit.fluxcd.io/namespace"], kind)
		require.Equal(t, release, u.GetAnnotations()["meta.helm.sh/release-name"], kind)
		require.Contains(t, ownership.LabelManagers(u, "helm.toolkit.fluxcd.io/name"), "helm-controller", kind)
		require.False(t, hasEntry(u, "helm", metav1.ManagedFieldsOperationUpdate), kind)
	}
}
