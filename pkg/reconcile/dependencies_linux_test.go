package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// namedReader is a cache of VidraResources by name.
type namedReader struct {
	client.Reader

	all map[string]*v1alpha1.VidraResource
}

// Get implements client.Reader.
func (r namedReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	vr, is := into.(*v1alpha1.VidraResource)
	if !is || r.all[key.Name] == nil {
		return fmt.Errorf("VidraResource %s is unknown", key.Name)
	}
	*vr = *r.all[key.Name]
	return nil
}

// TestManyDependencies bounds the processor time of the search in as many VidraResources as are searched, with as many dependencies and as long names as the API
// server accepts: each reconcile of one that waits makes it.
func TestManyDependencies(t *testing.T) {
	const each = 32
	name := func(i int) string {
		number := fmt.Sprintf("%04d", i)
		return strings.Repeat("a", validation.DNS1123SubdomainMaxLength-len(number)) + number
	}
	for title, cycle := range map[string]bool{"chain": false, "cycle": true} {
		t.Run(title, func(t *testing.T) {
			cache := namedReader{all: map[string]*v1alpha1.VidraResource{}}
			for i := range maxDependencies + 1 {
				vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
				for next := i + 1; next <= min(i+each, maxDependencies); next++ {
					vr.Spec.DependsOn = append(vr.Spec.DependsOn, v1alpha1.Dependency{Name: name(next)})
				}
				if cycle {
					vr.Spec.DependsOn = append([]v1alpha1.Dependency{{Name: name(max(0, i-1))}}, vr.Spec.DependsOn...)
				}
				cache.all[vr.Name] = vr
			}
			took := fixture.ProcessorTime(t, func() {
				all, path := reach(t.Context(), &owners.Lookup{Cache: cache}, cache.all[name(0)])
				require.Len(t, all, maxDependencies)
				require.Equal(t, cycle, path != "")
			})
			t.Log(took)
			require.Less(t, took, 100*time.Millisecond)
		})
	}
}
