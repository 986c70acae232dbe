package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestInfrahubCommands writes InfrahubSyncs and Secrets, and prints no value of a Secret.
func TestInfrahubCommands(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "infrahub")
	const server = "http://infrahub.invalid:8000"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	password := write("password", "sesame-4711\n")
	secrets := func() (list corev1.SecretList) {
		require.NoError(t, admin.List(t.Context(), &list, client.InNamespace("infrahub"), client.HasLabels{v1alpha1.InfrahubURLLabel}))
		return list
	}

	golden(t, "infrahub-credentials-none", ok(t, "infrahub", "credentials", "list", "-n", "infrahub"))
	golden(t, "infrahub-credentials-apply", ok(t, "infrahub", "credentials", "apply", server, "-u", "admin", "--password-file", password, "-n", "infrahub"))
	made := secrets().Items
	require.Len(t, made, 1)
	require.Equal(t, "infrahub.invalid", made[0].Labels[v1alpha1.InfrahubURLLabel])
	require.Equal(t, map[string][]byte{"username": []byte("admin"), "password": []byte("sesame-4711"), "infrahubapiurl": []byte(server)}, made[0].Data)
	listed := ok(t, "infrahub", "credentials", "list", "-n", "infrahub")
	golden(t, "infrahub-credentials-list", listed)
	require.NotContains(t, listed, "sesame")

	// A token replaces the password, in the Secret that is there.
	ok(t, "infrahub", "credentials", "apply", server+"/path", "--token-file", password, "-n", "infrahub")
	made = secrets().Items
	require.Len(t, made, 1)
	require.Contains(t, made[0].Data, "token")
	require.NotContains(t, made[0].Data, "password")

	// A password replaces the token of another client: the token would count.
	require.NoError(t, cluster.MergePatch(&made[0], `{"data":{"token":"c2VzYW1l"}}`))
	ok(t, "infrahub", "credentials", "apply", server, "-u", "admin", "--password-file", password, "-n", "infrahub")
	made = secrets().Items
	require.Contains(t, made[0].Data, "password")
	require.NotContains(t, made[0].Data, "token")

	// The credentials of another port of the host are not replaced.
	for _, verb := range [][]string{{"apply", "http://infrahub.invalid:1", "--token-file", password}, {"delete", "http://infrahub.invalid:1"}} {
		require.Equal(t, 1, vidra(t, append([]string{"infrahub", "credentials", "-n", "infrahub"}, verb...)...).code)
		require.Equal(t, made[0].ResourceVersion, cluster.Get(t, &made[0]).GetResourceVersion())
	}

	// Only a Secret with the label is written or deleted.
	require.NoError(t, cluster.MergePatch(&made[0], `{"metadata":{"labels":{%q:null}}}`, v1alpha1.InfrahubURLLabel))
	for _, args := range [][]string{
		{"infrahub", "credentials", "delete", server, "-n", "infrahub"}, {"infrahub", "credentials", "apply", server, "--token-file", password, "-n", "infrahub"},
	} {
		a := vidra(t, args...)
		require.Equal(t, 1, a.code)
		require.Contains(t, a.stderr, "label")
		require.True(t, cluster.Exists(t, &made[0]))
	}
	require.NoError(t, cluster.MergePatch(&made[0], `{"metadata":{"labels":{%q:"infrahub.invalid"}}}`, v1alpha1.InfrahubURLLabel))
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infrahub", Name: "other", Labels: map[string]string{v1alpha1.InfrahubURLLabel: "infrahub.invalid"}}}
	require.NoError(t, admin.Create(t.Context(), other))
	a := vidra(t, "infrahub", "credentials", "delete", server, "-n", "infrahub")
	require.Equal(t, 1, a.code)
	golden(t, "infrahub-credentials-several", a.stderr)
	require.NoError(t, admin.Delete(t.Context(), other))
	golden(t, "infrahub-credentials-delete", ok(t, "infrahub", "credentials", "delete", server, "-n", "infrahub"))
	require.Empty(t, secrets().Items)
	for _, args := range [][]string{
		{"infrahub", "credentials", "apply", "ftp://x", "--token-file", password}, {"infrahub", "credentials", "apply", server},
		{"infrahub", "credentials", "apply", server, "-u", "admin"}, {"infrahub", "credentials", "apply", server, "--token-file", write("empty", "\n")},
		{"infrahub", "sync", "apply", server}, {"infrahub", "sync", "get", "missing"}, {"infrahub", "cluster", "apply", "missing"},
	} {
		a := vidra(t, args...)
		require.Equal(t, 1, a.code, args)
		require.NotContains(t, a.stderr, "sesame")
	}

	// The kubeconfig of a context, and of no other one.
	golden(t, "infrahub-cluster-apply", hostless(ok(t, "infrahub", "cluster", "apply", contextOf(t), "-n", "infrahub")))
	clusters := &corev1.SecretList{}
	require.NoError(t, admin.List(t.Context(), clusters, client.InNamespace("infrahub"), client.HasLabels{"cluster-kubeconfig"}))
	require.Len(t, clusters.Items, 1)
	require.Equal(t, "127.0.0.1", clusters.Items[0].Labels["cluster-kubeconfig"])
	require.Contains(t, string(clusters.Items[0].Data["kubeconfig"]), "current-context: "+contextOf(t))

	// The kubeconfig of another port of the host is another Secret.
	raw, err := clientcmd.LoadFromFile(cluster.KubeconfigPath)
	require.NoError(t, err)
	second := raw.Contexts[contextOf(t)].DeepCopy()
	raw.Clusters["second"] = raw.Clusters[second.Cluster].DeepCopy()
	raw.Clusters["second"].Server, second.Cluster, raw.Contexts["second"] = "https://127.0.0.1:1", "second", second
	path := filepath.Join(dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*raw, path))
	for range 2 { // the second time, it is there
		ok(t, "infrahub", "cluster", "apply", "second", "-n", "infrahub", "--kubeconfig", path)
		require.Equal(t, 2, strings.Count(ok(t, "infrahub", "cluster", "list", "-n", "infrahub"), "127.0.0.1"))
		require.Equal(t, clusters.Items[0].ResourceVersion, cluster.Get(t, &clusters.Items[0]).GetResourceVersion())
	}
	ok(t, "infrahub", "cluster", "delete", "https://127.0.0.1:1", "-n", "infrahub")
	require.True(t, cluster.Exists(t, &clusters.Items[0]))
	require.Equal(t, 1, vidra(t, "infrahub", "cluster", "delete", "https://127.0.0.1:1", "-n", "infrahub").code)
	golden(t, "infrahub-cluster-list", ok(t, "infrahub", "cluster", "list", "-n", "infrahub"))
	golden(t, "infrahub-cluster-delete", ok(t, "infrahub", "cluster", "delete", "127.0.0.1", "-n", "infrahub"))

	golden(t, "infrahub-sync-apply", ok(t, "infrahub", "sync", "apply", server, "-a", "Webserver_Manifest", "-N", "infrahub", "-d", "now-2h", "-e"))
	is := &v1alpha1.InfrahubSync{}
	key := client.ObjectKey{Name: "webserver-manifest"}
	require.NoError(t, admin.Get(t.Context(), key, is))
	require.Equal(t, v1alpha1.InfrahubSyncSource{InfrahubAPIURL: server, TargetBranch: "main", TargetDate: "now-2h", ArtifactName: "Webserver_Manifest"}, is.Spec.Source)
	require.Equal(t, v1alpha1.InfrahubSyncDestination{Namespace: "infrahub", ReconcileOnEvents: true}, is.Spec.Destination)
	awaitText(t, "CredentialsMissing", "infrahub", "sync", "list")
	golden(t, "infrahub-sync-get", ok(t, "infrahub", "sync", "get", is.Name))
	read := &v1alpha1.InfrahubSync{}
	require.NoError(t, json.Unmarshal([]byte(ok(t, "infrahub", "sync", "get", is.Name, "-o", "json")), read))
	require.Equal(t, is.UID, read.UID)
	golden(t, "infrahub-sync-request", ok(t, "infrahub", "sync", "request", is.Name))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(context.Background(), key, is))
		require.Equal(c, is.Annotations[v1alpha1.SyncRequestedAtAnnotation], is.Status.LastHandledSyncAt)
	})
	golden(t, "infrahub-sync-confirm", ok(t, "infrahub", "sync", "confirm", is.Name))
	golden(t, "infrahub-sync-delete", ok(t, "infrahub", "sync", "delete", is.Name))
	require.False(t, cluster.Exists(t, is))
	missing := vidra(t, "infrahub", "sync", "delete", is.Name)
	require.Equal(t, 1, missing.code)
	golden(t, "infrahub-sync-missing", missing.stderr)
}

// contextOf is the context of the kubeconfig of the tests.
func contextOf(t *testing.T) string {
	t.Helper()
	raw, err := clientcmd.LoadFromFile(cluster.KubeconfigPath)
	require.NoError(t, err)
	return raw.CurrentContext
}

// hostless is an output without the port of the API server.
func hostless(output string) string {
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(output, "HOST")
}
