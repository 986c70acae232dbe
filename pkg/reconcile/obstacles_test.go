package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// delays is a work queue that stores the delays.
type delays struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	of []time.Duration
}

func (d *delays) AddWithOpts(o priorityqueue.AddOpts, _ ...reconcile.Request) {
	d.of = append(d.of, o.After)
}

// TestObstacleChangedBySomebody: a user who creates and deletes an obstacle without end has few attempts made at once.
func TestObstacleChangedBySomebody(t *testing.T) {
	r, queue, owner := &Reconciler{Watching: Watching{Trigger: trigger.NewFactory(trigger.NewIndex())}}, &delays{}, trigger.Owner{Name: "page"}
	require.NoError(t, r.Watching.Trigger.Source().Start(t.Context(), queue))
	r.Watching.obstacles.Changed, r.Watching.obstacles.Ended = func(metawatch.Key, bool) {}, func(metawatch.Key) {}
	key := metawatch.Key{GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "shop", Name: "mine"}
	r.Watching.obstacles.Sync(owner, "", metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), slices.Values([]metawatch.Key{key}))
	t.Cleanup(func() { r.Watching.obstacles.Release(owner) })

	r.obstacleChanged(key, true)
	require.Equal(t, []time.Duration{obstacleChangeDelay}, queue.of, "before its first reconcile")
	queue.of = nil
	r.states.renew(owner, &v1alpha1.VidraResource{}, seal.Keys{})
	r.obstacleChanged(key, false)
	for range obstacleBurst + 2 {
		r.obstacleChanged(key, true)
	}
	want := append([]time.Duration{obstacleChangeDelay}, slices.Repeat([]time.Duration{obstacleDelay}, obstacleBurst)...)
	require.Equal(t, append(want, obstacleChangeDelay, obstacleChangeDelay), queue.of)
}
