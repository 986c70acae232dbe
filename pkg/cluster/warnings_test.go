package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// recordedWarnings are the texts of warnings.
type recordedWarnings []string

func (r *recordedWarnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*r = append(*r, text)
}

// TestWarningsOfContents: a LIST of the contents of a namespace, which has all kinds, warns no user of deprecated ones.
func TestWarningsOfContents(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "v1 ConfigMap is deprecated in v1.33+"`)
		_, _ = w.Write([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[]}`))
	}))
	defer server.Close()
	warnings := &recordedWarnings{}
	c, err := New(&rest.Config{Host: server.URL, WarningHandlerWithContext: warnings})
	require.NoError(t, err)
	defer c.http.CloseIdleConnections()
	require.NoError(t, c.VisitKind(t.Context(), configMaps, "ConfigMap", func(Content) {}))
	require.Empty(t, *warnings)
	_, err = c.Dynamic().Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, *warnings, 1, "a manifest may have the kind")
}
