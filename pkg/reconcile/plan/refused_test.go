package plan

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
			p := &Planner{Env: &Env{Watches: store, Trigger: factory}, Settings: &Settings{Watched: true}, State: &State{}, Now: time.Now()}
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
			p := &Planner{Env: &Env{Watches: &shown{}}, Settings: &Settings{Watched: true}, State: &State{}}
			o := p.State.Objects.Track(object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "page"})
			for _, delay := range tc.attempts {
				p.Now = begin.Add(delay)
				p.NoteRefusedRemoval(o, trigger.ObjectKey{}, webhook)
				o.Fail(v1alpha1.ReasonPruneFailed, "cannot be removed")
			}
			p.Now = p.Now.Add(tc.after)
			require.Equal(t, tc.want, p.rests(o), tc.reason)
			require.Equal(t, !tc.want, p.Failed(Ending{All: true}), "what does not rest is retried")
		})
	}
}
