package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// hostileMemory is the memory limit of the container in config/manager.
	hostileMemory = 512 << 20
	// hostileSize is the size of each manifest as etcd has it, which accepts 1.5 MiB.
	hostileSize = 1_300_000
	// hostileKept is how many VidraResources have a manifest that is accepted and kept. Each
	// of the other worst manifests one has, and some of them none but in long tests, where
	// hostileEachLong and hostileKeptLong make 50 together: so many that the memory would not
	// do if all of each was kept.
	hostileKept, hostileKeptLong = 1, 14
	hostileEachLong              = 4
	// hostileTimeout bounds the wait until all of them were read.
	hostileTimeout = 3 * time.Minute
	// hostilePause is the time between two edits of another object meanwhile.
	hostilePause = 200 * time.Millisecond
	// hostileParts is how many ConfigMaps of 1 MiB hold parts.
	hostileParts = 9
)

// hostileManifests are the manifests that take the most memory and time, with what the
// status says of them.
func hostileManifests() map[string]hostile {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	const begin = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":[`
	encoded := func(part string) int { return len(strconv.Quote(part)) - 2 } // as etcd has it
	fill := func(part string) string { return strings.Repeat(part, hostileSize/encoded(part)) }
	documents := func(n int, format string) string {
		var b strings.Builder
		for i := 0; i < n && b.Len() < hostileSize-hostileSize/20; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	parts := func(n int) []v1alpha1.ManifestSource {
		var from []v1alpha1.ManifestSource
		for i := range n {
			from = append(from, v1alpha1.ManifestSource{Kind: "ConfigMap", Name: fmt.Sprintf("part-%d", i%hostileParts), Key: "m"})
		}
		return from
	}
	return map[string]hostile{
		"values":    {manifest: object + "x: [" + fill("a,") + "a]", says: "more than 100000 values", long: true},
		"comments":  {manifest: object + "x: [\n" + fill("a,#\n") + "]", says: "more than 100000 values"},
		"maps":      {manifest: begin + fill(`{"":{"":{"":{}}}},`) + "1]}", says: "more than 100000 values"},
		"aliases":   {manifest: object + "y: &a {}\nx: [" + fill("*a,") + "a]", says: "aliases expand", long: true},
		"documents": {manifest: documents(1<<20, "{apiVersion: v1,kind: ConfigMap,metadata: {name: a%x}}\n---\n"), says: "more than 5000 objects"},
		"deep":      {manifest: object + "x: " + strings.Repeat("[", hostileSize), says: "cannot be read as YAML", long: true},
		"text":      {manifest: object + "data: {text: '" + strings.Repeat("<", 150_000) + "'}", says: "", long: true},
		"refused":   {manifest: documents(500, "{apiVersion: v1,kind: ConfigMap,metadata: {name: b%x, namespace: nowhere}}\n---\n"), says: "nowhere"},
		"parts":     {from: parts(7), says: ""},
		"manyParts": {from: parts(64), says: "make several VidraResources of it"},
	}
}

// hostile is one of the worst manifests.
type hostile struct {
	manifest string
	from     []v1alpha1.ManifestSource
	// says is what the condition Ready says of it; empty if it is accepted.
	says string
	// long is true for what is much like another one, and left to long tests.
	long bool
}

// TestHostileManifests has VidraResources with the worst manifests, and an operator that
// may take 512 MiB. It stays below that, and the edit of an object of another
// VidraResource is reverted meanwhile.
func TestHostileManifests(t *testing.T) {
	stopOperator(t)
	limited := startPlainOperator(t, "MEMORY_LIMIT="+strconv.Itoa(hostileMemory))

	ns, hostileNamespace := newNamespace(t), newNamespace(t)
	newVidraResource(t, ns, configMap("neighbour", "hello"))
	awaitReady(t, ns)
	neighbour := declared(t, ns, configMap("neighbour", "hello"))[0]
	for i := range hostileParts {
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: part-of-%d}\ndata: {text: '%s'}\n", i, strings.Repeat("<", 1_000_000))
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: hostileNamespace, Name: fmt.Sprintf("part-%d", i)}, Data: map[string]string{"m": text},
		}))
	}
	var alone []time.Duration
	for i := range 10 {
		alone = append(alone, healTime(t, neighbour, i))
	}
	t.Logf("it takes %s before, and a heal %s", memoryOf(t, limited.PID), median(alone))

	all := hostileManifests()
	names := map[string]hostile{}
	var creating errgroup.Group
	creating.SetLimit(4)
	for shape, h := range all {
		each := suite.Size(1, hostileEachLong)
		switch {
		case shape == "parts":
			each = suite.Size(hostileKept, hostileKeptLong)
		case h.long:
			each = suite.Size(0, hostileEachLong)
		}
		for i := range each {
			name := fmt.Sprintf("%s-%s-%d", hostileNamespace, strings.ToLower(shape), i)
			names[name] = h
			creating.Go(func() error {
				v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
				v.Spec.Destination.Namespace, v.Spec.Manifest, v.Spec.ManifestFrom = hostileNamespace, h.manifest, h.from
				v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
				return admin.Create(context.Background(), v)
			})
		}
	}
	t.Cleanup(func() {
		for name := range names {
			if err := deleteVidraResource(context.Background(), name); !apierrors.IsNotFound(err) {
				assert.NoError(t, err)
			}
		}
		for name := range names { // otherwise the next operator has them
			awaitGoneFor(t, hostileTimeout, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	})
	var meanwhile []time.Duration
	created := make(chan error, 1)
	go func() { created <- creating.Wait() }()
	for waiting := true; waiting; {
		meanwhile = append(meanwhile, healTime(t, neighbour, 100+len(meanwhile)))
		select {
		case err := <-created:
			require.NoError(t, err)
			waiting = false
		case <-time.After(hostilePause):
		}
	}
	for name, h := range names {
		require.Eventually(t, func() bool {
			meanwhile = append(meanwhile, healTime(t, neighbour, 100+len(meanwhile)))
			return h.isJudged(getVidraResource(t, name))
		}, hostileTimeout, hostilePause, name)
	}
	t.Logf("it took %s at most; %d heals meanwhile, median %s, longest %s", memoryOf(t, limited.PID), len(meanwhile), median(meanwhile), slices.Max(meanwhile))
	requireBounded(t, limited, alone, meanwhile)
}

// requireBounded requires that an operator runs, has stayed below hostileMemory, and has
// healed another object meanwhile. alone and meanwhile are the times of its heals.
func requireBounded(t *testing.T, limited *testenv.Operator, alone, meanwhile []time.Duration) {
	t.Helper()
	require.Less(t, memoryOf(t, limited.PID), memory(hostileMemory))
	// A heal waits for a worker and for the API server, which is busy as well.
	require.Less(t, median(meanwhile), 20*median(alone)+time.Second)
	require.NoError(t, limited.Err(), "it runs")
}

// isJudged reports whether the status says what is wrong.
func (h hostile) isJudged(v *v1alpha1.VidraResource) bool {
	if h.says == "" {
		return v.Status.ObservedGeneration == v.Generation
	}
	return strings.Contains(conditionMessage(v), h.says)
}

// conditionMessage is what the condition Ready says.
func conditionMessage(v *v1alpha1.VidraResource) string {
	for _, c := range v.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Message
		}
	}
	return ""
}

// healTime edits a ConfigMap and returns how long it takes until the edit is reverted.
func healTime(t *testing.T, obj *unstructured.Unstructured, i int) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, mergePatch(obj, `{"data":{"greeting":"changed %d"}}`, i))
	cluster.AwaitObject(t, 2*patience, obj, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, obj)) })
	return time.Since(start)
}

// median is the one in the middle.
func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// memory is a number of bytes.
type memory int64

func (m memory) String() string { return fmt.Sprintf("%d MiB", m>>20) }

var peakMemoryLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// memoryOf is the most memory that a process has had.
func memoryOf(t *testing.T, pid int) memory {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	line := peakMemoryLine.FindSubmatch(status)
	require.NotNil(t, line, "%s", status)
	kilobytes, err := strconv.ParseInt(string(line[1]), 10, 64)
	require.NoError(t, err)
	return memory(kilobytes << 10)
}
