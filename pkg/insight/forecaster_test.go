package insight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/dryrun"
)

// TestForecastParsesOnce: the work for the places of contested fields grows with their number, and not with its square.
func TestForecastParsesOnce(t *testing.T) {
	work := func(objects int) float64 {
		vr, found, text := &v1alpha1.VidraResource{}, &Forecast{}, &strings.Builder{}
		for i := range objects {
			_, _ = fmt.Fprintf(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d, namespace: shop}\ndata:\n  k: v\n", i)
			found.Fields = append(found.Fields, ContestedField{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("a", i), tokens: []string{"data", "k"}})
		}
		vr.Spec.Manifest = text.String()
		f := &forecaster{differ: &differ{runner: &dryrun.Runner{VR: vr}}}
		return testing.AllocsPerRun(1, func() {
			require.NoError(t, f.locate(t.Context(), found))
			require.Contains(t, found.Fields[objects-1].Place, fmt.Sprintf("line %d", 6*objects))
		})
	}
	require.Less(t, work(80), 6*work(20))
}
