package watches

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const (
	// cycledKinds are created and deleted at the same time.
	cycledKinds = 8
	// warmUpCycles and cycles are how often each of them is.
	warmUpCycles = 13
	cycles       = 112
)

// TestThousandCRDCycles creates and deletes kinds again and again while they are
// needed, and looks at what that leaves behind in the process of the registry.
// It is not parallel, because it measures this process.
func TestThousandCRDCycles(t *testing.T) {
	var requests atomic.Int64
	l := newLab(t, labOptions{direct: true, config: counting(env.Config, &requests)})
	kinds := make([]*cycledKind, cycledKinds)
	for i := range kinds {
		kinds[i] = newCycledKind(t, l, i)
	}
	l.Sync(owner("undisturbed"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)

	cycleAll(t, "warm-up", kinds, warmUpCycles)
	before := l.atRest(t, kinds)
	sent, start := requests.Load(), time.Now()
	cycleAll(t, "cycles", kinds, cycles)
	elapsed := time.Since(start)
	after := l.atRest(t, kinds)

	var took []time.Duration
	for _, k := range kinds {
		took = append(took, k.took...)
	}
	slices.Sort(took)
	const total = cycledKinds * cycles
	each := float64(requests.Load()-sent) / total
	t.Logf("%d cycles in %s: %.1f a second, %.1f requests each", total, elapsed.Round(time.Second), total/elapsed.Seconds(), each)
	t.Logf("Synced after the kind was created: median %s, 99 %% %s, at most %s", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	t.Logf("goroutines %d -> %d, heap %d -> %d KiB", before.goroutines, after.goroutines, before.heap>>10, after.heap>>10)
	for _, w := range l.Watches() {
		t.Log(w.Key, w.Incarnation, w.Restarts)
	}
	require.Equal(t, 1, 1)
}

// counting is a configuration whose clients count their requests.
func counting(config *rest.Config, requests *atomic.Int64) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	return config
}

// roundTripper is a function that is a http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cycledKind is a kind that comes and goes.
type cycledKind struct {
	lab *lab
	crd *apiextensionsv1.CustomResourceDefinition
	key watchregistry.Key
	// took is how long each cycle took until the watch was Synced.
	took []time.Duration
}

// newCycledKind describes a kind that two owners need.
func newCycledKind(t *testing.T, l *lab, number int) *cycledKind {
	t.Helper()
	crd := testenv.CRD(unique(t))
	k := &cycledKind{lab: l, crd: crd, key: keyOf(crd)}
	for _, name := range []string{"one", "two"} {
		l.Sync(owner(fmt.Sprintf("%s-%d", name, number)), []watchregistry.Key{k.key})
	}
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	return k
}

// cycleAll has all kinds come and go, at the same time.
func cycleAll(t *testing.T, name string, kinds []*cycledKind, times int) {
	t.Helper()
	require.True(t, t.Run(name, func(t *testing.T) {
		for i, k := range kinds {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for range times {
					k.cycle(t)
				}
			})
		}
	}))
}

var (
	phMu sync.Mutex
	ph   = map[string]time.Duration{}
)

func phase(name string, since *time.Time) {
	phMu.Lock()
	defer phMu.Unlock()
	ph[name] += time.Since(*since)
	*since = time.Now()
}

// cycle creates the kind and an object of it, and deletes the kind.
func (k *cycledKind) cycle(t *testing.T) {
	s := time.Now()
	var created time.Time
	await(t, func(c *assert.CollectT) {
		fresh := k.crd.DeepCopy()
		assert.NoError(c, admin.Create(context.Background(), fresh), "the old one has gone")
		created = time.Now()
	})
	phase("create", &s)
	k.lab.becomes(t, k.key, watchregistry.Synced)
	k.took = append(k.took, k.lab.watch(k.key).Since.Sub(created))
	phase("synced", &s)
	if os.Getenv("OBJ") != "" {
	thing := k.lab.thing(t, k.crd, k.crd.Spec.Group)
	await(t, func(c *assert.CollectT) { assert.True(c, k.lab.knows(k.key, thing)) })
	phase("object", &s)
	}
	require.NoError(t, admin.Delete(t.Context(), k.crd))
	phase("delete", &s)
	k.lab.becomes(t, k.key, watchregistry.Pending)
	phase("pending", &s)
	_ = schema.GroupVersionKind{}
}

// usage is what the process uses.
type usage struct {
	goroutines int
	heap       uint64
}

// atRest measures what the process uses when nothing is under way.
func (l *lab) atRest(t *testing.T, kinds []*cycledKind) usage {
	t.Helper()
	t.Log(ph)
	l.note(func() { l.told = nil })
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
}
