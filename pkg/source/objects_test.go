package source

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestTextOfAProxy: a text with 404 does not make an optional source absent, whose objects would be removed.
func TestTextOfAProxy(t *testing.T) {
	t.Parallel()
	vr := &v1alpha1.VidraResource{}
	vr.Spec.Destination.Namespace = "shop"
	vr.Spec.Kustomize = &v1alpha1.Kustomize{SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: ConfigMap, Name: "parts", Optional: true}}}
	kinds, key, cms := Objects(nil), Key{Kind: ConfigMap, Namespace: "shop", Name: "parts"}, corev1.Resource("configmaps")
	for name, tt := range map[string]struct {
		answer error
		absent bool
	}{
		"text":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", cms, "parts", "404 page not found", 0, true), false},
		"Status": {apierrors.NewNotFound(cms, "parts"), true},
	} {
		client := fake.NewSimpleDynamicClient(runtime.NewScheme())
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.answer })
		_, fetched := kinds.Fetch(t.Context(), Request{Client: client, Key: key})
		_, latest := kinds.Latest(t.Context(), client, key)
		_, _, _, variables := ReadVariables(t.Context(), client, vr)
		for _, err := range []error{fetched, latest, variables} {
			require.Equal(t, tt.absent, err == nil, name)
		}
	}
}

// TestUnknownKind: a kind of a later version cannot be read, as after a rollback of the operator.
func TestUnknownKind(t *testing.T) {
	t.Parallel()
	kinds, key := Objects(nil), Key{Kind: "S3Object", Namespace: "shop", Name: "parts"}
	_, resource := kinds.Resource(t.Context(), key.Kind)
	_, fetched := kinds.Fetch(t.Context(), Request{Key: key})
	_, latest := kinds.Latest(t.Context(), nil, key)
	vr := &v1alpha1.VidraResource{}
	vr.Spec.Destination.Namespace = key.Namespace
	vr.Spec.Kustomize = &v1alpha1.Kustomize{SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: key.Kind, Name: key.Name, Optional: true}}}
	_, _, _, variables := ReadVariables(t.Context(), fake.NewSimpleDynamicClient(runtime.NewScheme()), vr)
	for _, err := range []error{resource, fetched, latest, variables} {
		require.ErrorContains(t, err, "the kind S3Object cannot be read here: this command, or this version of Vidra, does not know it")
		require.False(t, IsEmpty(err), "the source may have objects, which another VidraResource must not delete")
	}
	require.False(t, kinds.Serves(t.Context(), key.Kind))
}
