package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestF15EditsWhileTheWatchStarts edits and deletes objects as soon as they exist,
// while the watch of their kind, which no VidraResource needed before, is starting. Nothing of
// that is lost.
func TestF15EditsWhileTheWatchStarts(t *testing.T) {
	t.Parallel()
	const rounds, each = 4, 6
	for range rounds {
		ns := newNamespace(t)
		crd, manifest := newKind(t)
		require.NoError(t, admin.Create(t.Context(), crd))
		var documents []string
		var things []*unstructured.Unstructured
		for i := range each {
			name := fmt.Sprintf("thing-%d", i)
			thing := thingIn(crd, ns)
			thing.SetName(name)
			things = append(things, thing)
			documents = append(documents, strings.Replace(manifest, "name: thing", "name: "+name, 1))
		}
		newVidraResource(t, ns, manifests(documents...))
		for i, thing := range things {
			await(t, func(c *assert.CollectT) { // it exists for the first time
				if i%2 == 0 {
					require.NoError(c, admin.Delete(context.Background(), thing.DeepCopy()))
				} else {
					require.NoError(c, mergePatch(thing, `{"spec":{"size":7}}`))
				}
			})
		}
		awaitReady(t, ns)
		awaitInOrder(t, ns, things...)
	}
}
