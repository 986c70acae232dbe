package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestMappingInAnyVersion asks for a kind in v1 of its group. What is decided is only
// whether an answer means that no version has it.
func TestMappingInAnyVersion(t *testing.T) {
	const group = "example.com"
	groupOf := func(versions ...string) any {
		g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: group}
		for _, version := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version})
		}
		return g
	}
	listOf := func(kinds ...string) any {
		l := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}}
		for _, kind := range kinds {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: kind + "s", Kind: kind, Namespaced: true})
		}
		return l
	}
	tests := map[string]struct {
		reason string
		// served are the discovery documents below /apis/example.com; a number is the code
		// of an error.
		served map[string]any
		// want is the version that is found; none if it is empty, which is known if missing.
		want    string
		missing bool
		asked   int
	}{
		"In its version":      {"No other is asked for.", map[string]any{"/v1": listOf("Thing")}, "v1", false, 1},
		"In another":          {"It is the same there.", map[string]any{"": groupOf("v2", "v1"), "/v2": listOf("Thing")}, "v2", false, 3},
		"In the last":         {"All are looked at.", map[string]any{"": groupOf("v3", "v2"), "/v3": listOf("Other"), "/v2": listOf("Thing")}, "v2", false, 4},
		"In none":             {"The group has other kinds.", map[string]any{"": groupOf("v2"), "/v2": listOf("Other")}, "", true, 3},
		"No group":            {"It is not served.", map[string]any{}, "", true, 2},
		"Its version fails":   {"It may have it.", map[string]any{"/v1": http.StatusServiceUnavailable, "": groupOf("v1", "v2"), "/v2": listOf("Thing")}, "", false, 1},
		"The group fails":     {"Another version may have it.", map[string]any{"": http.StatusServiceUnavailable}, "", false, 2},
		"Another one fails":   {"That may have it.", map[string]any{"": groupOf("v2"), "/v2": http.StatusServiceUnavailable}, "", false, 3},
		"Nothing may be read": {"Nothing is known.", map[string]any{"": http.StatusForbidden}, "", false, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			asked := map[string]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked[r.URL.Path] = true
				document, found := tt.served[r.URL.Path[len("/apis/"+group):]]
				code, failing := document.(int)
				switch {
				case !found:
					code = http.StatusNotFound
				case !failing:
					code = http.StatusOK
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				if code == http.StatusOK {
					assert.NoError(t, json.NewEncoder(w).Encode(document))
				}
			}))
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL})
			require.NoError(t, err)
			defer c.http.CloseIdleConnections()
			mapping, err := c.MappingInAnyVersion(t.Context(), schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"})
			require.Len(t, asked, tt.asked, "%v", asked)
			if tt.want != "" {
				require.NoError(t, err, tt.reason)
				require.Equal(t, Mapping{GVR: schema.GroupVersionResource{Group: group, Version: tt.want, Resource: "Things"}, Namespaced: true}, mapping)
				return
			}
			require.Error(t, err)
			require.Equal(t, tt.missing, meta.IsNoMatchError(err), "%s: %v", tt.reason, err)
		})
	}
}
