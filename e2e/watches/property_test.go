package watches

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const (
	// stepsShort or stepsLong are taken in all, and checkpointEvery between two checkpoints.
	stepsShort, stepsLong, checkpointEvery = 500, 10_000, 250
	// warmUpSteps show what stays of the first use, and customKinds come and go.
	warmUpSteps, customKinds = 250, 10
	// agreement is how long the registry may take to agree with the model.
	agreement = 8 * time.Second
)

// resident is an owner that never leaves the watches of half of the kinds.
var resident = owner("resident")

// TestRandomSteps does at random whatever can happen to a registry, and compares it
// with a simple model of what must be true: after each step who needs which watch,
// and at each checkpoint everything there is to see. All of them leave what the first ones do.
// VIDRA_SEED repeats the steps of an earlier run. It is not parallel: it measures.
func TestRandomSteps(t *testing.T) {
	seed := suite.Seed(t)
	before := walkAtRandom(t, "warm-up", seed, warmUpSteps)
	after := walkAtRandom(t, "steps", seed+1, suite.Size(stepsShort, stepsLong))
	t.Logf("goroutines %d -> %d, heap %d -> %d KiB", before.goroutines, after.goroutines, before.heap>>10, after.heap>>10)
	require.LessOrEqual(t, after.goroutines, before.goroutines+2)
	require.Less(t, after.heap, before.heap+512<<10, "in long tests less than 60 bytes of each step")
}

// walkAtRandom takes some steps with a registry of their own, and returns what
// that uses when no owner needs anything any more.
func walkAtRandom(t *testing.T, name string, seed uint64, steps int) (left usage) {
	t.Helper()
	require.True(t, t.Run(name, func(t *testing.T) {
		w := newWalk(t, seed)
		start := time.Now()
		for step := range steps {
			w.step(t)
			require.Empty(t, w.wrong(), "step %d", step)
			if (step+1)%checkpointEvery == 0 {
				w.checkpoint(t)
			}
		}
		t.Logf("%d steps in %s started %d watches", steps, time.Since(start).Round(time.Second), w.started)
		t.Logf("at %d checkpoints, the registry agreed with the model after %s on average, and %s at most", w.checkpoints, (w.waited / time.Duration(w.checkpoints)).Round(time.Millisecond), w.slowest.Round(time.Millisecond))
		for o := range w.needs {
			w.release(o)
		}
		await(t, func(c *assert.CollectT) { assert.Empty(c, w.Watches()) })
		w.Close()
		w.Proxy, w.handlers, w.kinds = nil, nil, nil // the record of requests grows
		left = usageAtRest(t, w.lab)
	}))
	return left
}

// walk is a registry with the model of what must be true of it.
type walk struct {
	*lab
	random *rand.Rand
	// client changes objects. It asks no discovery for their kinds.
	client dynamic.Interface
	kinds  []*walkedKind
	owners []watchregistry.Owner
	// needs holds the watches that each owner needs, with the last status that it
	// got for asking, and waits the watches whose kinds it waits for.
	needs map[watchregistry.Owner]map[watchregistry.Key]view
	waits map[watchregistry.Owner]map[watchregistry.Key]bool
	// handlers hold the resourceVersions that the handler of each watch knows, by name.
	handlers    map[schema.GroupVersionResource]map[string]string
	checkpoints int
	// started, waited and slowest are for the log.
	started         int
	waited, slowest time.Duration
}

// newWalk starts a registry for which there is nothing to do.
func newWalk(t *testing.T, seed uint64) *walk {
	t.Helper()
	w := &walk{
		lab:      &lab{label: unique(t), arrived: map[string][]schema.GroupVersionKind{}},
		random:   rand.New(rand.NewPCG(seed, 0)),
		needs:    map[watchregistry.Owner]map[watchregistry.Key]view{},
		waits:    map[watchregistry.Owner]map[watchregistry.Key]bool{},
		handlers: map[schema.GroupVersionResource]map[string]string{},
	}
	for i := range 8 {
		w.owners = append(w.owners, owner(fmt.Sprint(i)))
	}
	for range customKinds {
		crd := testenv.CRD(unique(t))
		w.kinds = append(w.kinds, &walkedKind{key: keyOf(crd), gvk: kindOf(crd), crd: crd, last: -2})
		t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	}
	w.kinds = append(w.kinds,
		&walkedKind{key: configMaps, gvk: configMaps.GVR.GroupVersion().WithKind("ConfigMap"), exists: true},
		&walkedKind{key: secrets, gvk: secrets.GVR.GroupVersion().WithKind("Secret"), exists: true})
	for _, k := range w.kinds {
		k.objects = map[string]*unstructured.Unstructured{}
		k.asked, k.answered = map[watchregistry.Owner]int{}, map[watchregistry.Owner]int{}
	}
	w.begin(t)
	w.acquire(t, resident, w.keys()[customKinds/2:], w.Sync)
	return w
}

// begin starts the registry of a walk behind its proxy.
func (w *walk) begin(t *testing.T) {
	t.Helper()
	w.Registry = watchregistry.New(watchregistry.Options{
		LabelSelector: "test=" + w.label,
		Linger:        20 * time.Millisecond,
		HandlerFor:    w.handlerFor,
		TransformFor:  func(string, schema.GroupVersionResource) cache.TransformFunc { return metadataOnly },
		OnWatch: func(owner watchregistry.Owner, key watchregistry.Key, status watchregistry.Status) {
			w.note(func() { w.told = append(w.told, told{owner.Name, key, status}) })
		},
		OnKind: func(owner watchregistry.Owner, kind watchregistry.Kind) {
			w.note(func() { w.arrived[owner.Name] = append(w.arrived[owner.Name], kind.GVK) })
		},
	})
	var err error
	w.client, err = dynamic.NewForConfig(env.Config)
	require.NoError(t, err)
	w.Proxy, err = faultproxy.Start(env.Config)
	require.NoError(t, err)
	destination, err := cluster.New(w.Config())
	require.NoError(t, err)
	w.AddCluster("", destination)
	t.Cleanup(func() {
		assert.Empty(t, w.Audit(), "the registry contradicts itself")
		w.Stop()
		if w.Proxy != nil {
			w.Close()
		}
		for _, key := range []watchregistry.Key{configMaps, secrets} {
			_ = w.client.Resource(key.GVR).Namespace("default").DeleteCollection(context.Background(),
				metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test=" + w.label})
		}
	})
}

// handlerFor makes a handler that notes what it knows.
func (w *walk) handlerFor(_ string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
	known := map[string]string{}
	see := func(obj any) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			w.note(func() { known[m.Name] = m.ResourceVersion })
		}
	}
	w.note(func() { w.handlers[gvr], w.started = known, w.started+1 })
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				w.note(func() { delete(known, name.Name) })
			}
		},
	}
}

// keys are the watches of all kinds.
func (w *walk) keys() (keys []watchregistry.Key) {
	for _, k := range w.kinds {
		keys = append(keys, k.key)
	}
	return keys
}

// step takes a step. What it draws depends on nothing but the seed.
func (w *walk) step(t *testing.T) {
	t.Helper()
	n, some := w.random.IntN(1000), w.keys()
	w.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:w.random.IntN(5)]
	o, k := w.owners[w.random.IntN(len(w.owners))], w.kinds[w.random.IntN(len(w.kinds))]
	often := w.kinds[min(w.random.IntN(customKinds), w.random.IntN(customKinds))] // and others rarely
	name, what := fmt.Sprintf("%s-%d", w.label, w.random.IntN(3)), w.random.IntN(3)
	switch {
	case n < 450:
		w.acquire(t, o, some, w.Sync)
		maps.DeleteFunc(w.needs[o], func(key watchregistry.Key, _ view) bool { return !slices.Contains(some, key) })
	case n < 650:
		w.acquire(t, o, some, w.Ensure)
	case n < 800:
		w.release(o)
	case n < 905:
		w.await(o, some)
	case n < 945:
		if k.exists {
			objects := w.client.Resource(k.key.GVR).Namespace("default")
			k.change(t, objects, w.label, name, what)
		}
	case n < 970:
		often.last = w.checkpoints
		if often.exists && often.forbidden == nil && what == 0 {
			w.forbidOrPermit(t, often) // and no watch sees its objects go
		}
		often.comeOrGo(t)
	case n < 985:
		w.forbidOrPermit(t, k)
	case n < 998:
		w.CutStreams(resource(k.key, ""))
	default:
		w.CutStreams(faultproxy.Match{})
	}
}

// acquire has an owner ask for watches.
func (w *walk) acquire(
	t *testing.T, o watchregistry.Owner, some []watchregistry.Key,
	call func(watchregistry.Owner, []watchregistry.Key) map[watchregistry.Key]watchregistry.Status,
) {
	t.Helper()
	if w.needs[o] == nil {
		w.needs[o] = map[watchregistry.Key]view{}
	}
	for _, key := range some {
		if _, had := w.needs[o][key]; !had {
			asked := watchregistry.Status{Since: time.Now()} // see repeated
			w.note(func() { w.told = append(w.told, told{o.Name, key, asked}) })
		}
	}
	statuses := call(o, some)
	require.Len(t, statuses, len(some))
	for key, status := range statuses {
		w.needs[o][key] = viewOf(status)
	}
}

// release has an owner need and await nothing.
func (w *walk) release(o watchregistry.Owner) {
	w.Release(o)
	delete(w.needs, o)
	delete(w.waits, o)
}

// await has an owner wait for the kinds of some watches.
func (w *walk) await(o watchregistry.Owner, some []watchregistry.Key) {
	w.waits[o] = map[watchregistry.Key]bool{}
	var kinds []watchregistry.Kind
	for _, k := range w.kinds {
		if slices.Contains(some, k.key) {
			kinds, w.waits[o][k.key] = append(kinds, watchregistry.Kind{GVK: k.gvk}), true
			k.asked[o]++
		}
	}
	w.Await(o, kinds)
}

// forbidOrPermit has a kind be forbidden, or permitted. Who permits it asks for it
// again, which wakes the watch: by itself it may wait for minutes.
func (w *walk) forbidOrPermit(t *testing.T, k *walkedKind) {
	t.Helper()
	if k.forbidden == nil {
		refusal := apierrors.NewForbidden(k.key.GVR.GroupResource(), "", nil)
		k.forbidden = w.Inject(resource(k.key, ""), faultproxy.Status(refusal))
		w.CutStreams(resource(k.key, ""))
		return
	}
	k.forbidden.Remove()
	k.forbidden = nil
	if len(w.needing(k.key)) > 0 {
		w.acquire(t, owner("who permits it"), []watchregistry.Key{k.key}, w.Ensure)
		w.release(owner("who permits it"))
	}
}

// needing are the owners that need a watch, in order.
func (w *walk) needing(key watchregistry.Key) []watchregistry.Owner {
	var needing []watchregistry.Owner
	for o, keys := range w.needs {
		if _, needs := keys[key]; needs {
			needing = append(needing, o)
		}
	}
	slices.SortFunc(needing, func(a, b watchregistry.Owner) int { return strings.Compare(a.Name, b.Name) })
	return needing
}

// wrong is what must never be, not even between two steps.
func (w *walk) wrong() []string {
	wrong, watches := w.Audit(), map[watchregistry.Key]watchregistry.Watch{}
	for _, watch := range w.Watches() {
		watches[watch.Key] = watch
	}
	for _, k := range w.kinds {
		watch, watched := watches[k.key]
		needing := w.needing(k.key)
		if !slices.Equal(needing, watch.Owners) {
			wrong = append(wrong, fmt.Sprintf("%s is needed by %s and has the owners %s", k.key, needing, watch.Owners))
		}
		if watched && (len(needing) == 0) != (watch.State == watchregistry.Draining) {
			wrong = append(wrong, fmt.Sprintf("%s is needed by %s and is %s", k.key, needing, watch.State))
		}
	}
	return wrong
}

// checkpoint waits until the registry agrees with the model.
func (w *walk) checkpoint(t *testing.T) {
	t.Helper()
	start := time.Now()
	require.EventuallyWithT(t, w.agrees, agreement, poll, "checkpoint %d", w.checkpoints)
	took := time.Since(start)
	w.waited, w.slowest = w.waited+took, max(w.slowest, took)

	var reports []told
	arrived := map[string][]schema.GroupVersionKind{}
	w.note(func() { reports, arrived, w.told, w.arrived = w.told, w.arrived, nil, arrived })
	require.Empty(t, repeated(reports), "an owner is told once of each change")
	for _, watch := range w.Watches() {
		for _, o := range watch.Owners {
			w.needs[o][watch.Key] = viewOf(watch.Status)
		}
	}
	var missing []watchregistry.Key
	for _, k := range w.kinds {
		if k.exists {
			k.last = w.checkpoints
		} else {
			missing = append(missing, k.key)
		}
		for _, o := range w.owners {
			k.requireAsked(t, o, arrived[o.Name], w.checkpoints)
		}
	}
	for _, o := range w.owners { // what has come is waited for no longer
		w.await(o, slices.DeleteFunc(slices.Clone(missing), func(key watchregistry.Key) bool { return !w.waits[o][key] }))
	}
	w.checkpoints++
}

// agrees says whether the registry agrees with the model.
func (w *walk) agrees(c *assert.CollectT) {
	watches := map[watchregistry.Key]watchregistry.Watch{}
	for _, watch := range w.Watches() {
		watches[watch.Key] = watch
	}
	for _, k := range w.kinds {
		if k.forbidden != nil {
			w.CutStreams(resource(k.key, "")) // what was asked for before and answered after
		}
		watch, watched := watches[k.key]
		assert.Equal(c, len(w.needing(k.key)) > 0, watched, "whether %s is watched", k.key)
		if watched && assert.Contains(c, k.expected(), viewOf(watch.Status), "%s: %s", k.key, watch.Message) {
			var known map[string]string
			w.note(func() { known = maps.Clone(w.handlers[k.key.GVR]) })
			k.agrees(c, w.lab, watch, known)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for o, needs := range w.needs {
		last := lastTold(w.told, o.Name)
		for key, got := range needs {
			assert.Contains(c, []view{got, last[key]}, viewOf(watches[key].Status), "%s knows how %s is", o, key)
		}
	}
	for _, k := range w.kinds {
		for _, o := range w.owners {
			if k.exists && w.waits[o][k.key] {
				assert.Contains(c, w.arrived[o.Name], k.gvk, "%s is told that it has come", o)
			}
		}
	}
}
