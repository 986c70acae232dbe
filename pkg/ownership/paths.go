package ownership

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Paths is a set of paths in an object, each as a hash of hashBytes bytes: sorted, and
// without duplicates. It is for this process only.
type Paths string

// hashBytes is how many bytes a path takes in Paths.
const hashBytes = 4

// pathSeed is secret, so that no user can choose a path with the hash of another one.
var pathSeed = maphash.MakeSeed()

// pathHash is the hash of a path; 0 for the empty one.
type pathHash uint64

// child is the hash of a path that is longer by an element, written as in a fieldsV1.
func (h pathHash) child(element string) pathHash {
	var b maphash.Hash
	b.SetSeed(pathSeed)
	for range 8 {
		_ = b.WriteByte(byte(h)) // never fails
		h >>= 8
	}
	_, _ = b.WriteString(element)
	return pathHash(b.Sum64())
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

// Minus returns the paths that are not in another set.
func (p Paths) Minus(other Paths) Paths { return pathsOf(slices.DeleteFunc(p.hashes(), other.has)) }

// maxApplied is how many entries of ours are read. More are forged.
const maxApplied = 16

// Others returns the paths that field managers own in obj, except what managers with prefix
// applied and what is below status, and except what the managers except own.
func Others(obj *unstructured.Unstructured, prefix string, except ...string) Paths {
	var others []uint32
	var applied []fieldsV1
	for r := range records(obj) {
		if len(applied) < maxApplied && r.applies() && strings.HasPrefix(r.text("manager"), prefix) {
			applied = append(applied, r.fields())
		}
	}
	for r := range records(obj) {
		if (!r.applies() || !strings.HasPrefix(r.text("manager"), prefix)) && !slices.Contains(except, r.text("manager")) {
			others = appendPaths(others, r.fields(), applied, 0)
		}
	}
	return pathsOf(others)
}

// Editors returns the managers that wrote paths to obj itself that are not in before.
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

// appendPaths appends the hashes of the paths in fields that are not in applied as well.
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
