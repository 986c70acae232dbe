package object

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSignatureOfShards: the labels of shards are marks, but not of the owner, and an object without one is not watched.
func TestSignatureOfShards(t *testing.T) {
	t.Parallel()
	plain, sharded := SignatureOf("", "web"), SignatureOf("", "web", "shard/one", "shard/two")
	require.False(t, plain.Sharded())
	require.True(t, sharded.Sharded())
	u := &unstructured.Unstructured{Object: map[string]any{}}
	require.Equal(t, "managed-by=vidra", sharded.MissingLabel(u))
	sharded.MarkOwner(u)
	require.Equal(t, map[string]string{"managed-by": "vidra"}, u.GetLabels())
	require.Empty(t, plain.MissingLabel(u))
	require.Equal(t, "shard/one", sharded.MissingLabel(u))
	sharded.Mark(u)
	require.Equal(t, map[string]string{"managed-by": "vidra", "shard/one": "", "shard/two": ""}, u.GetLabels())
	require.Equal(t, map[string]string{"owner.vidraresource.infrahub.operators.com/web": "web"}, u.GetAnnotations())
	require.Empty(t, sharded.MissingLabel(u))
}
