package trigger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	modelObjects = 3
	modelSteps   = 2000
	modelRuns    = 30
	ours         = "blue"
)

// modelObject is an object in the API server of a model.
type modelObject struct {
	exists         bool
	value, version string
	uid            int
}

// modelEvent is an event on its way to the handler.
type modelEvent struct {
	object  int
	state   *unstructured.Unstructured
	deleted bool
}

// modelFlight is an apply that is under way.
type modelFlight struct {
	object   int
	response *unstructured.Unstructured // nil until it was sent
}

// model is an API server, a watch and a reconciler, each as simple as can be, around
// a Factory. Each of its steps is one that can come between any two others.
type model struct {
	t       *testing.T
	random  *rand.Rand
	objects [modelObjects]modelObject
	version int

	factory *Factory
	handler cache.ResourceEventHandler
	shrink  cache.TransformFunc
	// stream are the events that were not delivered yet; store is what the informer
	// keeps.
	stream []modelEvent
	store  map[int]*Snapshot
	// status holds the digests that survive a restart.
	status map[ObjectKey]Applied
	// flights are the applies of the pass that is under way.
	flights []modelFlight
	// drifts and patches count what the test is about.
	drifts, patches int
}

// TestAnyInterleavingHeals lets edits, deletions, foreign writes, deliveries, passes,
// applies, relists and restarts happen in any order. In the end every object is as it
// was applied, and there were no more PATCHes than drifts.
func TestAnyInterleavingHeals(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any will do
	if text := os.Getenv("VIDRA_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	for run := range uint64(modelRuns) {
		m := newModel(t, seed+run)
		for range modelSteps {
			m.step()
		}
		m.drain()
		for i, object := range m.objects {
			require.True(t, object.exists && object.value == ours, "VIDRA_SEED=%d: object %d is %+v", seed+run, i, object)
		}
		require.LessOrEqual(t, m.patches, m.drifts, "VIDRA_SEED=%d", seed+run)
	}
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, seed)), status: map[ObjectKey]Applied{}} //nolint:gosec // repeatable on purpose
	for i := range m.objects {
		m.write(i, ours)
		m.status[smallConfigMap.key(i)] = m.applied(m.live(i))
	}
	m.restart()
	return m
}

// live is an object as the API server would show it.
func (m *model) live(i int) *unstructured.Unstructured {
	object := m.objects[i]
	u := smallConfigMap.decoded(m.t, i, owner, object.value, object.version)
	u.SetUID(types.UID(uidOf(object.uid)))
	return u
}

// write gives an object a value, and tells the watch.
func (m *model) write(i int, value string) {
	object := &m.objects[i]
	m.version++
	if !object.exists {
		object.exists, object.uid = true, m.version
	}
	object.value, object.version = value, strconv.Itoa(m.version)
	m.stream = append(m.stream, modelEvent{object: i, state: m.live(i)})
}

func (m *model) applied(live *unstructured.Unstructured) Applied {
	manager := v1alpha1.FieldManager(owner.Name)
	return Applied{
		Manager: manager, Digest: DigestOf(live, manager, false, nil), UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(),
	}
}

// step does one thing at random.
func (m *model) step() {
	i := m.random.IntN(modelObjects)
	object := &m.objects[i]
	switch n := m.random.IntN(100); {
	case n < 12 && object.exists:
		m.write(i, fmt.Sprintf("red-%d", m.version))
		m.drifts++
	case n < 20 && object.exists:
		m.write(i, object.value) // of something that is not ours
	case n < 26 && object.exists:
		m.version++
		object.version = strconv.Itoa(m.version)
		m.stream = append(m.stream, modelEvent{object: i, state: m.live(i), deleted: true})
		object.exists = false
		m.drifts++
	case n < 55:
		m.deliver()
	case n < 70:
		m.pass(false)
	case n < 96:
		m.fly()
	case n < 98:
		m.relist()
	case n < 99:
		m.pass(true)
	default:
		m.restart()
	}
}

// deliver hands the next event to the handler, through the store.
func (m *model) deliver() {
	if len(m.stream) == 0 {
		return
	}
	e := m.stream[0]
	m.stream = m.stream[1:]
	m.see(e.object, e.state, e.deleted)
}

func (m *model) see(i int, state *unstructured.Unstructured, deleted bool) {
	shrunk, err := m.shrink(state)
	require.NoError(m.t, err)
	snapshot, ok := shrunk.(*Snapshot)
	require.True(m.t, ok)
	before, known := m.store[i]
	switch {
	case deleted:
		delete(m.store, i)
		m.handler.OnDelete(snapshot)
	case known:
		m.store[i] = snapshot
		m.handler.OnUpdate(before, snapshot)
	default:
		m.store[i] = snapshot
		m.handler.OnAdd(snapshot, false)
	}
}

// relist has the informer list anew: what is on its way is lost. What was created
// and deleted since, the handler is never told of, so the owner looks at everything.
func (m *model) relist() {
	m.stream = nil
	m.factory.EnqueueAll(owner)
	for i, object := range m.objects {
		before, known := m.store[i]
		switch {
		case object.exists:
			m.see(i, m.live(i), false)
		case known:
			delete(m.store, i)
			m.handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: before})
		}
	}
}

// restart begins anew with what the status has. What was sent and not answered is
// done all the same.
func (m *model) restart() {
	m.factory = NewFactory(NewIndex())
	m.handler = m.factory.HandlerFor("", smallConfigMap.gvr)
	m.shrink = m.factory.TransformFor("", smallConfigMap.gvr)
	m.store, m.flights = map[int]*Snapshot{}, nil
	known := map[ObjectKey]Applied{}
	for key, applied := range m.status {
		applied.ResourceVersion = "" // the status has none
		known[key] = applied
	}
	m.factory.index.Load(owner, known)
	m.relist()
	m.pass(true)
}

// pass begins to look at what there is to look at, or at everything.
func (m *model) pass(all bool) {
	if len(m.flights) > 0 {
		return // passes of one owner do not overlap
	}
	causes := m.factory.TakeCauses(owner)
	for i := range m.objects {
		key := smallConfigMap.key(i)
		cause, found := causes.Objects[key]
		if snapshot, kept := m.store[i]; !found && (all || causes.All) && !m.factory.index.AsExpected(owner, key, snapshot, kept) {
			cause, found = Cause{Unsure: true}, true
		}
		if !found || cause.Unsure && m.inOrder(i, key) {
			continue
		}
		m.factory.index.Begin(owner, key, v1alpha1.FieldManager(owner.Name))
		m.flights = append(m.flights, modelFlight{object: i})
	}
}

// inOrder looks at an object in the API server.
func (m *model) inOrder(i int, key ObjectKey) bool {
	expected, known := m.factory.index.Expected(owner, key)
	return known && m.objects[i].exists && DigestOf(m.live(i), expected.Manager, false, nil) == expected.Digest
}

// fly has an apply reach the API server, or its answer reach us.
func (m *model) fly() {
	if len(m.flights) == 0 {
		return
	}
	n := m.random.IntN(len(m.flights))
	flight := &m.flights[n]
	if flight.response == nil {
		m.patches++
		if object := m.objects[flight.object]; !object.exists || object.value != ours {
			m.write(flight.object, ours)
		}
		flight.response = m.live(flight.object)
		return
	}
	applied := m.applied(flight.response)
	key := smallConfigMap.key(flight.object)
	m.factory.Commit(owner, key, applied)
	m.status[key] = applied
	m.flights = append(m.flights[:n], m.flights[n+1:]...)
}

// drain has everything happen that is under way, and nothing else.
func (m *model) drain() {
	for quiet := 0; quiet < 2; {
		if len(m.stream) == 0 && len(m.flights) == 0 {
			quiet++
		} else {
			quiet = 0
		}
		m.deliver()
		m.fly()
		m.pass(false)
	}
}
