package ownership

import (
	"encoding/base64"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// digestVersion is the version of the algorithm. It is the first part of a
// Digest's text, so that a digest that an older Vidra wrote is recomputed, instead of taken for
// a drift.
const digestVersion = "1"

// Digest identifies the fields that a manager owns in an object, with their
// values. Digests are comparable with ==. They are independent of the order of maps, of the
// notation of numbers, and of the process that computed them.
type Digest [16]byte

// String is the digest with the version of its algorithm, as it stands in a
// status: "1:" and 22 characters of base64.
func (d Digest) String() string {
	return digestVersion + ":" + base64.RawURLEncoding.EncodeToString(d[:])
}

// UnknownDigest stands in a status for a digest that has become unknown. It is of no version.
const UnknownDigest = "unknown"

// errDigest is the error of ParseDigest for any text but a digest of this version.
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

// Of computes the digest of the fields that manager applied to obj.
//
// When managedFields has no Apply entry of manager - they were cleared, the API
// does not track them, or manager only ever wrote with other operations - the
// digest is made from metadata.generation, or from metadata.resourceVersion
// where the kind has no generation. It then differs from every digest of recorded ownership,
// and recorded is false.
func Of(obj *unstructured.Unstructured, manager string) (d Digest, recorded bool) {
	e := encoders.Get().(*encoder)
	fields := applied(obj, manager)
	if fields != nil {
		e.at.trees = appendOthers(e.at.trees, obj, manager)
		e.tag('o')
		e.owned(fields, obj.Object)
		return e.digest(), true
	}
	e.tag('u')
	if generation := obj.GetGeneration(); generation != 0 {
		e.integer(generation)
	} else {
		e.buf = append(e.buf, obj.GetResourceVersion()...)
	}
	return e.digest(), false
}
