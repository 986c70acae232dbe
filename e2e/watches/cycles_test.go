package watches

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const (
	// cycledKinds are created and deleted at the same time. More of them are not
	// faster: the API server has to rebuild what it says of all its kinds for each.
	cycledKinds = 4
	// warmUpCycles, and cyclesShort or cyclesLong, are how often each of them is: 48 times in
	// all, or 1,000 times in long tests. A goroutine or an informer that each cycle leaves behind
	// is found in 28 cycles, too.
	warmUpCycles            = 5
	cyclesShort, cyclesLong = 7, 245
)

// TestCRDCycles creates and deletes kinds again and again while they are
// needed, and looks at what that leaves behind in the process of the registry. It
// is not parallel, because it measures this process.
func TestCRDCycles(t *testing.T) {
	cycles := suite.Size(cyclesShort, cyclesLong)
	var requests atomic.Int64
	l := newLab(t, labOptions{direct: true, config: counting(env.Config, &requests)})
	kinds := make([]*cycledKind, cycledKinds)
	for i := range kinds {
		kinds[i] = newCycledKind(t, l, i)
	}
	l.Sync(owner("undisturbed"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)

	cycleAll(t, "warm-up", kinds, warmUpCycles)
	before := usageAtRest(t, l)
	sent, start := requests.Load(), time.Now()
	cycleAll(t, "cycles", kinds, cycles)
	elapsed := time.Since(start)
	each := float64(requests.Load()-sent) / float64(cycledKinds*cycles)
	for _, k := range kinds {
		await(t, func(c *assert.CollectT) { // one is told after the other
			assert.Equal(c, l.states(k.owners[0].Name, k.key), l.states(k.owners[1].Name, k.key), "two owners are told the same")
		})
	}
	after := usageAtRest(t, l)

	var took []time.Duration
	for _, k := range kinds {
		took = append(took, k.took...)
	}
	slices.Sort(took)
	late := max(3, len(took)/100) // of few cycles, one that a busy machine delays is more than one in a hundred
	median, nearlyAll := took[len(took)/2], took[len(took)-1-late]
	t.Logf("%d cycles in %s: %.1f a second, %.1f requests each",
		cycledKinds*cycles, elapsed.Round(time.Second), float64(cycledKinds*cycles)/elapsed.Seconds(), each)
	t.Logf("Synced after the kind was created: median %s, all but %d %s, at most %s", median, late, nearlyAll, took[len(took)-1])
	t.Logf("goroutines %d -> %d, heap %d -> %d KiB", before.goroutines, after.goroutines, before.heap>>10, after.heap>>10)

	// By itself a watch looks after a second. Where the machine is busy, all takes longer.
	require.Less(t, median, time.Second, "a kind that comes is noticed")
	require.Less(t, nearlyAll, max(time.Second, 10*median), "and not found later")
	require.Less(t, each, 30.0, "nothing is asked for in a loop")
	require.LessOrEqual(t, after.goroutines, before.goroutines+5)
	require.Less(t, after.heap, before.heap+512<<10, "less than what an informer of each cycle would add up to")
	require.EqualValues(t, 1, l.watch(configMaps).InformerRuns, "another kind's watch is not disturbed")
	require.NoError(t, testutil.CollectAndCompare(l.Collector("vidra"), strings.NewReader(`
# HELP vidra_watch_incomplete_hand_overs_total Informers of kinds that are no longer served that stopped before their handler had received every event.
# TYPE vidra_watch_incomplete_hand_overs_total counter
vidra_watch_incomplete_hand_overs_total 0
`), "vidra_watch_incomplete_hand_overs_total"), "no event is lost when an informer stops")
	require.Empty(t, l.Audit())
}

// counting is a configuration whose clients count their requests.
func counting(config *rest.Config, requests *atomic.Int64) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	return config
}

// cycledKind is a kind that comes and goes.
type cycledKind struct {
	lab *lab
	crd *apiextensionsv1.CustomResourceDefinition
	key watchregistry.Key
	// owners need the watch; the first one waits for the kind, too.
	owners [2]watchregistry.Owner
	// took is how long the watch took to be Synced, of each cycle.
	took []time.Duration
}

// newCycledKind describes a kind that two owners need and that does not exist.
func newCycledKind(t *testing.T, l *lab, number int) *cycledKind {
	t.Helper()
	crd := testenv.CRD(unique(t))
	k := &cycledKind{
		lab: l, crd: crd, key: keyOf(crd),
		owners: [2]watchregistry.Owner{owner(fmt.Sprintf("one-%d", number)), owner(fmt.Sprintf("two-%d", number))},
		took:   make([]time.Duration, 0, warmUpCycles+cyclesLong),
	}
	for _, o := range k.owners {
		l.Sync(o, []watchregistry.Key{k.key})
	}
	l.becomes(t, k.key, watchregistry.Pending)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	return k
}

// cycleAll has all kinds come and go, at the same time.
func cycleAll(t *testing.T, name string, kinds []*cycledKind, times int) {
	t.Helper()
	require.True(t, t.Run(name, func(t *testing.T) {
		for i, k := range kinds {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel() // with its siblings alone: the test itself is not
				for range times {
					k.cycle(t)
				}
			})
		}
	}))
}

// cycle creates the kind and deletes it.
func (k *cycledKind) cycle(t *testing.T) {
	t.Helper()
	waits := k.owners[0]
	gvk := kindOf(k.crd)
	k.lab.note(func() { k.lab.arrived[waits.Name] = nil })
	k.lab.Await(waits, []watchregistry.Kind{{GVK: gvk}})

	var created time.Time
	await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Create(context.Background(), k.crd.DeepCopy()), "the old one has gone")
		created = time.Now()
	})
	k.lab.becomes(t, k.key, watchregistry.Synced)
	k.took = append(k.took, k.lab.watch(k.key).Since.Sub(created))
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, []schema.GroupVersionKind{gvk}, k.lab.kinds(waits.Name), "who waits for the kind is told once")
	})
	require.NoError(t, admin.Delete(t.Context(), k.crd))
	k.lab.becomes(t, k.key, watchregistry.Pending)
}

// usage is what the process uses.
type usage struct {
	goroutines int
	heap       uint64
}

// usageAtRest is what the process uses while nothing is under way, without what
// the lab has noted.
func usageAtRest(t *testing.T, l *lab) usage {
	t.Helper()
	var u usage
	last, same := 0, 0
	await(t, func(c *assert.CollectT) { // what has just ended needs a moment
		u.goroutines = runtime.NumGoroutine()
		if same++; u.goroutines != last {
			last, same = u.goroutines, 0
		}
		assert.Greater(c, same, 20, "the number of goroutines does not change any more")
	})
	l.note(func() { l.told = nil }) // now that all owners were told
	runtime.GC()
	runtime.GC() // what has a finalizer, or was pooled, goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap = m.HeapAlloc
	return u
}
