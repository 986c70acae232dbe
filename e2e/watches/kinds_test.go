package watches

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// soon is how long after the API server has begun to serve a kind it may take
// until that is noticed: shorter than what would find it otherwise.
const soon = 3 * time.Second

// install creates a CustomResourceDefinition that goes with the test, and returns
// when the API server has established its kind.
func install(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	createCRD(t, crd)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	await(t, func(c *assert.CollectT) {
		present := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), present))
		assert.True(c, apihelpers.IsCRDConditionTrue(present, apiextensionsv1.Established))
	})
}

// changeCRD changes the present state of a CustomResourceDefinition.
func changeCRD(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		present := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), present))
		change(present)
		assert.NoError(c, admin.Update(context.Background(), present))
	})
}

// newThing is an object of the kind of testenv.CRD that the lab watches. It is
// not created.
func (l *lab) newThing(crd *apiextensionsv1.CustomResourceDefinition, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kindOf(crd))
	obj.SetNamespace("default")
	obj.SetName(name)
	obj.SetLabels(map[string]string{"test": l.label})
	return obj
}

// keeps says whether a watch is Synced and keeps the present state of an object.
func (l *lab) keeps(key watchregistry.Key, obj client.Object) bool {
	kept, found, synced := l.Get(key, obj.GetNamespace(), obj.GetName())
	m, ok := kept.(metav1.Object)
	return found && synced && ok && m.GetResourceVersion() == obj.GetResourceVersion()
}

// discoveries are the requests for discovery documents of the group of a watch.
func discoveries(key watchregistry.Key) faultproxy.Match {
	return faultproxy.Match{Verb: faultproxy.Discovery, Resource: schema.GroupVersionResource{Group: key.GVR.Group}}
}

// TestF02KindIsDeletedAndCreatedAgain: the informer of a deleted kind asked for
// it for ever and logged every answer, and each time that the kind came back it
// got another handler and other goroutines. Here it ends with its kind, and after
// many times there is what there was before the first.
func TestF02KindIsDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	running := goroutines(t)
	var events, lines atomic.Int64
	l := newLab(t, labOptions{
		onEvent: func(schema.GroupVersionResource) { events.Add(1) },
		log:     funcr.New(func(string, string) { lines.Add(1) }, funcr.Options{Verbosity: 10}),
	})
	crd := testenv.CRD(unique(t))
	key := keyOf(crd)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	l.Sync(owner("one"), []watchregistry.Key{key})
	l.becomes(t, key, watchregistry.Pending)
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, 2, l.Streams(faultproxy.Match{}), "those of kinds")
	})
	before := settled(t, running)

	const rounds = 5
	for round := range rounds {
		createCRD(t, crd)
		l.becomes(t, key, watchregistry.Synced)
		require.EqualValues(t, 2+round, l.watch(key).InformerRuns)
		require.NoError(t, admin.Delete(t.Context(), crd))
		l.becomes(t, key, watchregistry.Pending)
		await(t, func(c *assert.CollectT) { assert.LessOrEqual(c, running(), before, "what ran for the kind has ended") })
	}

	await(t, func(c *assert.CollectT) { // a line is written before an owner is told
		told := l.states("one", key)
		require.GreaterOrEqual(c, len(told), 1+3*rounds)
		assert.Equal(c, watchregistry.Pending, told[len(told)-1])
	})
	gone, logged := l.Mark(), lines.Load()
	require.Never(t, func() bool {
		return len(l.Requests(gone, faultproxy.Match{Resource: key.GVR})) > 0 || lines.Load() > logged
	}, 2*time.Second, 50*time.Millisecond, "it is neither asked for nor spoken of")
	const looks = 2 * (12 + 2*rounds) // of the last change of the kind: 12; of each deletion, whose rechecks may follow it on a fast machine: 2
	require.LessOrEqual(t, len(l.Requests(gone, discoveries(key))), looks)

	createCRD(t, crd)
	l.becomes(t, key, watchregistry.Synced)
	thing := l.thing(t, crd, "one")
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(key, thing)) })
	edit(t, thing)
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(key, thing)) })
	require.EqualValues(t, 2, events.Load(), "each handler is told once of each change")
	await(t, func(c *assert.CollectT) {
		assert.EqualValues(c, len(l.states("one", key)), lines.Load(), "a line for each change of its state, and no other")
	})
}

// TestF08KindIsInstalledLater: a resource that needs a kind came before the kind
// did, and was never looked at again. Here the watch, and who waits for the kind
// without one, notice at once, however long the kind has been missing.
func TestF08KindIsInstalledLater(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	watched, awaited := testenv.CRD(unique(t)), testenv.CRD(unique(t))
	key := keyOf(watched)
	gvk := kindOf(awaited)
	l.Sync(owner("watching"), []watchregistry.Key{key})
	l.Await(owner("waiting"), []watchregistry.Kind{{GVK: gvk}})
	l.becomes(t, key, watchregistry.Pending)
	await(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, len(l.Requests(0, discoveries(key))), 3, "the next probe is seconds away")
	})

	install(t, watched)
	install(t, awaited)
	start := time.Now()
	l.becomes(t, key, watchregistry.Synced)
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, []schema.GroupVersionKind{gvk}, l.kinds("waiting"))
	})
	require.Less(t, time.Since(start), soon)
	require.Empty(t, l.kinds("watching"))
}

// TestF08KindIsInstalledMeanwhile installs kinds at the moment at which they are
// asked for.
func TestF08KindIsInstalledMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	const rounds = 10
	for range rounds {
		crd := testenv.CRD(unique(t))
		key, gvk := keyOf(crd), kindOf(crd)
		t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			l.Sync(owner("one"), []watchregistry.Key{key})
			l.Await(owner("one"), []watchregistry.Kind{{GVK: gvk}})
		}()
		createCRD(t, crd)
		<-asked
		l.becomes(t, key, watchregistry.Synced)
		await(t, func(c *assert.CollectT) { assert.Contains(c, l.kinds("one"), gvk) })
	}
}

// TestF09MissingKindKeepsNobody: a manager that could not find a kind did not
// start, and did nothing for the others either. Here even a user who may not see
// which kinds there are starts watches; a kind that is missing is found later by
// the probes, which are the backstop.
func TestF09MissingKindKeepsNobody(t *testing.T) {
	t.Parallel()
	user := unique(t)
	config, err := env.UserConfig(user)
	require.NoError(t, err)
	crd := testenv.CRD(unique(t))
	key := keyOf(crd)
	grant(t, user, configMaps.GVR)
	grant(t, user, key.GVR)
	l := newLab(t, labOptions{config: config})
	atOnce(t, "Sync", func() { l.Sync(owner("one"), []watchregistry.Key{key, configMaps}) })
	l.becomes(t, configMaps, watchregistry.Synced)
	l.becomes(t, key, watchregistry.Pending)

	install(t, crd)
	l.becomes(t, key, watchregistry.Synced)
	require.EqualValues(t, 1, l.watch(configMaps).InformerRuns)
	for _, group := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io"} {
		match := faultproxy.Match{Resource: schema.GroupVersionResource{Group: group}}
		require.Zero(t, l.Streams(match), "it may not be watched")
		require.LessOrEqual(t, len(l.Requests(0, match)), 8, "it is asked for less and less often")
	}
}

// TestF10RestartLoopAgainstMissingKind: an engine that started anew whenever a
// kind was missing grew by two megabytes a minute. Here neither a watch that is
// asked for and released again and again leaves anything, nor does one that is
// asked for at every pass send a request for it. It runs alone, because the heap
// is that of the process.
func TestF10RestartLoopAgainstMissingKind(t *testing.T) {
	running := goroutines(t)
	l := newLab(t, labOptions{linger: -1, direct: true})
	key := keyOf(testenv.CRD(unique(t)))
	restart := func(times int) {
		for range times {
			l.Sync(owner("one"), []watchregistry.Key{key})
			l.becomes(t, key, watchregistry.Pending)
			l.Release(owner("one"))
		}
	}
	restart(20) // what is made once: connections, pools
	before := settled(t, running)
	const times, each = 100, 4 << 10 // an informer takes more
	measure := func() int64 {
		heapBefore := heap()
		restart(times)
		await(t, func(c *assert.CollectT) { assert.LessOrEqual(c, running(), before) })
		return heap() - heapBefore
	}
	grown := min(measure(), measure()) // the process itself grows once by some 400 KB
	t.Logf("%d restarts took %d bytes", times, grown)
	require.Less(t, grown, int64(times*each))
}

// TestF10PassesAgainstMissingKind asks for a kind that is missing at every pass.
func TestF10PassesAgainstMissingKind(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	key := keyOf(testenv.CRD(unique(t)))
	l.Sync(owner("one"), []watchregistry.Key{key})
	l.becomes(t, key, watchregistry.Pending)
	const most = 3 // after 1 s, after 2 s more, and one to spare
	mark := l.Mark()
	require.Never(t, func() bool {
		l.Sync(owner("one"), []watchregistry.Key{key})
		asked := len(l.Requests(mark, faultproxy.Match{Resource: schema.GroupVersionResource{Group: key.GVR.Group}}))
		return asked > most
	}, 3*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 1, l.watch(key).InformerRuns)
}

// TestKindGoneForGood deletes a kind for good. Without an owner, its watch ends with it, and no request asks for the kind any more. With one, the
// requests are those of the checks after a deletion and of the first probes.
func TestKindGoneForGood(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		owned  bool
		state  watchregistry.State
		most   int
	}{
		"Unowned": {"A watch without an owner ends with its kind.", false, "", 0},
		"Owned":   {"The kind had 2 requests a second for ten seconds after each check.", true, watchregistry.Pending, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{linger: time.Hour})
			crd := testenv.CRD(unique(t))
			key := keyOf(crd)
			install(t, crd)
			l.Sync(owner("one"), []watchregistry.Key{key})
			l.becomes(t, key, watchregistry.Synced)
			if !tc.owned {
				l.Release(owner("one"))
			}
			require.NoError(t, admin.Delete(t.Context(), crd))
			service := &metav1.PartialObjectMetadata{}
			service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
			await(t, func(c *assert.CollectT) {
				err := admin.Get(context.Background(), client.ObjectKey{Name: key.GVR.Version + "." + key.GVR.Group}, service)
				require.True(c, apierrors.IsNotFound(err), "the API server has no definition of the group: %v", err)
				require.Equal(c, tc.state, l.watch(key).State)
			})
			mark := l.Mark()
			require.Never(t, func() bool { return len(l.Requests(mark, discoveries(key))) > tc.most }, 8*time.Second, 100*time.Millisecond, tc.reason)
		})
	}
}
