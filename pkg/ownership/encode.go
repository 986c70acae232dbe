package ownership

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	// chunk is how many bytes are encoded before they are hashed.
	chunk = 4096
	// maxKeys is how many keys an encoder may keep room for while it is unused.
	maxKeys = 4096
)

// encoder hashes an encoding of owned fields. Each part of the encoding begins
// with a tag and has its length or is closed by another, so that each encoding is unique. It
// takes the same memory for an object of any size, but for the keys of its maps.
type encoder struct {
	hash hash.Hash
	// buf holds encoded bytes that are still to be hashed.
	buf []byte
	// keys is a stack of the sorted keys of the maps that are being encoded.
	keys []string
	// at leads to the owned fields that are being encoded, with the trees of all other managers in the object.
	at treesAt
	// floats reports that numbers are equal if they are as float64.
	floats bool
}

// encoders holds the unused encoders.
var encoders = sync.Pool{New: func() any {
	return &encoder{hash: sha256.New(), buf: make([]byte, 0, 2*chunk), keys: make([]string, 0, 64)}
}}

// digest ends the encoding, and returns the encoder to the pool.
func (e *encoder) digest() Digest {
	e.flush()
	e.at.clear()
	var d Digest
	copy(d[:], e.hash.Sum(e.buf))
	e.hash.Reset()
	if cap(e.keys) <= maxKeys {
		encoders.Put(e)
	}
	return d
}

func (e *encoder) flush() {
	// The error of a hash is always nil; see hash.Hash.
	_, _ = e.hash.Write(e.buf)
	e.buf = e.buf[:0]
}

// tag begins or ends a part of the encoding.
func (e *encoder) tag(tag byte) {
	if len(e.buf) >= chunk {
		e.flush()
	}
	e.buf = append(e.buf, tag)
}

func (e *encoder) integer(i int64) { e.buf = binary.AppendVarint(e.buf, i) }

// string encodes a string with its length.
func (e *encoder) string(tag byte, s string) {
	e.tag(tag)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(s)))
	for len(s) > chunk {
		e.buf = append(e.buf, s[:chunk]...)
		e.flush()
		s = s[chunk:]
	}
	e.buf = append(e.buf, s...)
}

// owned encodes the paths of fields and the values that live has there.
func (e *encoder) owned(fields fieldsV1, live any) {
	n := node{live: live}
	first, end := e.push(fields)
	for i := first; i < end; i++ {
		key := e.keys[i]
		e.string('p', key)
		if key == "." {
			continue // the field itself is owned: that it exists is what counts
		}
		child, found := n.find(key)
		sub, _ := fields[key].(map[string]any)
		if !found {
			e.tag('a')
		}
		e.at.descend(key)
		switch {
		case len(sub) > 0:
			e.tag('{')
			e.owned(sub, child)
			e.tag('}')
		case found && e.shared(child):
			e.value(map[string]any{})
		case found:
			e.value(child)
		}
		e.at.ascend()
	}
	if first < end && hasKeylessItem(n.live, e.keys[end-1]) {
		e.tag('!')
	}
	e.pop(first)
}

// hasKeylessItem reports whether a list has an item without any of the keys that key has, which is the key of another item.
// For server-side apply, such a list is unreadable: it refuses all that is applied to the object. Until Kubernetes 1.36, the API
// server removes the managedFields of the object then; 1.37 keeps them as they were.
func hasKeylessItem(live any, key string) bool {
	list, ok := live.([]any)
	if !ok || !strings.HasPrefix(key, "k:") {
		return false
	}
	if name, text, ok := plainKey(key); ok {
		return text != "" && slices.ContainsFunc(list, func(item any) bool {
			m, ok := item.(map[string]any)
			_, has := m[name]
			return ok && !has
		})
	}
	element, err := fieldpath.DeserializePathElement(key)
	if err != nil || element.Key == nil {
		return false
	}
	return slices.ContainsFunc(list, func(item any) bool {
		_, ok := item.(map[string]any)
		return ok && !selects(element, item) && !hasKeyOf(item, element)
	})
}

// shared reports whether a value that is owned as a leaf, at the present path, is a map in which others own something. Then it
// was applied empty, and its contents are theirs: a map that is owned as a whole has no owner below it.
func (e *encoder) shared(value any) bool {
	if m, ok := value.(map[string]any); !ok || len(m) == 0 {
		return false
	}
	return e.at.anyBelow()
}

// value encodes a JSON value so that equal values have equal encodings.
func (e *encoder) value(v any) {
	switch v := v.(type) {
	case nil:
		e.tag('n')
	case bool:
		if v {
			e.tag('t')
		} else {
			e.tag('f')
		}
	case string:
		e.string('s', v)
	case int64:
		if e.floats {
			e.float(float64(v))
			break
		}
		e.tag('i')
		e.integer(v)
	case float64:
		e.float(v)
	case []any:
		e.tag('[')
		for _, item := range v {
			e.value(item)
		}
		e.tag(']')
	case map[string]any:
		e.tag('{')
		first, end := e.push(v)
		for i := first; i < end; i++ {
			key := e.keys[i]
			e.string('k', key)
			e.value(v[key])
		}
		e.pop(first)
		e.tag('}')
	default:
		// Unstructured content has no other types; see
		// k8s.io/apimachinery/pkg/runtime.DeepCopyJSONValue, which panics here.
		e.tag('?')
	}
}

// float encodes a number that was written with a point or an exponent, or that
// is too large for an integer. One that is an integer is encoded as such.
func (e *encoder) float(f float64) {
	const limit = 1 << 63 // of int64
	if f == math.Trunc(f) && -limit <= f && f < limit {
		e.tag('i')
		e.integer(int64(f))
		return
	}
	e.tag('d')
	e.buf = binary.BigEndian.AppendUint64(e.buf, math.Float64bits(f))
}

// push puts the sorted keys of m on the stack: they are from first to end.
func (e *encoder) push(m map[string]any) (first, end int) {
	first = len(e.keys)
	for key := range m {
		e.keys = append(e.keys, key)
	}
	slices.Sort(e.keys[first:])
	return first, len(e.keys)
}

// pop removes the keys from first on from the stack and frees their memory.
func (e *encoder) pop(first int) {
	clear(e.keys[first:])
	e.keys = e.keys[:first]
}
