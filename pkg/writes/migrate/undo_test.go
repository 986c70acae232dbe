package migrate

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// TestDeleteAlone has another client write spec.deletionPolicy between the write of an undo and its deletion: the VidraResource that the undo deletes
// leaves its objects.
func TestDeleteAlone(t *testing.T) {
	vr := &v1alpha1.VidraResource{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind}}
	vr.Name, vr.UID, vr.ResourceVersion = "web", "uid", "1"
	var deleted []v1alpha1.DeletionPolicy
	version, writes := "1", 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method {
		case http.MethodPatch:
			writes++
			version += "1"
			vr.Spec.DeletionPolicy, vr.ResourceVersion = v1alpha1.DeletionOrphan, version
			_ = json.NewEncoder(w).Encode(vr)
			if writes == 1 {
				version += "2"
				vr.Spec.DeletionPolicy = v1alpha1.DeletionDelete
			}
		case http.MethodDelete:
			var o metav1.DeleteOptions
			_ = json.NewDecoder(r.Body).Decode(&o)
			if asked := o.Preconditions.ResourceVersion; asked != nil && *asked != version {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict})
				return
			}
			deleted = append(deleted, vr.Spec.DeletionPolicy)
			_ = json.NewEncoder(w).Encode(vr)
		default:
			t.Error(strings.TrimSpace(r.Method + " " + r.URL.Path))
		}
	}))
	defer api.Close()
	c, err := New(&rest.Config{Host: api.URL}, insight.Options{})
	require.NoError(t, err)
	require.NoError(t, c.deleteAlone(t.Context(), vr.DeepCopy()))
	require.Equal(t, []v1alpha1.DeletionPolicy{v1alpha1.DeletionOrphan}, deleted)
}
