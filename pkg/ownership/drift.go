package ownership

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ChangeKind is the kind of a change of an owned field.
type ChangeKind string

const (
	// Changed is a field that had another value.
	Changed ChangeKind = "Changed"
	// Removed is a field, an item of a list, or a map with all that is owned in
	// it, that was missing.
	Removed ChangeKind = "Removed"
	// Taken is a field that had its value, and that the manager that applies it had lost:
	// another one owns it, or a user edited managedFields.
	Taken ChangeKind = "Taken"
	// Added is a field or an item of a list that the manager does not apply, and that came
	// with the same edit as another change.
	Added ChangeKind = "Added"
)

// Change is one owned field in an unexpected state.
type Change struct {
	// Path of the field as kubectl users write it:
	// spec.template.spec.containers[name="web"].image. In a sensitive object, an
	// item of a list is written as [*], because its keys are values. A path of more
	// than maxPath bytes is written as its end, behind a hash of the rest.
	Path string
	// Kind is the kind of the change.
	Kind ChangeKind
	// Found is the value that was found, as JSON, shortened to
	// maxValue runes. Empty when the field had been removed or is withheld.
	Found string
	// Value is Found as a whole; empty if it is longer than MaxWhole bytes, or if a part of it is withheld.
	Value string
	// Pointer is the path as a JSON pointer (RFC 6901); empty if it has more than maxPath bytes, or leads through a
	// list, whose items have other places in other objects.
	Pointer string
	// Restored is the value that the owner applies, written like Found. Empty where
	// the API server keeps none of the value that was applied, as of an empty list.
	Restored string
	// Withheld reports that the values are left out because the object is
	// sensitive, or because the field is the value of an environment variable.
	Withheld bool
	// Manager is the field manager that owned the field when it was found.
	// Empty where the API server does not record it: a manager that removes a field owns
	// nothing. The manager that applies the field is named if another writer used
	// its name to write another value.
	Manager string
	// User who made the change, as shown; empty if it is unknown. See [UserOf].
	User string
	// Operation of Manager: Apply or Update.
	Operation string
	// Subresource through which Manager wrote; empty for the object itself.
	Subresource string
	// Time of Manager's last write, at the API server's resolution of a second.
	Time time.Time
}

// beforeFirstApply is the manager that the API server makes up at the first apply
// of an object without managedFields. It owns all fields that were there, whichever
// client wrote them (k8s.io/apimachinery/pkg/util/managedfields/internal,
// NewSkipNonAppliedManager), so it names no writer.
const beforeFirstApply = "before-first-apply"

// Drift lists the fields that manager owns in restored and that differ in found, in the order of the paths. A removed object
// has no Changes: without found, Drift compares nothing.
//
// If found had no managedFields of manager, and no other manager owns a field whose
// value is as applied, managedFields themselves count as one field that was
// removed.
//
// known is the decision about the object before Drift adds found and restored to it.
func Drift(found, restored *unstructured.Unstructured, manager string, known Disclosure) []Change {
	owned := applied(restored, manager)
	if found == nil || owned == nil {
		return nil
	}
	w := walker{manager: manager, withheld: known.With(found, restored).Withholds(), entries: latest(entries(found, manager))}
	ours := applied(found, manager)
	w.unrecorded = ours == nil
	w.compare(setOf(owned), setOf(ours), &node{live: found.Object}, &node{live: restored.Object}, &step{})
	if w.cleared {
		w.changes = append(w.changes, Change{
			Path: managedFieldsPath, Kind: Removed,
			Restored: shorten([]any{map[string]any{"manager": manager, "operation": string(metav1.ManagedFieldsOperationApply)}}, ordinary),
		})
	}
	return w.changes
}

// Admitted names the writer of the changed fields that manager still owned in found: a webhook or a policy changed them in the last request of another
// manager, which owns none of them. changes are of an edit, and are changed in place. The writer is unknown if several managers wrote last. A change
// stays if manager wrote after all others: another client used its name.
func Admitted(changes []Change, found *unstructured.Unstructured, manager string) []Change {
	kept := func(c Change) bool {
		return c.Kind == Changed && c.Manager == manager && c.Operation == string(metav1.ManagedFieldsOperationApply)
	}
	if !slices.ContainsFunc(changes, kept) {
		return changes
	}
	var last Change
	for _, e := range entries(found, manager) {
		var c Change
		switch c.setManager(e); {
		case c.Subresource != "" || c.Manager == manager && !e.ours:
		case e.ours && (last.Time.IsZero() || c.Time.After(last.Time)):
			return changes
		case e.ours || c.Time.Before(last.Time):
		case c.Time.Equal(last.Time):
			last = Change{Time: c.Time} // one of the two
		default:
			last = c
		}
	}
	for i := range changes {
		if c := &changes[i]; kept(*c) {
			c.Manager, c.Operation, c.Subresource, c.Time = last.Manager, last.Operation, last.Subresource, last.Time
		}
	}
	return changes
}

// KeepWriters sets the writers of the changes that were found before with the same value: later writers left it as it was. A shortened or withheld value
// may be another one.
func KeepWriters(changes, before []Change) {
	type written struct{ path, value string }
	first := map[written]*Change{}
	for i := range slices.Backward(before) {
		if b := &before[i]; b.Kind == Changed && b.Value != "" {
			first[written{b.Path, b.Value}] = b
		}
	}
	for i := range changes {
		c := &changes[i]
		if b, known := first[written{c.Path, c.Value}]; known && c.Kind == Changed {
			c.Manager, c.User, c.Operation, c.Subresource, c.Time = b.Manager, b.User, b.Operation, b.Subresource, b.Time
		}
	}
}

// managedFieldsPath is the path of a change of managedFields themselves.
const managedFieldsPath = "metadata.managedFields"

// walker collects the changes between two objects.
type walker struct {
	manager  string
	withheld bool
	// entries belong to the managers that may have made a change.
	entries []*entry
	// unrecorded reports that the object was found without managedFields of ours,
	// cleared that they are missing only because they were deleted.
	unrecorded, cleared bool
	changes             []Change
}

// compare walks the owned set, along the same path in both objects. ours is the part of it that manager still owned in the
// object that was found.
func (w *walker) compare(owned, ours *fieldpath.Set, found, restored *node, path *step) {
	for _, element := range elements(owned) {
		at := path.child(element)
		want, wanted := restored.child(element)
		got, present := found.child(element)
		below, nested := owned.Children.Get(element)
		changes := len(w.changes)
		switch {
		case !wanted && present:
			w.add(Changed, at, got, absent{})
		case !wanted:
			// Owned and absent: the server dropped a value that we applied.
		case !present:
			w.add(Removed, at, nil, want)
		case nested:
			w.compare(below, ours.WithPrefix(element), &node{live: got}, &node{live: want}, at)
			if len(w.changes) == changes && owned.Members.Has(element) && !ours.Members.Has(element) {
				w.add(Taken, at, got, want)
			}
		case digestOf(got) != digestOf(want):
			w.add(Changed, at, got, want)
		case !ours.Members.Has(element) && !w.shared(got, at):
			w.add(Taken, at, got, want)
		}
	}
}

// shared reports whether a value is a map in which a manager owns something: it was applied empty, and its contents belong to
// that manager.
func (w *walker) shared(value any, path *step) bool {
	_, isMap := value.(map[string]any)
	return isMap && slices.ContainsFunc(w.partsAt(path), func(p part) bool { return p.set != nil })
}

// elements returns the sorted first elements of the paths of a set.
func elements(set *fieldpath.Set) []fieldpath.PathElement {
	all := slices.AppendSeq(slices.Collect(set.Members.All()), set.Children.All())
	slices.SortFunc(all, fieldpath.PathElement.Compare)
	return slices.CompactFunc(all, fieldpath.PathElement.Equals)
}

// digestOf is equal for equal values. value.Equals compares numbers as float64, so that some of the largest integers are equal
// to it.
func digestOf(v any) Digest {
	e := encoders.Get().(*encoder)
	e.value(v)
	return e.digest()
}

// absent is the value of a missing field.
type absent struct{}

func (w *walker) add(kind ChangeKind, path *step, found, restored any) {
	owner := w.owner(kind, path)
	if kind == Taken && owner == nil && w.unrecorded {
		w.cleared = true
		return
	}
	at := path.write(w.withheld).at
	_, nothing := restored.(absent)
	withheld := w.withheld || kind != Removed && at.conceals(found) || !nothing && at.conceals(restored)
	c := Change{Path: path.text(w.withheld), Pointer: path.jsonPointer(w.withheld), Kind: kind, Withheld: withheld}
	if !withheld {
		if !nothing {
			c.Restored = shorten(restored, at)
		}
		if kind != Removed {
			c.Found, c.Value = shorten(found, at), whole(found, at)
		}
	}
	c.setManager(owner)
	w.changes = append(w.changes, c)
}

// setManager sets the manager that made a change; nil means that it is unknown.
func (c *Change) setManager(e *entry) {
	if e != nil && e.record.text("manager") != beforeFirstApply {
		c.Manager, c.Operation, c.Subresource, c.Time = e.record.text("manager"), e.record.text("operation"), e.record.text("subresource"), e.when
	}
}

// entry is an entry of managedFields whose set is read when it is asked for.
type entry struct {
	record record
	// index is its place in managedFields; negative for unowned fields.
	index int
	when  time.Time
	// ours reports that our own manager applied it.
	ours bool
	set  *fieldpath.Set
	// taken is the part to be taken from it; nil if it keeps all.
	taken *built
	// wrote reports that it owns a path that is new.
	wrote bool
}

// all is the whole set of the entry.
func (e *entry) all() *fieldpath.Set {
	if e.set == nil {
		e.set = setOf(e.record.fields())
	}
	return e.set
}

// take is the part to be taken from the entry.
func (e *entry) take() *built {
	if e.taken == nil {
		e.taken = newBuilt()
	}
	return e.taken
}

// entries returns the entries of the managers that may have changed obj, with our own last.
func entries(obj *unstructured.Unstructured, manager string) []*entry {
	var others, ours []*entry
	index := -1
	for r := range records(obj) {
		index++
		switch e := (&entry{record: r, index: index, when: r.time()}); {
		case r.text("manager") == beforeFirstApply || r.fields() == nil:
		case r.appliedBy(manager):
			e.ours = true
			ours = append(ours, e)
		default:
			others = append(others, e)
		}
	}
	return append(others, ours...)
}

// syntheticEntries is the entry of obj that the API server made up, if there is one.
func syntheticEntries(obj *unstructured.Unstructured) []*entry {
	index := -1
	for r := range records(obj) {
		if index++; r.text("manager") == beforeFirstApply && r.fields() != nil {
			return []*entry{{record: r, index: index, when: r.time()}}
		}
	}
	return nil
}

// owner is the entry that wrote path last, among those that own it, or else a field above it: a manager that wrote into a map
// owns the map, too. Nil: unowned. Our own name neither removes nor takes, also where it wrote with another operation, as a patch of
// an undo does.
func (w *walker) owner(kind ChangeKind, path *step) *entry {
	if len(w.entries) == 0 {
		return nil
	}
	var last, above *entry
	parts := w.partsAt(path.above)
	later := func(e, than *entry) bool { return than == nil || e.when.After(than.when) }
	for i, e := range w.entries {
		if kind != Changed && e.record.text("manager") == w.manager {
			continue
		}
		switch itself, whole := parts[i].owns(path.element); {
		case itself && later(e, last):
			last = e
		case whole && later(e, above):
			above = e
		}
	}
	return cmp.Or(last, above)
}
