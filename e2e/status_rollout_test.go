package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestStatusWhileManyObjectsRollOut: while many objects are applied, some of which fail and some of which are
// edited meanwhile, the status is written no more often than seconds pass, and an object adds a bounded number of bytes to it. With
// VIDRA_LONG, the VidraResource has as many objects as it may have.
func TestStatusWhileManyObjectsRollOut(t *testing.T) {
	t.Parallel()
	const (
		perPart, refusedEach = 500, 100
		// entryBytes is the most that an object may add: 5,000 of them, and what else a status has,
		// have to fit in the 1.5 MiB that etcd accepts.
		entryBytes, otherBytes = 250, 128 << 10
	)
	many := suite.Size(600, 5_000)
	ns := newNamespace(t)
	var parts []v1alpha1.ManifestSource
	for first := 0; first < many; first += perPart {
		var documents []string
		for i := first; i < min(first+perPart, many); i++ {
			document := configMap(fmt.Sprintf("page-%04d", i), "hello")
			if i%refusedEach == refusedEach-1 {
				document += "  not/a/key: refused by the API server\n"
			}
			documents = append(documents, document)
		}
		part := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("part-%d", len(parts))},
			Data:       map[string]string{"objects.yaml": manifests(documents...)},
		}
		require.NoError(t, admin.Create(t.Context(), part))
		parts = append(parts, partIn("ConfigMap", part.Name, "objects.yaml"))
	}

	mark, began := auditMark(t), time.Now()
	newVidraResource(t, ns, "", fromParts(parts...))
	edited := make(chan int)
	ctx, done := context.WithCancel(t.Context())
	go func() { edited <- editAtRandom(ctx, ns, many) }()
	refused := many / refusedEach
	suite.AwaitFor(t, 2*time.Minute, func(c *assert.CollectT) {
		require.Equal(c, many-refused, applied(c, ns), "%v", getVidraResource(c, ns).Status.Conditions)
	}, "all objects are applied")
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "not/a/key")
	sent := operatorSince(t, mark).Accepted().Only(verbIs("patch")).On("vidraresources", "", ns).Only(
		func(r suite.Request) bool { return r.Subresource == "status" })
	took := time.Since(began)
	done()
	require.Positive(t, <-edited)

	require.LessOrEqual(t, len(sent), int(took.Seconds())+1, "writes of the status in %s: %s", took, sent)
	v := getVidraResource(t, ns)
	require.Len(t, v.Status.ManagedResources, many)
	encoded, err := json.Marshal(v.Status)
	require.NoError(t, err)
	require.LessOrEqual(t, len(encoded), many*entryBytes+otherBytes)
	t.Logf("%d objects, %d of them refused: %d writes of the status in %s, at last of %d bytes, %d for each object",
		many, refused, len(sent), took.Round(time.Millisecond), len(encoded), len(encoded)/many)
}

// editAtRandom edits random ones of the objects that are there, twenty times a second, until ctx ends. It returns
// how many edits it made.
func editAtRandom(ctx context.Context, ns string, many int) int {
	made := 0
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return made
		case <-tick.C:
		}
		page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: fmt.Sprintf("page-%04d", rand.IntN(many)), //nolint:gosec // no secret
		}}
		if mergePatch(page, `{"data":{"greeting":"changed"}}`) == nil {
			made++
		}
	}
}
