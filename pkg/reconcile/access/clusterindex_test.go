package access

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestClusterIsForgottenWithItsLastOwner: a cluster that is being forgotten has no owner, and
// keeps nobody else waiting.
func TestClusterIsForgottenWithItsLastOwner(t *testing.T) {
	t.Parallel()
	const far, away = "https://far:6443", "https://away:6443"
	a, b := trigger.Owner{Name: "a"}, trigger.Owner{Name: "b"}
	var x ClusterIndex
	x.Remove(a, func(string) { t.Error("it has no cluster") })
	require.True(t, x.set(a, far))
	require.True(t, x.set(b, far))
	require.ElementsMatch(t, []trigger.Owner{a, b}, x.Owners(far))
	x.Remove(a, func(string) { t.Error("another one is there") })

	forgotten := ""
	x.Remove(b, func(server string) {
		forgotten = server
		require.False(t, x.set(a, far), "what the owner got would be forgotten, too")
		require.True(t, x.set(a, away), "the others do not wait")
		require.Equal(t, away, x.Of(a))
	})
	require.Equal(t, far, forgotten)
	require.True(t, x.set(b, far), "it is another one from now on")
}
