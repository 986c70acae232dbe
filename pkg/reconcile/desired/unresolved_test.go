package desired

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestMayBe: the manifest may leave out the namespace of an object whose kind is unserved, or name one of a cluster-scoped object.
func TestMayBe(t *testing.T) {
	t.Parallel()
	of := func(namespace, name string) object.Identity {
		return fixture.IDOf(fixture.ConfigMapKind, namespace, name)
	}
	waits := MayBe([]Unresolved{{ID: of("", "bare")}, {ID: of("shop", "named")}})
	for id, want := range map[object.Identity]bool{
		of("", "bare"):      true,
		of("shop", "bare"):  true,
		of("", "named"):     true,
		of("shop", "named"): true,
		of("web", "named"):  false,
		of("shop", "other"): false,
	} {
		require.Equal(t, want, waits(id), id)
	}
}
