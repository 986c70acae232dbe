package ownership

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// digestVersion is the version of the algorithm. It is the first part of a
// Digest's text, so that a digest that an older Vidra wrote is not mistaken for
// a drift but recomputed.
const digestVersion = "1"

// Digest identifies the fields that a manager owns in an object, with their
// values. Digests are comparable with ==. They do not depend on the order of
// maps, on how a number is encoded, or on the process that computed them.
type Digest [16]byte

// String is the digest with the version of its algorithm, as it stands in a
// status: "1:" and 22 characters of base64.
func (d Digest) String() string {
	return digestVersion + ":" + base64.RawURLEncoding.EncodeToString(d[:])
}

// errDigest is what ParseDigest returns for a text that is not a digest of
// this version.
var errDigest = errors.New("not a digest of version " + digestVersion)

// ParseDigest reads the text that String wrote. It fails for a digest of
// another version: the caller then has nothing to compare with.
func ParseDigest(text string) (Digest, error) {
	var d Digest
	version, encoded, ok := strings.Cut(text, ":")
	if !ok || version != digestVersion {
		return d, errDigest
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(raw) != len(d) {
		return d, errDigest
	}
	copy(d[:], raw)
	return d, nil
}

// Of computes the digest of what manager applied to obj.
//
// When managedFields has no Apply entry of manager - they were cleared, or the
// API does not track them - the digest is made from metadata.generation, or
// from metadata.resourceVersion where the kind has no generation. It then
// equals no digest of recorded ownership, and recorded is false.
func Of(obj *unstructured.Unstructured, manager string) (d Digest, recorded bool) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := (*buf)[:0]

	fields := applied(obj, manager)
	if fields != nil {
		b = append(b, 'o')
		b = appendOwned(b, fields, obj.Object)
	} else {
		b = append(b, 'u')
		if generation := obj.GetGeneration(); generation != 0 {
			b = binary.AppendVarint(b, generation)
		} else {
			b = append(b, obj.GetResourceVersion()...)
		}
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	*buf = b
	return d, fields != nil
}

// buffers holds the encodings that are about to be hashed.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// appendOwned encodes the paths of fields and the values that live has there.
func appendOwned(b []byte, fields fieldsV1, live any) []byte {
	for _, key := range sortedKeys(fields) {
		b = appendString(b, 'p', key)
		if key == "." {
			continue // the field itself is owned: that it exists is what counts
		}
		child, found := descend(live, key)
		sub, _ := fields[key].(map[string]any)
		switch {
		case !found:
			b = append(b, 'a')
		case len(sub) == 0:
			b = appendValue(b, child)
		default:
			b = append(b, '{')
			b = appendOwned(b, sub, child)
			b = append(b, '}')
		}
	}
	return b
}

// appendValue encodes a JSON value so that equal values have equal encodings.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case string:
		return appendString(b, 's', v)
	case int64:
		return binary.AppendVarint(append(b, 'i'), v)
	case float64:
		if i := int64(v); float64(i) == v && math.Abs(v) < 1<<53 {
			return binary.AppendVarint(append(b, 'i'), i)
		}
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = appendValue(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, key := range sortedKeys(v) {
			b = appendValue(appendString(b, 'k', key), v[key])
		}
		return append(b, '}')
	default:
		// Unstructured content has no other types; see
		// k8s.io/apimachinery/pkg/runtime.DeepCopyJSONValue, which panics here.
		return append(b, '?')
	}
}

// appendString encodes a string with its length, so that no two sequences of
// strings have the same encoding.
func appendString(b []byte, tag byte, s string) []byte {
	b = binary.AppendUvarint(append(b, tag), uint64(len(s)))
	return append(b, s...)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
