package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestAwaitRefusedOnce: a change of a refused object has its VidraResource reconciled once, also where that reconcile attempts nothing.
func TestAwaitRefusedOnce(t *testing.T) {
	key := trigger.ObjectKey{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "default", Name: "page"}
	factory := trigger.NewFactory(trigger.NewIndex())
	kept := func(t *testing.T, version, color string) any {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"color": color}}}
		u.SetName(key.Name)
		u.SetNamespace(key.Namespace)
		u.SetResourceVersion(version)
		s, err := factory.TransformFor("", key.GVR)(u)
		require.NoError(t, err)
		return s
	}
	conflict := func(p *Planner, o *Object) { p.noteRefusal(o, key, "", &owners.Conflict{Manager: "vidra/other"}) }
	deletion := func(p *Planner, o *Object) { p.NoteDeleting(o, key, "100", time.Time{}) }
	cases := map[string]struct {
		reason string
		refuse func(*Planner, *Object)
		change func(t *testing.T, p *Planner, s *shown)
		want   bool
	}{
		"same":              {"Nothing has changed.", conflict, func(*testing.T, *Planner, *shown) {}, false},
		"gone":              {"Its watch shows it no more.", conflict, func(_ *testing.T, _ *Planner, s *shown) { s.kept = nil }, true},
		"events off":        {"No watch shows it.", conflict, func(_ *testing.T, p *Planner, _ *shown) { p.Settings.Watched = false }, true},
		"deletion":          {"Another version of it waits, too.", deletion, func(t *testing.T, _ *Planner, s *shown) { t.Helper(); s.kept = kept(t, "101", "red") }, true},
		"the same deletion": {"It was read in this version.", deletion, func(*testing.T, *Planner, *shown) {}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			store, owner := &shown{kept(t, "100", "blue")}, trigger.Owner{Name: name}
			p := &Planner{Env: &Env{Watches: store, Trigger: factory, Obstacles: &metawatch.Watches{}}, Settings: &Settings{Watched: true}, State: &State{}, Now: time.Now()}
			p.Settings.Claimant.Owner = owner
			o := p.State.Objects.Track(object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: key.Namespace, Name: key.Name})
			o.Await(v1alpha1.ReasonSuspended, "is not applied while spec.suspend is true")
			tc.refuse(p, o)
			await := func() bool {
				p.AwaitRefused(nil, maps.Keys(map[metawatch.Key]struct{}{}))
				return factory.TakeCauses(owner).All
			}
			require.False(t, await(), "it is as it was refused")
			tc.change(t, p, store)
			require.Equal(t, tc.want, await(), tc.reason)
			require.Equal(t, !tc.want, p.rests(o) || name == "same", "the next reconcile that may attempts it")
			require.False(t, await(), "once")
		})
	}
}

// TestRests: an object rests after enough attempts. Those that events make at once count as an outage, also when time passes after them.
func TestRests(t *testing.T) {
	t.Parallel()
	webhook := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "page", errors.New(`admission webhook "policy" denied the request`))
	at := func(seconds ...float64) (times []time.Duration) {
		for _, s := range seconds {
			times = append(times, time.Duration(s*float64(time.Second)))
		}
		return times
	}
	for name, tc := range map[string]struct {
		reason   string
		attempts []time.Duration
		after    time.Duration
		want     bool
	}{
		"with the backoff":  {"They take half a minute.", at(0, 1, 3, 7, 15, 31), 0, true},
		"five":              {"There are too few of them.", at(0, 1, 3, 7, 15), 0, false},
		"at once":           {"Six events came within a second.", at(0, 0.1, 0.2, 0.3, 0.4, 0.6), 0, false},
		"at once, long ago": {"The backoff is at two minutes, and the outage may be over.", at(0, 0.1, 0.2, 0.3, 0.4, 0.6), 2 * time.Minute, false},
		"at once, and once": {"The last one is late enough.", at(0, 0.1, 0.2, 0.3, 0.4, 15), 0, true},
		"the end is early":  {"14 seconds are too few.", at(0, 1, 2, 3, 4, 5, 6, 14), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			p := &Planner{Env: &Env{Watches: &shown{}, Obstacles: &metawatch.Watches{}}, Settings: &Settings{Watched: true}, State: &State{}}
			o := p.State.Objects.Track(object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "page"})
			for _, delay := range tc.attempts {
				p.Now = begin.Add(delay)
				p.NoteRefusedRemoval(o, trigger.ObjectKey{}, webhook)
				o.Fail(v1alpha1.ReasonPruneFailed, "cannot be removed")
				p.NoteFailures(Ending{})
			}
			p.Now = p.Now.Add(tc.after)
			require.Equal(t, tc.want, p.rests(o), tc.reason)
			require.Equal(t, !tc.want, Earliest(p.State.Retries()) != Wake{}, "what does not rest is retried")
		})
	}
}

// TestDelayEndsWithTheCause: a changed source has the delay of a failing object last. A change of the thing that refused it ends it.
func TestDelayEndsWithTheCause(t *testing.T) {
	t.Parallel()
	p := &Planner{Env: &Env{Watches: &shown{}, Obstacles: &metawatch.Watches{}}, Settings: &Settings{Watched: true}, State: &State{}, Now: time.Now(), Causes: trigger.Causes{All: true}, Scope: Scope{All: true, Sources: true, Retry: true}}
	o := p.State.Objects.Track(object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "page"})
	p.NoteRefusedRemoval(o, trigger.ObjectKey{}, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "page", errors.New(`admission webhook "policy" denied the request`)))
	o.Fail(v1alpha1.ReasonPruneFailed, "cannot be removed")
	p.NoteFailures(Ending{})
	require.True(t, p.Waits(o))
	was := o.Attempts.Refused.evidence
	o.Attempts.Refused.evidence.obstacles = "before"
	require.False(t, p.Waits(o), "it has changed since")
	o.Attempts.Refused.evidence, o.Attempts.Refused.attempts = was, 0
	require.False(t, p.Waits(o), "the end of the last reconcile has seen that")
}

// TestRestsOccupied: a container rests after two attempts that the same object kept it, if that is watched, and after six otherwise.
func TestRestsOccupied(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	named := func(name string) trigger.ObjectKey {
		return trigger.ObjectKey{GVR: configMaps, Namespace: "inner", Name: name}
	}
	occupied := func(name string, received bool) error {
		return fmt.Errorf("refused: %w", &owners.Occupied{Object: named(name), Received: received})
	}
	for name, tc := range map[string]struct {
		reason  string
		watched []string
		by      []string
		// meanwhile is between the last two attempts.
		meanwhile func(t *testing.T, client *metadatafake.FakeMetadataClient)
		received  bool
		want      bool
	}{
		"once":      {"The watch may have been asked after the end of the object.", []string{"a"}, []string{"a"}, nil, false, false},
		"twice":     {"The watch shows that it stays.", []string{"a"}, []string{"a", "a"}, nil, false, true},
		"another":   {"Each of them kept it once. Their watches, which another VidraResource has, too, show as many events.", []string{"a", "b"}, []string{"a", "b"}, nil, false, false},
		"unwatched": {"Nothing shows its end: a limit is reached, or a right is missing.", nil, []string{"a", "a"}, nil, false, false},
		"received":  {"The manifest of another VidraResource may be readable soon, without an event of the object.", []string{"a"}, []string{"a", "a"}, nil, true, false},
		"gone": {"It is gone meanwhile.", []string{"a"}, []string{"a", "a"}, func(t *testing.T, client *metadatafake.FakeMetadataClient) {
			t.Helper()
			require.NoError(t, client.Tracker().Delete(configMaps, "inner", "a"))
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := metadatafake.NewTestScheme() // the client adds to it
			require.NoError(t, metav1.AddMetaToScheme(scheme))
			var objects []runtime.Object
			for _, name := range []string{"a", "b"} {
				objects = append(objects, &metav1.PartialObjectMetadata{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "inner", Name: name, ResourceVersion: "1"},
				})
			}
			client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
			events := make(chan metawatch.Key, 10)
			watches := &metawatch.Watches{Changed: func(key metawatch.Key, _ bool) { events <- key }, Ended: func(metawatch.Key) {}}
			var keys []metawatch.Key
			for _, name := range tc.watched {
				keys = append(keys, occupying(named(name)))
			}
			other := trigger.Owner{Name: "other"}
			for i := range keys { // one after the other: the fake one ignores field selectors
				watches.Sync(other, "", client, slices.Values(keys[:i+1]))
			}
			t.Cleanup(func() { watches.Release(other) })
			for _, key := range keys {
				require.Eventually(t, func() bool { _, known := watches.State(key); return known }, time.Minute, time.Millisecond)
			}
			p := &Planner{Env: &Env{Watches: &shown{}, Obstacles: watches}, Settings: &Settings{Watched: true}, State: &State{}, Now: time.Now()}
			o := p.State.Objects.Track(object.Identity{GroupKind: object.NamespaceKind, Name: "inner"})
			for i, name := range tc.by {
				if tc.meanwhile != nil && i == len(tc.by)-1 {
					before, _ := watches.State(keys[0])
					tc.meanwhile(t, client)
					require.Eventually(t, func() bool { now, _ := watches.State(keys[0]); return now != before }, time.Minute, time.Millisecond)
				}
				p.NoteRefusedRemoval(o, trigger.ObjectKey{}, occupied(name, tc.received))
				o.Fail(v1alpha1.ReasonDeletionBlocked, "is not removed")
			}
			require.Equal(t, tc.want, p.rests(o), tc.reason)
		})
	}
}
