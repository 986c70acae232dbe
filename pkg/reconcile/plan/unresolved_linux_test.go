package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	measured "github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
)

// TestManyUnresolved has a manifest whose objects wait for their kind. The work grows with their number and not with its square.
func TestManyUnresolved(t *testing.T) {
	each := func(n int) time.Duration {
		s := &State{}
		var unresolved []desired.Unresolved
		for i := range n {
			id := fixture.IDOf(fixture.ConfigMapKind, "shop", fmt.Sprintf("page-%05d", i))
			unresolved = append(unresolved, desired.Unresolved{ID: id})
			s.Objects.Track(id).Entry = fixture.InState(v1alpha1.ObjectPending, "1")
		}
		return measured.ProcessorTime(t, func() {
			s.Objects.SetUnresolved(unresolved)
			s.SetAccount("", 1)
			require.Empty(t, s.Objects.Leftovers())
		}) / time.Duration(n)
	}
	few, many := each(1000), each(8000)
	t.Logf("%s for each of 1000 objects, %s for each of 8000", few, many)
	require.Less(t, many, 4*few+time.Microsecond)
}
