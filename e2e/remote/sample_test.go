package remote

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSample does what the comments of the sample say.
func TestSample(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	root, err := testenv.Root()
	require.NoError(t, err)
	objs, err := testenv.Render(filepath.Join(root, "config", "samples", "remote"))
	require.NoError(t, err)
	require.Len(t, objs, 2)
	values := strings.NewReplacer(
		"https://edge.example.com:6443", d.url(),
		"<certificate of the authority, base64>", base64.StdEncoding.EncodeToString(d.config.CAData),
		"<token>", d.config.BearerToken,
	)
	replace := func(obj *unstructured.Unstructured, path ...string) {
		text, found, err := unstructured.NestedString(obj.Object, path...)
		require.NoError(t, err)
		require.True(t, found)
		require.NotEqual(t, text, values.Replace(text), "there is something to put in")
		require.NoError(t, unstructured.SetNestedField(obj.Object, values.Replace(text), path...))
	}
	for _, obj := range objs {
		switch obj.GetKind() {
		case "Secret":
			replace(obj, "stringData", "kubeconfig")
			t.Cleanup(func() { deleteKubeconfig(t, obj.GetName()) })
		case v1alpha1.Kind:
			replace(obj, "spec", "destination", "server")
		}
	}
	require.NoError(t, testenv.Apply(t.Context(), here.Config, objs))
	v := awaitReady(t, "edge")
	require.Equal(t, "hello", there.says(t, "edge", "edge-page"))
	there.edit(t, configMap("edge", "edge-page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, "edge", "edge-page", "hello")
	remove(t, v)
	here.AwaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
}
