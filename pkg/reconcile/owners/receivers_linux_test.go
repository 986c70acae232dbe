package owners

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	measured "github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// TestManyReceivers bounds the processor time of the question which other VidraResources have the objects of a large removal, which asks it again every few
// seconds.
func TestManyReceivers(t *testing.T) {
	const vidraResources, objects = 2_000, 4_000
	var all []*v1alpha1.VidraResource
	n := &Named{Sources: &source.Watches{}, Preview: func(context.Context) ([]*v1alpha1.VidraResource, error) { return all, nil }}
	page := func(i int) object.Identity {
		return fixture.IDOf(fixture.ConfigMapKind, "shop", fmt.Sprintf("page-%d", i))
	}
	for i := range vidraResources {
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("shop-%d", i), UID: types.UID(fmt.Sprint(i)), Generation: 1}}
		n.Note(vr, nil, []object.Identity{page(i), page(-1 - i)})
		all = append(all, vr)
	}
	var ids []object.Identity
	for i := range objects {
		ids = append(ids, page(i))
	}
	took := measured.ProcessorTime(t, func() {
		receivers, err := n.Receivers(t.Context(), "web", "", ids, time.Now())
		require.NoError(t, err)
		require.Len(t, receivers, vidraResources)
	})
	t.Log(took)
	require.Less(t, took, 100*time.Millisecond)
}
