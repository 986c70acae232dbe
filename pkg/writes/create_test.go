package writes

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/parts"
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

// TestPlace: a stored part with the same text is used again, unless the garbage collector deletes it with a former VidraResource of the name.
func TestPlace(t *testing.T) {
	t.Parallel()
	owner := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{partOwner(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid}})}
	}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		uid    types.UID
		want   bool
	}{
		"new":                  {nil, "", true},
		"own":                  {owner("u1"), "u1", true},
		"not owned yet":        {nil, "u1", true},
		"of a former one":      {owner("u1"), "u2", false},
		"of a former one, new": {owner("u1"), "", false},
	} {
		for _, sensitive := range []bool{true, false} {
			part := parts.Part{Text: "kind: Role", Sensitive: sensitive}
			stored := pieceOf(part, "shop")
			stored.key.Name, stored.whole, stored.owners = nameOfPart("web", stored.key.Kind, part.Text), true, tc.owners
			p := &Prepared{}
			p.place(Creation{Name: "web", PartsNamespace: "shop"}, []parts.Part{part}, []*storedPart{stored}, nil, tc.uid)
			require.Equal(t, tc.want, p.parts[0] == stored, "%s, sensitive %t", name, sensitive)
			require.Equal(t, tc.want, p.parts[0].key == stored.key, "%s, sensitive %t", name, sensitive)
		}
	}
}
