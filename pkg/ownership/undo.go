package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Scope is how much of what an edit added counts as a part of it that must be undone.
type Scope int

const (
	// BesideRemoved is for a structural edit: it covers what was added below the parent of
	// an owned field or list item that was removed.
	BesideRemoved Scope = iota
	// BesideChanged also covers what was added below the parent of an owned field that has
	// another value: the field that says which member of a union is set, for example.
	BesideChanged
	// Everything covers all that was added.
	Everything
)

// Undo describes an object that other managers changed, for [Undo.Added].
type Undo struct {
	// Manager is the field manager whose fields are reverted.
	Manager string
	// Prefix of the field managers that apply for us. What they applied is never an
	// addition.
	Prefix string
	// Configuration is what Manager applies.
	Configuration map[string]any
	// Before are the paths that other managers owned before the edit; see [Others].
	// BeforeKnown is false if that is not known: then every entry counts that was written
	// since Manager last applied.
	Before      Paths
	BeforeKnown bool
	// Editors are the field managers whose additions count; nil for all.
	Editors []string
	// Keep reports whether a path is left to a field manager: the names and indexes that
	// lead to it in Configuration, as far as it is there. nil keeps none.
	Keep func(manager string, path []string) bool
	// Scope is how much is undone.
	Scope Scope
}

// Addition is what an edit added, and how to have it removed.
type Addition struct {
	// Changes are the topmost fields and list items that were added, in the order of the
	// paths. Their Kind is Added.
	Changes []Change
	// Patch is a JSON patch (RFC 6902) of managedFields, after which Manager owns what was
	// added and no other manager does: an apply by Manager then removes it. It fails if one of
	// the entries that it changes has changed meanwhile, and for no other write. Empty if
	// nothing was added.
	Patch []PatchOp
	// Lost are the fields and list items of Manager that another manager removed or changed,
	// with the values of Configuration. It is there only if another manager may have added
	// something.
	Lost []Change
	// authors are the entries that changed with the edit, or since.
	authors []*entry
}

// PatchOp is an operation of a JSON patch.
type PatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// And returns two parts of what was added, where the first one was not enough.
func (a Addition) And(b Addition) Addition {
	return Addition{
		Changes: append(slices.Clip(a.Changes), b.Changes...), Patch: b.Patch,
		Lost: a.Lost, authors: append(slices.Clip(a.authors), b.authors...),
	}
}

// With returns changes with the additions. A removal, of which the API server records no
// author, gets the manager that wrote last: what else the changes and the additions say of
// the same edit names it.
func (a Addition) With(changes []Change) []Change {
	var author Change
	last := func(c Change) {
		switch {
		case c.Manager == "" || c.Time.Before(author.Time):
		case author.Manager != "" && c.Time.Equal(author.Time) && c.Manager != author.Manager:
			author = Change{Time: c.Time} // one of the two
		default:
			author = c
		}
	}
	for _, e := range a.authors {
		var c Change
		c.setManager(e)
		last(c)
	}
	all := slices.Concat(changes, a.Changes)
	for _, c := range changes {
		if c.Kind == Changed && c.Subresource == "" {
			last(c)
		}
	}
	for i := range all {
		if c := &all[i]; c.Kind == Removed && c.Manager == "" && c.Path != managedFieldsPath {
			c.Manager, c.Operation, c.Subresource, c.Time = author.Manager, author.Operation, author.Subresource, author.Time
		}
	}
	return all
}

// Added finds what other managers added to an object with the edit that removed what Manager
// applied. found is the object as the edit left it, and live as it is now: often the same.
//
// An addition is a path that another manager's Update entry of the object itself owns, that
// Configuration does not have, that was not there before, and that is in the scope. Entries
// of subresources, of managers with Prefix that applied, and Apply entries are left alone:
// an apply removes no field of another manager. Where the API server refused to have the
// field of Manager back, Apply entries count, too. Below an item or a field that was added,
// nothing is left, whoever wrote it since.
//
// If found has no managedFields, the edit may have cleared them. The first apply since has
// the API server record all that was there then under a manager that it makes up. What of it
// was not there before the edit was added. live has to be the object after such an apply.
func (u Undo) Added(found, live *unstructured.Unstructured) Addition {
	s := search{Undo: u, live: live, withheld: Sensitive(found) || Sensitive(live)}
	ours := applied(found, u.Manager)
	s.entries, s.recorded = entries(live, u.Manager), ours != nil
	recorded := Recorded(found)
	if !recorded {
		s.entries = append(s.entries, syntheticEntries(live)...)
	}
	for _, e := range s.entries {
		if s.mayHaveAdded(e) {
			s.editors = append(s.editors, e)
		}
	}
	if len(s.editors) == 0 {
		return Addition{}
	}
	if s.owners = s.entries; found != live && recorded {
		s.owners = entries(found, u.Manager)
	}
	oursFound := setOf(ours)
	s.findRemoved(found, oursFound)
	if s.touched == nil {
		return Addition{Lost: s.lost}
	}
	mine := oursFound
	if found != live {
		mine = setOf(applied(live, u.Manager))
	}
	for _, e := range s.editors {
		s.collect(e, level{
			set: e.all(), ours: mine, conf: &node{live: u.Configuration}, configured: true, live: &node{live: live.Object}, touched: s.touched,
		})
	}
	s.collectBelow()
	return s.addition()
}

// EditorsOf returns the managers that may have made the edit that left an object as it was
// found; nil if that is not known.
func (u Undo) EditorsOf(found *unstructured.Unstructured) []string {
	if !u.BeforeKnown || !Recorded(found) {
		return nil
	}
	return append([]string{}, Editors(found, u.Before)...)
}

// findRemoved finds what an edit removed. ours is what Manager still owned then.
func (s *search) findRemoved(found *unstructured.Unstructured, ours *fieldpath.Set) {
	s.touched = s.missing(s.Configuration, found.Object, ours, unionOf(s.owners), nil)
	if s.Scope == Everything {
		s.touched = &parents{here: true}
	}
}

// unionOf is what several entries own, halved so that many of them do not take time with the
// square of their number.
func unionOf(all []*entry) *fieldpath.Set {
	switch len(all) {
	case 0:
		return fieldpath.NewSet()
	case 1:
		return all[0].all()
	}
	return unionOf(all[:len(all)/2]).Union(unionOf(all[len(all)/2:]))
}

// search is an Undo at work on an object.
type search struct {
	Undo
	live     *unstructured.Unstructured
	withheld bool
	// recorded says that Manager had an entry when the edit was found.
	recorded bool
	// entries are those of other managers, and ours; owners are those when the edit was found.
	entries, owners []*entry
	// editors are the entries of the managers that may have made the edit.
	editors []*entry
	// touched are the parents below which additions count.
	touched *parents
	roots   []root
	lost    []Change
}

// root is the top of what an entry added.
type root struct {
	path  fieldpath.Path
	value any
	entry *entry
}

// mayHaveAdded reports whether what an entry owns may have come with the edit.
func (s *search) mayHaveAdded(e *entry) bool {
	manager := e.text("manager")
	switch {
	case e.ours, e.text("subresource") != "":
		return false
	case s.Editors != nil && !slices.Contains(s.Editors, manager):
		return false
	case e.applies() && (s.Scope == BesideRemoved || strings.HasPrefix(manager, s.Prefix)):
		return false
	case strings.HasPrefix(manager, s.Prefix) && (!s.BeforeKnown || manager != s.Manager && applied(s.live, manager) != nil):
		return false // what an admission webhook added to an apply
	case s.BeforeKnown:
		return true
	case manager == beforeFirstApply:
		return s.Scope > BesideRemoved
	default:
		return s.recorded && !e.when.Before(s.lastApplied())
	}
}

// lastApplied is when an apply of Manager last changed the object.
func (s *search) lastApplied() (last time.Time) {
	for r := range records(s.live) {
		if r.text("manager") == s.Manager && r.applies() && r.time().After(last) {
			last = r.time()
		}
	}
	return last
}

// level is a node of an entry's set, with what is ours there, and what is there in the
// configuration and in the object.
type level struct {
	set        *fieldpath.Set
	ours       *fieldpath.Set
	conf       *node
	configured bool
	live       *node
	touched    *parents
	// added says that the node is below a touched parent.
	added bool
	hash  pathHash
	path  fieldpath.Path
	// names lead to the node in the configuration, as far as it is there.
	names []string
}

// collect finds what an entry added below a node. It reports how many paths it takes from
// the entry, and how many stay.
func (s *search) collect(e *entry, at level) (taken, kept int) {
	added := at.added || at.touched != nil && at.touched.here
	for _, element := range elements(at.set) {
		key, err := fieldpath.SerializePathElement(element)
		value, there := at.live.child(element)
		if err != nil || !there {
			kept++ // written through a version that has another path for it
			continue
		}
		sub := level{
			live: &node{live: value}, added: added, hash: at.hash.child(key),
			path: slices.Concat(at.path, fieldpath.Path{element}), names: at.names, touched: at.touched.child(key),
			ours: at.ours.WithPrefix(element),
		}
		if at.configured {
			var token string
			isOurs := at.ours.Members.Has(element) || !sub.ours.Empty()
			sub.conf, token, sub.configured = at.conf.configured(element, isOurs || !s.recorded)
			if token == "" && element.FieldName != nil {
				token = *element.FieldName
			}
			if token != "" {
				sub.names = append(slices.Clone(at.names), token)
			}
		} else if element.FieldName != nil && len(at.names) == len(at.path) {
			sub.names = append(slices.Clone(at.names), *element.FieldName)
		}
		took, left := 0, 0
		if at.set.Members.Has(element) {
			isNew := !sub.configured && !s.Before.has(sub.hash.short())
			e.wrote = e.wrote || isNew
			if isNew && added && (s.Keep == nil || !s.Keep(e.text("manager"), sub.names)) {
				e.take(sub.path)
				took++
			} else {
				left++
			}
		}
		roots := len(s.roots)
		if below, nested := at.set.Children.Get(element); nested {
			sub.set = below
			t, k := s.collect(e, sub)
			took, left = took+t, left+k
		}
		if took > 0 && left == 0 && !sub.configured {
			s.roots = append(s.roots[:roots], root{path: sub.path, value: value, entry: e})
		}
		taken, kept = taken+took, kept+left
	}
	return taken, kept
}

// collectBelow takes what others own below the roots.
func (s *search) collectBelow() {
	for _, r := range s.roots {
		for _, e := range s.entries {
			if e.ours || e == r.entry || e.text("subresource") != "" || e.applies() && strings.HasPrefix(e.text("manager"), s.Prefix) {
				continue
			}
			below := e.all()
			for _, element := range r.path[:len(r.path)-1] {
				below = below.WithPrefix(element)
			}
			last := r.path[len(r.path)-1]
			if below.Members.Has(last) {
				e.take(r.path)
			}
			below.WithPrefix(last).Iterate(func(path fieldpath.Path) { e.take(slices.Concat(r.path, path)) })
		}
	}
}

// addition is what was found.
func (s *search) addition() Addition {
	a := Addition{Lost: s.lost, Patch: patchOf(s.entries, s.Manager, s.live.GetAPIVersion())}
	for _, e := range s.editors {
		if e.wrote {
			a.authors = append(a.authors, e)
		}
	}
	slices.SortFunc(s.roots, func(a, b root) int { return a.path.Compare(b.path) })
	for _, r := range s.roots {
		c := s.change(Added, r.path, r.value, nil)
		c.setManager(r.entry)
		a.Changes = append(a.Changes, c)
	}
	return a
}

// change returns a Change of the object. The owner of a field that exists is the manager that
// changed it.
func (s *search) change(kind ChangeKind, path fieldpath.Path, found, restored any) Change {
	w := walker{manager: s.Manager, withheld: s.withheld, entries: s.owners}
	if kind != Changed {
		w.entries = nil
	}
	if kind == Added {
		restored = absent{}
	}
	w.add(kind, path, found, restored)
	return w.changes[0]
}

// patchOf moves what is to be taken from entries to the first one that is ours.
func patchOf(all []*entry, manager, apiVersion string) []PatchOp {
	var tests, changes, removals []PatchOp
	write := func(e *entry, set *fieldpath.Set) {
		at := fmt.Sprintf("/metadata/managedFields/%d", e.index)
		tests = append(tests, PatchOp{"test", at + "/manager", e.text("manager")}, PatchOp{"test", at + "/fieldsV1", e.fields()})
		if set.Empty() {
			removals = append(removals, PatchOp{Op: "remove", Path: at})
		} else {
			changes = append(changes, PatchOp{"replace", at + "/fieldsV1", treeOf(set)})
		}
	}
	taken := fieldpath.NewSet()
	var ours *entry
	for _, e := range slices.SortedFunc(slices.Values(all), func(a, b *entry) int { return b.index - a.index }) { // a removal moves what follows
		if e.ours {
			ours = e
		}
		if e.taken != nil {
			taken = taken.Union(e.taken)
			write(e, e.all().Difference(e.taken))
		}
	}
	switch {
	case taken.Empty():
		return nil
	case ours != nil:
		write(ours, ours.all().Union(taken))
	default:
		changes = append(changes, PatchOp{"add", "/metadata/managedFields/-", map[string]any{
			"manager": manager, "operation": string(metav1.ManagedFieldsOperationApply), "apiVersion": apiVersion,
			"fieldsType": "FieldsV1", "fieldsV1": treeOf(taken),
		}})
	}
	return slices.Concat(tests, changes, removals)
}

// treeOf is a set as the tree of a managedFields entry.
func treeOf(set *fieldpath.Set) json.RawMessage {
	text, err := set.ToJSON()
	if err != nil {
		return json.RawMessage("{}") // it was read from JSON
	}
	return text
}
