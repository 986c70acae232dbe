package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// soakActor disturbs the operator about once in every.
type soakActor struct {
	name  string
	every time.Duration
	// act returns what it did; nothing if it could not.
	act func() string
}

// restarts end the operator.
func (s *soak) restarts() []soakActor {
	return []soakActor{
		{"operator", 40 * time.Second, s.killOperator},
		{"operator", time.Minute, s.restartOperator},
	}
}

// actors do everything else but to restart the API server.
func (s *soak) actors() []soakActor {
	return []soakActor{
		{"edit", 100 * time.Millisecond, s.edit},
		{"CustomResourceDefinition", 15 * time.Second, s.removeDefinition},
		{"VidraResource", 15 * time.Second, s.removeVidraResource},
		{"hostile manifest", 20 * time.Second, s.addHostile},
		{"fault, API server", 5 * time.Second, func() string { return s.inject(s.local) }},
		{"fault, other cluster", 8 * time.Second, func() string { return s.inject(s.remote) }},
		{"other cluster", 20 * time.Second, s.flap},
		{"", max(s.length/200, time.Second), s.watch},
	}
}

// edit makes a random edit of a random object.
func (s *soak) edit() string {
	o := s.owners[s.random.IntN(len(s.owners))]
	obj := o.objs[s.random.IntN(len(o.objs))]
	names := slices.Sorted(maps.Keys(obj.rows))
	row := obj.rows[names[s.random.IntN(len(names))]]
	right, err := o.isReverted(obj)
	if err == nil {
		err = row.how(o.name, obj.Unstructured, row.what)
	}
	if err != nil {
		s.requireRefused(err)
		return "refused by the API server, or of an object that is gone"
	}
	if soakReported(row) {
		o.made++
		switch {
		case !right:
			o.superseded++
		case s.down:
			s.offline++
		}
	}
	return [...]string{stays: "of the status, which stays", reverted: "of fields", recreated: "deletion", relabelled: "of the label", undoneWhole: "of the structure"}[row.want]
}

// isReverted reports whether an object has what its manifest says: no edit before stands. It fails if the object is not
// there.
func (o *soakOwner) isReverted(obj *soakObject) (bool, error) {
	live := obj.DeepCopy()
	if err := admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live); err != nil {
		return false, err
	}
	return live.GetDeletionTimestamp() == nil && difference("", marked(o.name, obj.Unstructured), live.Object) == "" &&
		slices.Contains(appliedBy(live), "vidra/"+o.name), nil
}

// standing is how many objects have an edit that is not reverted yet.
func (s *soak) standing() int {
	edits := 0
	for _, o := range s.owners {
		for _, obj := range o.objs {
			if right, err := o.isReverted(obj); err != nil || !right {
				edits++
			}
		}
	}
	return edits
}

// requireRefused requires that an error is an answer of the API server, or of a client that cannot make an edit of
// what an edit before has left.
func (s *soak) requireRefused(err error) {
	s.t.Helper()
	require.False(s.t, apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err), "%v", err)
	require.NotContains(s.t, err.Error(), "connection refused")
}

// killOperator ends the operator as a crash does, and starts it again later.
func (s *soak) killOperator() string {
	if s.down {
		return ""
	}
	s.readCounters()
	require.NoError(s.t, s.operator.Kill())
	s.atRisk, _ = s.missing()
	s.startLater()
	return "killed"
}

// restartOperator ends the operator in order, and starts it again later.
func (s *soak) restartOperator() string {
	if s.down {
		return ""
	}
	s.endFault(s.local)
	s.readCounters()
	s.offline += s.standing()
	require.NoError(s.t, s.operator.Stop(stopTimeout))
	s.startLater()
	return "restarted"
}

func (s *soak) startLater() {
	s.down = true
	s.after(3*time.Second, func() bool {
		s.start()
		return true
	})
}

// restartAPIServer restarts the API server.
func (s *soak) restartAPIServer() string {
	require.NoError(s.t, env.RestartAPIServer(s.t.Context()))
	await(s.t, func(c *assert.CollectT) {
		require.NoError(c, admin.List(context.Background(), &v1alpha1.VidraResourceList{}))
	})
	return "restarted"
}

// soakFaults are what may go wrong between the operator and an API server for a while, by what it is. Each returns
// how it ends.
var soakFaults = map[string]func(p *faultproxy.Proxy) func(){
	"server away": func(p *faultproxy.Proxy) func() {
		p.Down()
		return func() { _ = p.Up() }
	},
	"watches cut":    func(p *faultproxy.Proxy) func() { p.CutStreams(faultproxy.Match{}); return func() {} },
	"watches closed": func(p *faultproxy.Proxy) func() { p.CloseStreams(faultproxy.Match{}); return func() {} },
	"watches expired": func(p *faultproxy.Proxy) func() {
		p.ErrorStreams(faultproxy.Match{}, apierrors.NewResourceExpired("soak"))
		return func() {}
	},
	"answers delayed":        injecting(faultproxy.Match{}, faultproxy.Delay(time.Second/5)),
	"requests stall":         injecting(faultproxy.Match{}, faultproxy.Stall()),
	"writes refused":         injecting(faultproxy.Match{Verb: "patch"}, faultproxy.Status(apierrors.NewTooManyRequests("soak", 1))),
	"answers of writes lost": injecting(faultproxy.Match{Verb: "patch"}, faultproxy.CutAfter(0)),
	"errors":                 injecting(faultproxy.Match{}, faultproxy.Status(apierrors.NewInternalError(errors.New("soak")))),
	"lists refused":          injecting(faultproxy.Match{Verb: "list"}, faultproxy.Status(apierrors.NewServiceUnavailable("soak"))),
	"conflicts":              injecting(faultproxy.Match{Verb: "patch"}, faultproxy.Status(apierrors.NewConflict(schema.GroupResource{}, "soak", errors.New("soak")))),
}

func injecting(match faultproxy.Match, fault faultproxy.Fault) func(p *faultproxy.Proxy) func() {
	return func(p *faultproxy.Proxy) func() { return p.Inject(match, fault).Remove }
}

// inject has something go wrong for a while.
func (s *soak) inject(p *faultproxy.Proxy) string {
	if s.faults[p] != nil || p == s.local && s.down {
		return ""
	}
	names := slices.Sorted(maps.Keys(soakFaults))
	name := names[s.random.IntN(len(names))]
	s.faults[p] = soakFaults[name](p)
	s.after(5*time.Second/2, func() bool {
		s.endFault(p)
		return true
	})
	return name
}

// endFault ends what goes wrong at a proxy.
func (s *soak) endFault(p *faultproxy.Proxy) {
	if end := s.faults[p]; end != nil {
		end()
		delete(s.faults, p)
	}
}

// flap has the other cluster go away for longer than until that is reported.
func (s *soak) flap() string {
	if s.faults[s.remote] != nil {
		return ""
	}
	s.faults[s.remote] = soakFaults["server away"](s.remote)
	s.after(12*time.Second, func() bool {
		s.endFault(s.remote)
		return true
	})
	return "away"
}

// soakSlot is a VidraResource with objects of a kind whose definition is not its own.
type soakSlot struct {
	name, manifest string
	definition     *unstructured.Unstructured
	objs           []*unstructured.Unstructured
	// busy is true while the definition or the VidraResource is not there.
	busy bool
}

const soakDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.<group>}
spec:
  group: <group>
  scope: Namespaced
  names: {plural: parts, singular: part, kind: Part, listKind: PartList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// newSlot creates a definition and a VidraResource.
func (s *soak) newSlot(i int) *soakSlot {
	slot := &soakSlot{name: fmt.Sprintf("%s-slot-%d", s.ns, i)}
	group := slot.name + ".example.com"
	slot.definition = declared(s.t, "", strings.ReplaceAll(soakDefinition, "<group>", group))[0]
	require.NoError(s.t, testenv.Apply(s.t.Context(), env.Config, []*unstructured.Unstructured{slot.definition.DeepCopy()}))
	s.t.Cleanup(func() {
		require.NoError(s.t, client.IgnoreNotFound(admin.Delete(context.Background(), slot.definition.DeepCopy())))
	})
	part := "apiVersion: %s/v1\nkind: Part\nmetadata: {name: part-%d}\nspec: {size: 1}\n"
	slot.manifest = manifests(fmt.Sprintf(part, group, 1), fmt.Sprintf(part, group, 2), configMap(slot.name, "hello"))
	await(s.t, func(c *assert.CollectT) {
		_, err := admin.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: "Part"})
		require.NoError(c, err)
	})
	slot.objs = declared(s.t, s.ns, slot.manifest)
	newVidraResource(s.t, s.ns, slot.manifest, named(slot.name))
	return slot
}

// idleSlot is a slot of which everything is there; nil if there is none.
func (s *soak) idleSlot() *soakSlot {
	slot := s.slots[s.random.IntN(len(s.slots))]
	if slot.busy {
		return nil
	}
	slot.busy = true
	return slot
}

// removeDefinition deletes a definition with its objects, and creates it again later.
func (s *soak) removeDefinition() string {
	slot := s.idleSlot()
	if slot == nil {
		return ""
	}
	require.NoError(s.t, admin.Delete(s.t.Context(), slot.definition.DeepCopy()))
	s.after(10*time.Second, func() bool {
		err := admin.Create(context.Background(), slot.definition.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(s.t, err)
		}
		slot.busy = err != nil
		return err == nil
	})
	return "deleted, and created again"
}

// removeVidraResource deletes a VidraResource with its objects, and creates it again later.
func (s *soak) removeVidraResource() string {
	slot := s.idleSlot()
	if slot == nil {
		return ""
	}
	require.NoError(s.t, deleteVidraResource(s.t.Context(), slot.name))
	s.after(5*time.Second, func() bool {
		v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: slot.name}}
		v.Spec.Destination.Namespace, v.Spec.Manifest = s.ns, slot.manifest
		err := admin.Create(context.Background(), v)
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(s.t, err)
		}
		slot.busy = err != nil
		return err == nil
	})
	return "deleted, and created again"
}

// addHostile creates a VidraResource with a hostile manifest, and deletes it later.
func (s *soak) addHostile() string {
	all := hostileManifests()
	maps.DeleteFunc(all, func(_ string, h hostile) bool { return h.from != nil })
	names := slices.Sorted(maps.Keys(all))
	name := names[s.random.IntN(len(names))]
	v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: unique(s.t)}}
	v.Spec.Destination.Namespace, v.Spec.Manifest, v.Spec.DeletionPolicy = s.ns, all[name].manifest, v1alpha1.DeletionOrphan
	require.NoError(s.t, admin.Create(s.t.Context(), v))
	s.after(10*time.Second, func() bool {
		err := deleteVidraResource(context.Background(), v.Name)
		if !apierrors.IsNotFound(err) {
			require.NoError(s.t, err)
		}
		return err != nil
	})
	return name
}
