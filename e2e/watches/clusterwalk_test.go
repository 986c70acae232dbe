package watches

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// clusterWalk is a registry whose clusters come and go, with a simple model of it.
type clusterWalk struct {
	*lab
	random *rand.Rand
	// clusters come and go, besides the local one, and present says which are there.
	clusters []string
	present  map[string]bool
	keys     []watchregistry.Key
	// needs holds the watches that each owner needs.
	needs map[watchregistry.Owner]map[watchregistry.Key]bool
}

// TestRandomClusterSteps has clusters come and go at random among owners who come and
// go, and compares with the model after each step who holds which watch.
func TestRandomClusterSteps(t *testing.T) {
	t.Parallel()
	steps, seed := suite.Size(100, 2_000), suite.Seed(t)
	count := goroutines(t)
	w := &clusterWalk{
		lab:      newLab(t, labOptions{linger: 5 * time.Millisecond}),
		random:   rand.New(rand.NewPCG(seed, 0)),
		clusters: []string{"a", "b", "c"},
		present:  map[string]bool{"": true},
		keys:     builtIn(3),
		needs:    map[watchregistry.Owner]map[watchregistry.Key]bool{},
	}
	for _, name := range w.clusters {
		w.keys = append(w.keys, at(name, builtIn(3)...)...)
	}
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, 2, w.Streams(faultproxy.Match{}), "those of kinds")
	})
	before := settled(t, count)
	for step := range steps {
		w.step(t)
		require.Empty(t, w.Audit(), "step %d", step)
		require.Equal(t, w.needs, w.held(), "step %d", step)
	}

	all := slices.DeleteFunc(w.keys, func(key watchregistry.Key) bool { return !w.present[key.Cluster] })
	w.Sync(owner("last"), all)
	w.synced(t, all)
	for _, name := range w.clusters {
		w.RemoveCluster(name)
	}
	w.Release(owner("last"))
	for o := range w.needs {
		w.Release(o)
	}
	await(t, func(c *assert.CollectT) { assert.LessOrEqual(c, count(), before, "all goroutines end") })
}

// step takes a step.
func (w *clusterWalk) step(t *testing.T) {
	t.Helper()
	name, o := w.clusters[w.random.IntN(len(w.clusters))], owner(fmt.Sprint(w.random.IntN(4)))
	some := make([]watchregistry.Key, 3)
	for i := range some {
		some[i] = w.keys[w.random.IntN(len(w.keys))]
	}
	switch n := w.random.IntN(100); {
	case n < 50:
		w.Sync(o, some)
		w.needs[o] = map[watchregistry.Key]bool{}
		for _, key := range some {
			if w.present[key.Cluster] {
				w.needs[o][key] = true
			}
		}
	case n < 60:
		w.Release(o)
		delete(w.needs, o)
	case n < 65:
		w.Wake(name)
		w.WakeWatch(some[0])
	case n < 70:
		w.Await(o, []watchregistry.Kind{{Cluster: name, GVK: configMaps.GVR.GroupVersion().WithKind("ConfigMap")}})
	case w.present[name]:
		w.RemoveCluster(name)
		w.present[name] = false
		for _, keys := range w.needs {
			maps.DeleteFunc(keys, func(key watchregistry.Key, _ bool) bool { return key.Cluster == name })
		}
	default:
		w.add(t, name, env.Config)
		w.present[name] = true
	}
	maps.DeleteFunc(w.needs, func(_ watchregistry.Owner, keys map[watchregistry.Key]bool) bool { return len(keys) == 0 })
}

// held are the watches that each owner has.
func (w *clusterWalk) held() map[watchregistry.Owner]map[watchregistry.Key]bool {
	held := map[watchregistry.Owner]map[watchregistry.Key]bool{}
	for _, watch := range w.Watches() {
		for _, o := range watch.Owners {
			if held[o] == nil {
				held[o] = map[watchregistry.Key]bool{}
			}
			held[o][watch.Key] = true
		}
	}
	return held
}
