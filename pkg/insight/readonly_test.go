package insight

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestReadOnly: a Client sends nothing that writes, whichever of its clients is asked.
func TestReadOnly(t *testing.T) {
	tests := map[string]struct {
		reason, method, url string
		want                bool
	}{
		"get":       {reason: "a read", method: http.MethodGet, url: "/api/v1/pods", want: true},
		"watch":     {reason: "a read", method: http.MethodGet, url: "/api/v1/pods?watch=true", want: true},
		"dry run":   {reason: "nothing is stored", method: http.MethodPatch, url: "/api/v1/pods/a?dryRun=All&force=true", want: true},
		"review":    {reason: "nothing is stored", method: http.MethodPost, url: "/apis/authorization.k8s.io/v1/subjectaccessreviews", want: true},
		"patch":     {reason: "a write", method: http.MethodPatch, url: "/api/v1/pods/a"},
		"no value":  {reason: "the API server takes that as no dry run", method: http.MethodPatch, url: "/api/v1/pods/a?dryRun="},
		"two":       {reason: "only All is a dry run", method: http.MethodPatch, url: "/api/v1/pods/a?dryRun=All&dryRun=None"},
		"create":    {reason: "no question creates an object", method: http.MethodPost, url: "/api/v1/pods?dryRun=All"},
		"same name": {reason: "a resource of another group", method: http.MethodPost, url: "/apis/example.com/v1/subjectaccessreviews"},
		"exec":      {reason: "it runs a command", method: http.MethodPost, url: "/api/v1/namespaces/a/pods/b/exec"},
		"delete":    {reason: "a write", method: http.MethodDelete, url: "/api/v1/pods/a?dryRun=All"},
		"update":    {reason: "a write", method: http.MethodPut, url: "/api/v1/pods/a?dryRun=All"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, readsOnly(httptest.NewRequest(tt.method, tt.url, nil)), tt.reason)
		})
	}
	c, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Options{})
	require.NoError(t, err)
	_, err = c.dynamic.Resource(v1alpha1.Resource).Patch(t.Context(), "shop", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	require.ErrorIs(t, err, ErrWrite)
	require.ErrorIs(t, c.events.Events("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}), ErrWrite)
}
