package trigger

import (
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// maxHeld limits the memory, in bytes, of all whole objects that were changed and are still to be healed, maxHeldEach the
	// memory of one object. An object beyond it is not stored: the owner reads it from the API server.
	maxHeld     = 48 << 20
	maxHeldEach = 2 << 20
)

// heldObjects counts the memory of whole objects, for as long as they are reachable: in a
// Snapshot that is still to be judged, in a Cause, or in a reconcile. It is safe for concurrent
// use.
type heldObjects struct {
	used atomic.Int64
	// refused counts the objects that were not stored.
	refused prometheus.Counter
}

// hold reports whether an object may be stored. Its memory is released by the garbage collector.
func (h *heldObjects) hold(u *unstructured.Unstructured) bool {
	size := memoryOf(u.Object, maxHeldEach)
	if size > maxHeldEach || h.used.Add(size) > maxHeld {
		if size <= maxHeldEach {
			h.used.Add(-size)
		}
		h.refused.Inc()
		return false
	}
	runtime.AddCleanup(u, func(size int64) { h.used.Add(-size) }, size)
	return true
}

// Approximate memory of the parts of unstructured content.
const (
	emptyMapBytes, smallMapBytes, entryBytes = 48, 320, 56
	listBytes, itemBytes, scalarBytes        = 24, 16, 16
)

// memoryOf estimates the memory of unstructured content. It stops somewhat above most.
func memoryOf(value any, most int64) int64 {
	size := int64(scalarBytes)
	switch value := value.(type) {
	case string:
		size += int64(len(value))
	case map[string]any:
		switch n := len(value); {
		case n == 0:
			size = emptyMapBytes
		case n <= 8:
			size = smallMapBytes
		default:
			size = int64(n) * entryBytes
		}
		for key, field := range value {
			if size += int64(len(key)); size > most {
				return size
			}
			size += memoryOf(field, most-size)
		}
	case []any:
		size = listBytes
		for _, item := range value {
			if size += itemBytes; size > most {
				return size
			}
			size += memoryOf(item, most-size)
		}
	}
	return size
}
