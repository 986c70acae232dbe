package writes

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// TestRefusedApplyQuotesNothing: the answer of a policy or webhook may quote a value of the former manifest, which the new one lacks.
func TestRefusedApplyQuotesNothing(t *testing.T) {
	const start = `{"apiVersion":"infrahub.operators.com/v1alpha1","kind":"VidraResource","metadata":{"name":"a"},"spec":{"manifest":`
	for name, tc := range map[string]struct {
		status int
		live   string
		shown  bool
	}{
		"New":     {404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"a","group":"infrahub.operators.com","kind":"vidraresources"}}`, true},
		"Plain":   {200, start + `"kind: ConfigMap"}}`, true},
		"Secret":  {200, start + `"kind: Secret"}}`, false},
		"Unknown": {500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				status, body := tc.status, tc.live
				if r.Method == http.MethodPatch {
					status, body = 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"webhook denied the request: hunter2"}`
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL}, insight.Options{})
			require.NoError(t, err)
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"manifest": "kind: ConfigMap"},
			}}
			_, err = c.applyVidraResource(t.Context(), u)
			if tc.shown {
				require.ErrorContains(t, err, "hunter2")
				return
			}
			require.ErrorContains(t, err, "its message is withheld")
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
