package watches

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// requests matches the requests of a verb for the resource of a watch.
func requests(verb string, key watchregistry.Key) faultproxy.Match {
	return faultproxy.Match{Verb: verb, Resource: key.GVR}
}

// expired is the error of a resourceVersion that the API server has forgotten.
func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("too old resource version")
}

// notStreamed has the proxy refuse the next n streamed lists of a watch, if n
// WATCHes that come next are streamed lists.
func (l *lab) notStreamed(key watchregistry.Key, n int) {
	l.Inject(requests("watch", key), faultproxy.Status(apierrors.NewBadRequest("lists are not streamed")).Times(n))
}

// hit waits until n requests have been hit by the fault of a rule.
func hit(t *testing.T, rule *faultproxy.Rule, n int) {
	t.Helper()
	await(t, func(c *assert.CollectT) { assert.GreaterOrEqual(c, rule.Hits(), n) })
}

// truth is what the API server has of the ConfigMaps of a lab, as known would
// report it.
func (l *lab) truth(t *testing.T) map[string]string {
	t.Helper()
	list := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(t.Context(), list, client.MatchingLabels{"test": l.label}))
	truth := map[string]string{}
	for i := range list.Items {
		truth[id(configMaps, &list.Items[i])] = list.Items[i].ResourceVersion
	}
	return truth
}

// agrees waits until the handlers know the ConfigMaps as they are, and nothing
// else.
func (l *lab) agrees(t *testing.T) {
	t.Helper()
	truth := l.truth(t)
	await(t, func(c *assert.CollectT) { assert.Equal(c, truth, l.known()) })
}

// settles waits until watches are Synced, and each has a stream that is older than
// what client-go takes for a WATCH that failed: it lists anew after one that ends
// within a second.
func (l *lab) settles(t *testing.T, keys ...watchregistry.Key) {
	t.Helper()
	for _, key := range keys {
		await(t, func(c *assert.CollectT) {
			w := l.watch(key)
			require.Equal(c, watchregistry.Synced, w.State)
			assert.Greater(c, time.Since(w.Since), 1200*time.Millisecond)
			assert.NotZero(c, l.Streams(requests("watch", key)))
			sent := l.Requests(0, requests("", key))
			assert.Greater(c, time.Since(sent[len(sent)-1].Time), 1200*time.Millisecond)
		})
	}
}

// gonceOnce requires that a handler was told once that an object was deleted.
func (l *lab) requireGoneOnce(t *testing.T, key watchregistry.Key, obj client.Object, missed int, msg string) {
	t.Helper()
	deleted, tombstones := l.gone(key, obj)
	require.Equal(t, []int{1, missed}, []int{deleted, tombstones}, "reported as deleted, and of that missed: "+msg)
}

// TestF15DriftBeforeSynced: a watch was started after the objects had been
// applied, and what was changed or deleted in between was never seen. Here the
// start of a watch is held up at each of its requests while objects are edited,
// deleted and created. Once it is Synced, they are known as they are.
func TestF15DriftBeforeSynced(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		held   string
		plain  bool
		// deletions is how often the deletion is reported.
		deletions int
	}{
		"StreamedList": {"The list has not begun.", "watch", false, 0},
		"ListToWatch":  {"The list has been handled, and the WATCH that follows has not begun.", "watch", true, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			l.configMap(t, "untouched")
			edited, deleted := l.configMap(t, "edited"), l.configMap(t, "deleted")
			held := l.Inject(requests(tc.held, configMaps), faultproxy.Stall())
			if tc.plain {
				l.notStreamed(configMaps, 1)
			}
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			hit(t, held, 1)
			if tc.plain {
				await(t, func(c *assert.CollectT) { assert.Len(c, l.known(), 3) }, "the list has been handled")
			}
			edit(t, edited)
			require.NoError(t, admin.Delete(t.Context(), deleted))
			l.configMap(t, "created")
			held.Remove()
			l.becomes(t, configMaps, watchregistry.Synced)
			l.agrees(t)
			times, _ := l.gone(configMaps, deleted)
			require.Equal(t, tc.deletions, times, tc.reason)
		})
	}
}

// TestF15ConstantDrift is the same without a moment of rest: something changes
// all the time while the watch starts.
func TestF15ConstantDrift(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cms := make([]*corev1.ConfigMap, 6)
	for i := range cms {
		cms[i] = l.configMap(t, fmt.Sprint(i))
	}
	held := l.Inject(requests("watch", configMaps), faultproxy.Stall())
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	hit(t, held, 1)
	for i := range 10 * len(cms) {
		if i == 2*len(cms) {
			held.Remove() // it starts in the middle of it
		}
		n := i % len(cms)
		if i%4 != 0 {
			edit(t, cms[n])
			continue
		}
		require.NoError(t, admin.Delete(t.Context(), cms[n]))
		cms[n] = l.configMap(t, fmt.Sprint(n))
	}
	l.becomes(t, configMaps, watchregistry.Synced)
	l.agrees(t)
}

// TestF16LabelLostWhileTheWatchWasDown: an object that is no longer selected was
// taken for one that had not changed. Here it loses the label where no watch sees it,
// is reported as deleted, and is known again when it gets the label back.
func TestF16LabelLostWhileTheWatchWasDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cm := l.configMap(t, "one")
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.settles(t, configMaps)
	l.Down()
	label := cm.Labels
	cm.Labels = nil
	require.NoError(t, admin.Update(t.Context(), cm))
	l.Inject(requests("watch", configMaps), faultproxy.ErrorEvent(expired()).Times(1))
	require.NoError(t, l.Up())
	await(t, func(c *assert.CollectT) {
		deleted, missed := l.gone(configMaps, cm)
		assert.Equal(c, []int{1, 1}, []int{deleted, missed})
	})
	cm.Labels = label
	require.NoError(t, admin.Update(t.Context(), cm))
	l.agrees(t)
	l.requireGoneOnce(t, configMaps, cm, 1, "it lives on")
}

// TestF17MissedWhileTheWatchWasDown: what had been deleted while a watch was down
// stayed in the cache of the engine. Here objects are deleted, edited and created
// while no watch runs, and each is known as it is afterwards, be it that the watch
// resumes where it was or that it has to list anew.
func TestF17MissedWhileTheWatchWasDown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// again is what the WATCH that resumes gets.
		again  faultproxy.Fault
		missed int
	}{
		"Resumed":      {"The API server reports what happened.", faultproxy.Fault{}, 0},
		"ExpiredEvent": {"An ERROR event says that it has forgotten it.", faultproxy.ErrorEvent(expired()), 1},
		"ExpiredCode":  {"So does the code of its answer.", faultproxy.Status(expired()), 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			l.configMap(t, "untouched")
			edited, deleted, replaced := l.configMap(t, "edited"), l.configMap(t, "deleted"), l.configMap(t, "replaced")
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			l.settles(t, configMaps)
			l.Down()
			l.becomes(t, configMaps, watchregistry.Degraded)
			require.Zero(t, l.watch(configMaps).StreamSince)
			for range 3 {
				edit(t, edited)
			}
			require.NoError(t, admin.Delete(t.Context(), deleted))
			require.NoError(t, admin.Delete(t.Context(), replaced))
			l.configMap(t, "replaced")
			l.configMap(t, "created")
			mark := l.Mark()
			rule, up := l.Inject(requests("watch", configMaps), tc.again.Times(1)), time.Now()
			require.NoError(t, l.Up())
			hit(t, rule, 1)
			l.agrees(t)
			edit(t, edited) // comes after everything that there was to report
			l.agrees(t)
			require.Equal(t, watchregistry.Synced, l.watch(configMaps).State)
			require.False(t, l.watch(configMaps).StreamSince.Before(up), "of the WATCH that is open")
			l.requireGoneOnce(t, configMaps, deleted, tc.missed, tc.reason)
			lists := tc.missed
			if lists > 0 && !streams() {
				lists++ // the one that the API server refuses
			}
			require.Len(t, l.lists(mark, configMaps), lists, "it lists anew only if it has to")
			await(t, func(c *assert.CollectT) {
				l.note(func() { assert.Equal(c, tc.missed, l.relisted["one"], "its owner is told of it") })
			})
		})
	}
}

// TestF17MissedWhilePending is the same for a watch that has no informer for a
// while: its version of the kind is not served, and its objects are deleted through
// another one.
func TestF17MissedWhilePending(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	crd, stored := newCRD(t, unique(t), "v2", "v1")
	key := stored
	key.GVR.Version = "v1"
	kept, deleted := l.thing(t, crd, "kept"), l.thing(t, crd, "deleted")
	l.Sync(owner("one"), []watchregistry.Key{key})
	l.becomes(t, key, watchregistry.Synced)
	require.True(t, l.knows(key, deleted))

	serve(t, crd, false)
	l.becomes(t, key, watchregistry.Pending)
	require.NoError(t, admin.Delete(t.Context(), deleted))
	edit(t, kept)
	created := l.thing(t, crd, "created")
	times, _ := l.gone(key, deleted)
	require.Zero(t, times, "it cannot be known yet")
	serve(t, crd, true)
	l.becomes(t, key, watchregistry.Synced)
	require.True(t, l.knows(key, kept))
	require.True(t, l.knows(key, created))
	l.requireGoneOnce(t, key, deleted, 1, "Synced means that it was told too")
	tombstone := l.tombstone(key, deleted)
	require.Equal(t, deleted.GetResourceVersion(), tombstone.Obj.(*metav1.PartialObjectMetadata).ResourceVersion)
	times, _ = l.gone(key, kept)
	require.Zero(t, times)
}

// serve has the second version of a CustomResourceDefinition served, or not.
func serve(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, served bool) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/1/served","value":%t}]`, served)
	require.NoError(t, admin.Patch(t.Context(), crd.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(patch))))
}

// TestF18TombstoneTellsWhatWasDeleted: handlers asserted the type of what they were
// told, and dropped a deletion that no watch had seen. Here it comes with the key of
// the object and its last state that was seen.
func TestF18TombstoneTellsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cm := l.configMap(t, "one")
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.settles(t, configMaps)
	edit(t, cm)
	l.agrees(t)
	l.Down()
	require.NoError(t, admin.Delete(t.Context(), cm))
	l.Inject(requests("watch", configMaps), faultproxy.Status(expired()).Times(1))
	require.NoError(t, l.Up())
	l.agrees(t)
	l.requireGoneOnce(t, configMaps, cm, 1, "the watch was down")
	tombstone := l.tombstone(configMaps, cm)
	require.Equal(t, client.ObjectKeyFromObject(cm).String(), tombstone.Key)
	last, ok := tombstone.Obj.(*metav1.PartialObjectMetadata)
	require.True(t, ok, "what the transform made, not a %T", tombstone.Obj)
	require.Equal(t, cm.ResourceVersion, last.ResourceVersion)
}
