package plan

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
