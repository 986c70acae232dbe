package trigger

import (
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// maxHeld is how many bytes of memory the whole objects take that were changed and are
	// not healed yet, of all owners together. maxHeldEach is how many one object takes.
	// Beyond it the owner reads the object when it looks at it.
	maxHeld     = 48 << 20
	maxHeldEach = 2 << 20
)

// heldObjects counts the memory that whole objects take, for as long as they are
// reachable: in a Snapshot that is not judged yet, in a Cause, or in a reconcile. It is
// safe for concurrent use.
type heldObjects struct {
	used atomic.Int64
	// refused counts the objects that were not kept.
	refused prometheus.Counter
}

// hold reports whether an object may be kept. It is given back when it is garbage.
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

// What parts of unstructured content take in memory, about.
const (
	emptyMapBytes, smallMapBytes, entryBytes = 48, 320, 56
	listBytes, itemBytes, scalarBytes        = 24, 16, 16
)

// memoryOf estimates the memory that unstructured content takes, up to somewhat above
// most.
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
