package trigger

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// largeObject is an object of about size bytes.
func largeObject(size int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"text": strings.Repeat("x", size)}}}
}

// TestHeldObjects shows that the objects that wait for a heal take a bounded amount of
// memory, and that it is given back with the last of them.
func TestHeldObjects(t *testing.T) {
	f := NewFactory(NewIndex())
	require.False(t, f.held.hold(largeObject(maxHeldEach+1)), "one object does not take all")
	var kept []*unstructured.Unstructured
	for {
		u := largeObject(maxHeldEach / 2)
		if !f.held.hold(u) {
			break
		}
		kept = append(kept, u)
	}
	require.InDelta(t, 2*maxHeld/maxHeldEach, len(kept), 2)
	require.False(t, f.held.hold(largeObject(maxHeldEach/2)))
	require.InDelta(t, 3, testutil.ToFloat64(f.metrics.notKept), 0)
	runtime.KeepAlive(kept)

	clear(kept)
	require.Eventually(t, func() bool {
		runtime.GC()
		return f.held.used.Load() == 0
	}, 30*time.Second, time.Millisecond)
	require.True(t, f.held.hold(largeObject(maxHeldEach/2)))
}

// TestCausesBeyondTheMemory shows what becomes of causes whose objects are not kept: they
// are not lost, and the owner reads the object.
func TestCausesBeyondTheMemory(t *testing.T) {
	f := NewFactory(NewIndex())
	owner := Owner{Name: "shop"}
	small, large := ObjectKey{Name: "small"}, ObjectKey{Name: "large"}
	f.RequeueCauses(owner, Causes{Objects: map[ObjectKey]Cause{
		small: {Found: largeObject(10)},
		large: {Found: largeObject(maxHeldEach + 1)},
	}})
	causes := f.TakeCauses(owner)
	require.NotNil(t, causes.Objects[small].Found)
	require.Equal(t, Cause{Unsure: true}, causes.Objects[large])
	used := f.held.used.Load()
	require.Positive(t, used)
	f.RequeueCauses(owner, causes)
	require.Equal(t, used, f.held.used.Load(), "an object counts once, however often it is given back")
	runtime.KeepAlive(causes)
}

// TestMemoryOf compares the estimate with what objects take.
func TestMemoryOf(t *testing.T) {
	for name, text := range map[string]string{
		"Text":      `{"a":"` + strings.Repeat("x", 500_000) + `"}`,
		"Numbers":   `{"a":[` + strings.Repeat("1,", 50_000) + `1]}`,
		"EmptyMaps": `{"a":[` + strings.Repeat("{},", 50_000) + `1]}`,
		"SmallMaps": `{"a":[` + strings.Repeat(`{"a":{"b":"c"}},`, 10_000) + `1]}`,
		"LargeMap":  `{` + keys(20_000) + `"a":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			empty := liveHeap()
			var content map[string]any
			require.NoError(t, json.Unmarshal([]byte(text), &content))
			took := liveHeap() - empty
			estimate := memoryOf(content, 1<<30)
			t.Logf("%d bytes of text take %d in memory, estimated %d", len(text), took, estimate)
			require.Less(t, float64(took), 2*float64(estimate)+100_000)
			require.Greater(t, float64(took)+100_000, 0.4*float64(estimate))
			runtime.KeepAlive(content)
			require.LessOrEqual(t, memoryOf(content, 1000), estimate, "it stops early")
		})
	}
}

// keys are n fields of a JSON object.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"key-%d":"value",`, i)
	}
	return b.String()
}
