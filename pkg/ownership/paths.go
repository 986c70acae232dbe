package ownership

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Paths is a set of paths in an object, each as a hash of hashBytes bytes: sorted and unique. Two
// paths with one hash count as one. That only leaves a field in place: a path that is in the set was
// there before an edit.
type Paths string

// hashBytes is how many bytes a path takes in Paths.
const hashBytes = 4

// pathHash is the hash of a path; 0 for the empty one. It is the same in each process and each version
// of Vidra, because the status has it: see [Paths.Record].
type pathHash uint64

// The parameters of FNV-1a with 64 bits, and of the finalizer of MurmurHash3.
const (
	fnvOffset, fnvPrime = 0xcbf29ce484222325, 0x100000001b3
	mixFirst, mixSecond = 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53
)

// child is the hash of a path that is longer by an element, written as in a fieldsV1.
func (h pathHash) child(element string) pathHash {
	sum := uint64(fnvOffset) ^ uint64(h)*fnvPrime
	for i := range len(element) {
		sum = (sum ^ uint64(element[i])) * fnvPrime
	}
	sum = (sum ^ sum>>33) * mixFirst
	sum = (sum ^ sum>>33) * mixSecond
	return pathHash(sum ^ sum>>33)
}

// short is the hash as Paths has it.
func (h pathHash) short() uint32 { return uint32(h) } //nolint:gosec // the lower half will do

// at is the path number i.
func (p Paths) at(i int) uint32 {
	return binary.BigEndian.Uint32([]byte(p[hashBytes*i : hashBytes*(i+1)]))
}

// has reports whether a path is in the set.
func (p Paths) has(path uint32) bool {
	n := len(p) / hashBytes
	i := sort.Search(n, func(i int) bool { return p.at(i) >= path })
	return i < n && p.at(i) == path
}

// hashes are the paths of the set.
func (p Paths) hashes() []uint32 {
	all := make([]uint32, len(p)/hashBytes)
	for i := range all {
		all[i] = p.at(i)
	}
	return all
}

// pathsOf makes a set of paths.
func pathsOf(hashes []uint32) Paths {
	slices.Sort(hashes)
	b := make([]byte, 0, hashBytes*len(hashes))
	for _, path := range slices.Compact(hashes) {
		b = binary.BigEndian.AppendUint32(b, path)
	}
	return Paths(b)
}

// Union returns the paths of two sets.
func (p Paths) Union(other Paths) Paths { return pathsOf(append(p.hashes(), other.hashes()...)) }

// Minus returns the paths that another set lacks.
func (p Paths) Minus(other Paths) Paths { return pathsOf(slices.DeleteFunc(p.hashes(), other.has)) }

const (
	// maxRecorded is how many paths a record has at most. A larger set is unrecorded: then it is unknown which were there.
	maxRecorded = 64
	// recordTag is how many bytes of a record identify its subject.
	recordTag = 3
	// recordFormat is the version of the format of a record and of the hash of a path.
	recordFormat = "1/"
)

// Record returns the set as a text for a status: see [RecordedPaths]. subject identifies the object and the status; a record
// that was copied to another one is ignored. Empty for a set of more than maxRecorded paths.
func (p Paths) Record(subject string) string {
	if len(p) > hashBytes*maxRecorded {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(tagOf(subject), p...))
}

// RecordedPaths returns the set that Record wrote for the same subject; known is false for any other text.
func RecordedPaths(text, subject string) (p Paths, known bool) {
	all, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(all) < recordTag || (len(all)-recordTag)%hashBytes != 0 || string(all[:recordTag]) != string(tagOf(subject)) {
		return "", false
	}
	p = Paths(all[recordTag:])
	return p, p == pathsOf(p.hashes()) // otherwise another client wrote it
}

// tagOf returns the bytes that identify the subject of a record.
func tagOf(subject string) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(pathHash(0).child(recordFormat+subject)))[:recordTag]
}

// maxApplied is how many entries of ours are read. More are forged.
const maxApplied = 16

// Others returns the paths that field managers own in obj, except fields applied by managers with prefix, the status, and
// fields of the managers except.
func Others(obj *unstructured.Unstructured, prefix string, except ...string) Paths {
	var others []uint32
	var applied []fieldsV1
	for r := range records(obj) {
		if len(applied) < maxApplied && r.appliedWith(prefix) {
			applied = append(applied, r.fields())
		}
	}
	for r := range records(obj) {
		if !r.appliedWith(prefix) && !slices.Contains(except, r.text("manager")) {
			others = appendPaths(others, r.fields(), applied, 0)
		}
	}
	return pathsOf(others)
}

// Editors returns the managers that wrote paths to obj itself that before lacks.
func Editors(obj *unstructured.Unstructured, before Paths) []string {
	return writers(obj, func(written Paths) bool { return written.Minus(before) != "" })
}

// Successors returns the managers that wrote some of the paths to obj itself.
func Successors(obj *unstructured.Unstructured, paths Paths) []string {
	return writers(obj, func(written Paths) bool { return paths.Minus(written) != paths })
}

// writers returns the managers that wrote paths to obj itself that are wanted.
func writers(obj *unstructured.Unstructured, wanted func(written Paths) bool) []string {
	var managers []string
	for r := range records(obj) {
		if !r.applies() && r.text("subresource") == "" && wanted(pathsOf(appendPaths(nil, r.fields(), nil, 0))) {
			managers = append(managers, r.text("manager"))
		}
	}
	return managers
}

// appendPaths appends the hashes of the paths in fields that applied lacks.
func appendPaths(paths []uint32, fields fieldsV1, applied []fieldsV1, at pathHash) []uint32 {
	for key, sub := range fields {
		if at == 0 && key == "f:status" || key == "." {
			continue
		}
		below, _ := sub.(map[string]any)
		_, self := below["."]
		shared, owned := make([]fieldsV1, 0, len(applied)), false
		for _, tree := range applied {
			if same, found := tree[key].(map[string]any); found {
				_, selfToo := same["."]
				shared, owned = append(shared, same), owned || selfToo || len(same) == 0
			}
		}
		h := at.child(key)
		if (self || len(below) == 0) && !owned {
			paths = append(paths, h.short())
		}
		if len(below) > 0 {
			paths = appendPaths(paths, below, shared, h)
		}
	}
	return paths
}
