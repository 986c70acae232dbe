package migrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/export"
)

// TestDocumentsParseOnce: the work for the documents of a manifest grows with their number, and not with its square.
func TestDocumentsParseOnce(t *testing.T) {
	c := &Client{objects: &export.Objects{}}
	work := func(objects int) float64 {
		vr, text := &v1alpha1.VidraResource{}, &strings.Builder{}
		for i := range objects {
			_, _ = fmt.Fprintf(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d, namespace: shop}\n", i)
			vr.Status.ManagedResources = append(vr.Status.ManagedResources, v1alpha1.ManagedResourceStatus{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("a", i)})
		}
		vr.Spec.Manifest = text.String()
		return testing.AllocsPerRun(1, func() {
			all, err := c.documents(t.Context(), vr)
			require.NoError(t, err)
			require.Len(t, all, objects)
		})
	}
	require.Less(t, work(80), 6*work(20))
}
