package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var externalArtifacts = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "ExternalArtifact"}

// publishes makes an InfrahubSync publish its artifacts in the namespace of the test.
func (l *lab) publishes(is *v1alpha1.InfrahubSync) {
	is.Spec.Publish = &v1alpha1.InfrahubSyncPublish{Namespace: l.ns, Name: "artifacts"}
	is.Spec.Destination = v1alpha1.InfrahubSyncDestination{}
}

// published reads the ExternalArtifact, and its archive.
func (l *lab) published(t require.TestingT) (artifact map[string]any, files map[string]string) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(externalArtifacts)
	require.NoError(t, cluster.Admin.Get(context.Background(), client.ObjectKey{Namespace: l.ns, Name: "artifacts"}, u))
	artifact, _, _ = unstructured.NestedMap(u.Object, "status", "artifact")
	require.NotEmpty(t, artifact)
	return artifact, fetch(t, fmt.Sprint(artifact["url"]), fmt.Sprint(artifact["digest"]))
}

// fetch returns the files of an archive.
func fetch(t require.TestingT, url, digest string) map[string]string {
	answer, err := http.Get(url) //nolint:gosec,noctx // the server of this test
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusOK, answer.StatusCode, url)
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	require.Equal(t, digest, "sha256:"+hex.EncodeToString(sum[:]))
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = string(text)
	}
}

// trimmed returns texts without white space around them, as artifacts are published.
func trimmed(texts map[string]string) map[string]string {
	found := map[string]string{}
	for name, text := range texts {
		found[name] = strings.TrimSpace(text)
	}
	return found
}

// confirm confirms removals.
func (l *lab) confirm(value string) {
	l.t.Helper()
	require.NoError(l.t, cluster.MergePatch(l.get(l.t), `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmRemovalAnnotation, value))
}

// statusOf returns the status of the answer to a request.
func statusOf(t *testing.T, method, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// TestPublish: an InfrahubSync with spec.publish makes no VidraResources. Its artifacts are the files of an ExternalArtifact, which a VidraResource
// may name: all of them or, while one has a problem, those of before. Fewer files need a confirmation where VidraResources would.
func TestPublish(t *testing.T) {
	require.NoError(t, client.IgnoreAlreadyExists(cluster.Admin.Create(t.Context(), testenv.FluxCRD("ExternalArtifact"))))
	address := suite.FreeAddress(t).String()
	flags := []string{"--infrahub-publish-bind-address=" + address, "--infrahub-publish-url=http://" + address + "/", "--artifact-hosts=127.0.0.1"}
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), l.artifact("c", "hello"))
	l.sync(l.publishes)
	l.await(v1alpha1.SyncReasonSpecInvalid, "--infrahub-publish-bind-address")
	restartOperator(t, flags...)
	t.Cleanup(func() { restartOperator(t) })

	is := l.await(v1alpha1.SyncReasonSynced, "3 artifacts published in ExternalArtifact "+l.ns+"/artifacts")
	first, files := l.published(t)
	require.Equal(t, is.Status.PublishedRevision, first["revision"])
	require.Equal(t, trimmed(map[string]string{
		l.id("a") + ".yaml": suite.Greeting("a", "hello"), l.id("b") + ".yaml": suite.Greeting("b", "hello"), l.id("c") + ".yaml": suite.Greeting("c", "hello"),
	}), files)
	l.requireResources(t)
	cluster.AwaitEvent(t, is, corev1.EventTypeNormal, v1alpha1.SyncReasonSynced, "Write", "published revision main@sha256:")
	vr := cluster.NewVidraResource(t, l.ns, "", func(vr *v1alpha1.VidraResource) {
		vr.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ExternalArtifact", Namespace: l.ns, Name: "artifacts"}}
	})
	l.awaitGreeting("c", "hello")

	l.Set(l.artifact("a", "changed"))
	l.request()
	l.awaitGreeting("a", "changed")
	second, _ := l.published(t)
	fetch(t, fmt.Sprint(first["url"]), fmt.Sprint(first["digest"])) // for clients that have read the status before

	mark := cluster.AuditMark(t)
	restartOperator(t, flags...)
	l.request()
	same, _ := l.published(t)
	require.Equal(t, second, same)
	require.Empty(t, cluster.ByOperator(t, mark).Writes().Only(func(r suite.Request) bool {
		return r.Resource == "externalartifacts" || r.Resource == "secrets"
	}), "a start writes nothing")

	secrets := &corev1.SecretList{}
	of := client.MatchingLabels{"infrahubsync.infrahub.operators.com/archive-of": string(is.UID)}
	require.NoError(t, cluster.Admin.List(t.Context(), secrets, of))
	require.Len(t, secrets.Items, 2, "the last two archives")
	require.NoError(t, cluster.Admin.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(testenv.OperatorNamespace), of))
	require.Equal(t, http.StatusNotFound, statusOf(t, http.MethodGet, fmt.Sprint(second["url"])))
	l.request()
	l.published(t)

	// Without the ExternalArtifact, the consumers have the objects all the same.
	l.Remove(l.id("b"), l.id("c"))
	gone := &unstructured.Unstructured{}
	gone.SetGroupVersionKind(externalArtifacts)
	gone.SetNamespace(l.ns)
	gone.SetName("artifacts")
	require.NoError(t, cluster.Admin.Delete(t.Context(), gone))
	l.request()
	l.await(v1alpha1.SyncReasonConfirmationRequired, "more than half of the 3 files")
	l.Set(l.artifact("b", "hello"), l.artifact("c", "hello"))
	l.request()
	l.await(v1alpha1.SyncReasonSynced, "3 artifacts published")
	again, _ := l.published(t)
	require.Equal(t, second["digest"], again["digest"])
	second = again

	// No Secret is published, and one artifact with a problem leaves all of them.
	l.Set(standin.Artifact{ID: l.id("a"), Name: artifactName, Branch: "main", Content: "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {key: hidden-value}\n"})
	l.request()
	l.await(v1alpha1.SyncReasonArtifactsFailed, "the published ones stay as they are", "holds Secrets")
	broken := l.artifact("a", "changed")
	broken.Status = "Error"
	l.Set(broken, l.artifact("b", "not yet"))
	l.request()
	l.await(v1alpha1.SyncReasonArtifactsFailed, "1 of 3 artifacts cannot be published")
	same, _ = l.published(t)
	require.Equal(t, second, same)
	l.Set(l.artifact("a", "changed"), l.artifact("b", "hello"))

	// Removals.
	l.Remove(l.id("b"), l.id("c"))
	l.request()
	is = l.await(v1alpha1.SyncReasonConfirmationRequired, "2 published files", "more than half of the 3 files")
	same, _ = l.published(t)
	require.Equal(t, second["digest"], same["digest"])
	two := is.Status.PendingRemovals.Confirmation
	l.Remove(l.id("a"))
	l.confirm(two) // which is not for all three
	l.request()
	l.await(v1alpha1.SyncReasonConfirmationRequired, "no artifact any more")
	l.Set(l.artifact("a", "changed"))
	l.request()
	is = l.await(v1alpha1.SyncReasonSynced, "1 artifact published")
	require.Nil(t, is.Status.PendingRemovals)
	cluster.AwaitGone(t, configMap(l.ns, "c"))
	l.awaitGreeting("a", "changed")

	// A confirmation is for one removal of files, also if the same ones are published again.
	for range 2 {
		l.Set(l.artifact("b", "hello"), l.artifact("c", "hello"))
		l.request()
		l.await(v1alpha1.SyncReasonSynced, "3 artifacts published")
		l.Remove(l.id("b"), l.id("c"))
		l.request()
		is = l.await(v1alpha1.SyncReasonConfirmationRequired, "more than half of the 3 files")
		l.Set(broken) // an artifact with a problem ends no wait
		l.request()
		l.await(v1alpha1.SyncReasonArtifactsFailed, "1 of 1 artifact cannot be published")
		l.confirm(is.Status.PendingRemovals.Confirmation)
		l.Set(l.artifact("a", "changed"))
		l.request()
		l.await(v1alpha1.SyncReasonSynced, "1 artifact published")
	}

	// What was published is unknown.
	require.NoError(t, cluster.Admin.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(testenv.OperatorNamespace), of))
	l.Set(l.artifact("a", "new"))
	l.request()
	is = l.await(v1alpha1.SyncReasonConfirmationRequired, "is not kept")
	l.confirm(is.Status.PendingRemovals.Confirmation)
	l.awaitGreeting("a", "new")

	// The server has no other Secrets, and accepts reads alone.
	third, _ := l.published(t)
	require.Equal(t, http.StatusMethodNotAllowed, statusOf(t, http.MethodPost, fmt.Sprint(third["url"])))
	for _, path := range []string{"/", "/archives/", "/archives/../healthz", "/archives/" + string(is.UID) + "/x.tar.gz", "/archives/" + string(vr.UID) + "/" + fmt.Sprint(third["digest"])[7:] + ".tar.gz"} {
		require.Equal(t, http.StatusNotFound, statusOf(t, http.MethodGet, "http://"+address+path), path)
	}

	require.NoError(t, cluster.Admin.Delete(t.Context(), vr))
	require.NoError(t, cluster.Admin.Delete(t.Context(), is))
	suite.Await(t, func(c *assert.CollectT) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(externalArtifacts)
		require.True(c, apierrors.IsNotFound(cluster.Admin.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: "artifacts"}, u)))
		require.NoError(c, cluster.Admin.List(t.Context(), secrets, of))
		require.Empty(c, secrets.Items)
	})
}

// TestPublishBesideOthers: an ExternalArtifact of another owner stays as it is, and the spec accepts no change that leaves one behind.
func TestPublishBesideOthers(t *testing.T) {
	require.NoError(t, client.IgnoreAlreadyExists(cluster.Admin.Create(t.Context(), testenv.FluxCRD("ExternalArtifact"))))
	address := suite.FreeAddress(t).String()
	restartOperator(t, "--infrahub-publish-bind-address="+address, "--infrahub-publish-url=http://"+address)
	t.Cleanup(func() { restartOperator(t) })
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(externalArtifacts)
	other.SetNamespace(l.ns)
	other.SetName("artifacts")
	suite.Await(t, func(c *assert.CollectT) { require.NoError(c, cluster.Admin.Create(t.Context(), other)) })
	is := l.sync(l.publishes)
	l.await(v1alpha1.SyncReasonWriteFailed, "exists, and is not of this InfrahubSync")
	require.Equal(t, other.GetResourceVersion(), cluster.Get(t, other).GetResourceVersion())
	require.NoError(t, cluster.Admin.Delete(t.Context(), other))
	l.request()
	l.await(v1alpha1.SyncReasonSynced)
	for name, patch := range map[string]string{
		"removed": `{"spec":{"publish":null}}`, "elsewhere": `{"spec":{"publish":{"namespace":"default"}}}`, "renamed": `{"spec":{"publish":{"name":"other"}}}`,
		"unnamed": `{"spec":{"publish":{"name":null}}}`, "with a template": `{"spec":{"template":{"wait":true}}}`,
	} {
		require.True(t, apierrors.IsInvalid(cluster.MergePatch(is, "%s", patch)), name)
	}
	plain := newLab(t, standin.Options{})
	plain.credentials(nil)
	require.True(t, apierrors.IsInvalid(cluster.MergePatch(plain.sync(), `{"spec":{"publish":{"namespace":%q}}}`, plain.ns)), "added")
}
