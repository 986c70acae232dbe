package trigger

import (
	"cmp"
	"hash/maphash"
	"strconv"
	"unique"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// The types below keep the entries of the Index small: values that many objects share are interned, and numbers are stored as
// numbers. The conversion is lossless: a key, a version and a UID return their original text.

// watched identifies a watch.
type watched struct {
	cluster string
	gvr     schema.GroupVersionResource
}

// compactKey is the compact form of an ObjectKey.
type compactKey struct {
	watch     unique.Handle[watched]
	namespace unique.Handle[string]
	name      string
}

func compact(key ObjectKey) compactKey {
	return compactKey{
		watch:     unique.Make(watched{cluster: key.Cluster, gvr: key.GVR}),
		namespace: unique.Make(key.Namespace),
		name:      key.Name,
	}
}

func (k compactKey) objectKey() ObjectKey {
	w := k.watch.Value()
	return ObjectKey{Cluster: w.cluster, GVR: w.gvr, Namespace: k.namespace.Value(), Name: k.name}
}

// owned is the digest of the fields that one field manager owns, or is expected to own.
type owned struct {
	manager managerID
	digest  ownership.Digest
}

// managerID is the hash of the name of a field manager; 0 means none. It distinguishes the few
// managers of one object.
type managerID uint64

var managerSeed = maphash.MakeSeed()

func identify(manager string) managerID {
	if manager == "" {
		return 0
	}
	return managerID(maphash.String(managerSeed, manager))
}

// expectation is the compact form of an Applied without the name of the manager.
type expectation struct {
	owned   owned
	uid     uid
	version version
}

func expect(a Applied) expectation {
	return expectation{
		owned: owned{manager: identify(a.Manager), digest: a.Digest},
		uid:   newUID(a.UID), version: newVersion(a.ResourceVersion),
	}
}

// version is a resourceVersion: a number, or a text if it is not a number or too large.
type version struct {
	number uint64
	text   *string
}

func newVersion(text string) version {
	// A number with a leading 0 would not return its text, and is not a resourceVersion that
	// can be compared.
	if number, err := strconv.ParseUint(text, 10, 64); err == nil && text[0] != '0' {
		return version{number: number}
	}
	if text == "" {
		return version{}
	}
	return version{text: new(text)}
}

func (v version) String() string {
	switch {
	case v.text != nil:
		return *v.text
	case v.number == 0:
		return ""
	default:
		return strconv.FormatUint(v.number, 10)
	}
}

// is reports whether two versions are equal.
func (v version) is(other version) bool {
	if v.number != 0 || other.number != 0 {
		return v.number == other.number
	}
	return v.String() == other.String()
}

// compare orders the versions of one resource, which are integers (KEP-5504). ok is false for
// other versions.
func (v version) compare(other version) (order int, ok bool) {
	if v.number != 0 && other.number != 0 {
		return cmp.Compare(v.number, other.number), true
	}
	if v == (version{}) || other == (version{}) {
		return 0, false
	}
	order, err := resourceversion.CompareResourceVersion(v.String(), other.String())
	return order, err == nil
}

// uid is a UID: a UUID, as the API server generates it, or another text.
type uid struct {
	uuid uuid.UUID
	text *string
}

func newUID(id types.UID) uid {
	parsed, _ := uuid.Parse(string(id)) // a text that is not a UUID results in another text
	if u := (uid{uuid: parsed}); u.get() == id {
		return u
	}
	return uid{text: new(string(id))}
}

func (u uid) get() types.UID {
	switch {
	case u.text != nil:
		return types.UID(*u.text)
	case u.uuid == uuid.Nil:
		return ""
	}
	return types.UID(u.uuid.String())
}
