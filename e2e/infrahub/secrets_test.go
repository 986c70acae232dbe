package main

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const secretManifest = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: hidden\nstringData:\n  password: sesame-4711\n"

// TestSecrets: objects with Secrets are in a Secret alone, which goes when it is not needed.
func TestSecrets(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	a := l.artifact("a", "hello")
	plain := a.Content
	a.Content += "---\n" + secretManifest
	l.Set(a)
	l.sync()
	is := l.await(v1alpha1.SyncReasonSynced)
	require.Empty(t, is.Status.Checksums, "a checksum helps to guess")
	suite.Await(t, func(c *assert.CollectT) {
		require.True(c, cluster.Exists(c, &corev1.Secret{ObjectMeta: configMap(l.ns, "hidden").ObjectMeta}))
	})
	vr := cluster.AwaitReady(t, a.ID)
	text, err := json.Marshal(vr)
	require.NoError(t, err)
	sum := md5.Sum([]byte(a.Content))
	require.NotContains(t, string(text), "sesame")
	require.NotContains(t, string(text), hex.EncodeToString(sum[:]))
	require.Equal(t, strings.TrimSpace(plain), strings.TrimSpace(vr.Spec.Manifest))
	from := vr.Spec.ManifestFrom[0]
	part := &corev1.Secret{ObjectMeta: configMap(from.Namespace, from.Name).ObjectMeta}
	require.Equal(t, vr.UID, cluster.Get(t, part).GetOwnerReferences()[0].UID)
	l.Reset()
	l.request()
	l.requireRequests(0, 1, 0)

	// An edit of the Secret is undone at the next sync.
	require.NoError(t, cluster.MergePatch(part, `{"stringData":{"manifest":"no"}}`))
	l.request()
	require.NoError(t, cluster.Admin.Get(t.Context(), keyOf(part), part))
	require.Contains(t, string(part.Data["manifest"]), "sesame")

	a.Content = plain
	l.Set(a)
	l.request()
	cluster.AwaitGone(t, &corev1.Secret{ObjectMeta: configMap(l.ns, "hidden").ObjectMeta})
	cluster.AwaitGone(t, part)

	a.Content += "---\n" + secretManifest
	l.Set(a, l.artifact("b", "hello"), l.artifact("c", "hello"))
	l.request()
	suite.Await(t, func(c *assert.CollectT) { require.True(c, cluster.Exists(c, part)) })
	l.Remove(a.ID)
	l.request()
	cluster.AwaitGone(t, part) // after its VidraResource

	require.NotContains(t, suite.LogOf(t, operator), "sesame")
}

// TestSecretWithoutVidraResource: the Secret of an artifact whose VidraResource the API server refuses goes with the artifact, also after a
// restart, or with the InfrahubSync.
func TestSecretWithoutVidraResource(t *testing.T) {
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	secretOf := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: configMap(testenv.OperatorNamespace, "infrahub-artifact-"+l.id(name)).ObjectMeta}
	}
	for _, name := range []string{"a", "b", "c"} {
		a := l.artifact(name, "hello")
		a.Content += "---\n" + strings.ReplaceAll(secretManifest, "hidden", "hidden-"+name)
		l.Set(a)
	}
	is := l.sync(func(is *v1alpha1.InfrahubSync) {
		is.Spec.Template = &v1alpha1.VidraResourceTemplate{Labels: map[string]string{"team": "no value of a label"}}
	})
	l.await(v1alpha1.SyncReasonArtifactsFailed, "no value of a label")
	l.requireResources(t)
	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, is.UID, cluster.Get(t, secretOf(name)).GetOwnerReferences()[0].UID, "it has no other owner yet")
	}
	l.Remove(l.id("a"))
	l.request()
	cluster.AwaitGone(t, secretOf("a"))
	suite.Kill(t, operator)
	l.Remove(l.id("b"))
	require.NoError(t, launch(cleanup))
	cluster.AwaitGone(t, secretOf("b"))
	require.True(t, cluster.Exists(t, secretOf("c")))
	require.NoError(t, cluster.Admin.Delete(t.Context(), is))
	cluster.AwaitGone(t, secretOf("c"))
}
