package ownership

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// findRemoved finds the fields that an edit removed. ours is the set of Manager after the edit.
func (s *search) findRemoved(found *unstructured.Unstructured, ours *fieldpath.Set) {
	owned := make([]*fieldpath.Set, 0, len(s.managers.owners))
	for _, e := range s.managers.owners {
		owned = append(owned, e.all())
	}
	s.touched = s.missing(s.undo.Configuration, found.Object, ours, unionOf(owned), &step{})
	switch s.undo.Scope {
	case Everything:
		s.touched = &parents{here: true}
	case Defaults:
		if within := s.touched.within(parentsOf(s.undo.Refused)); within != nil {
			s.touched = within
		}
	case BesideRemoved, BesideChanged, SinceApply:
	}
}

// unionOf is the union of several sets, halved so that the time grows more slowly than the square of their number.
func unionOf(all []*fieldpath.Set) *fieldpath.Set {
	switch len(all) {
	case 0:
		return fieldpath.NewSet()
	case 1:
		return all[0]
	}
	return unionOf(all[:len(all)/2]).Union(unionOf(all[len(all)/2:]))
}

// search is an Undo at work on an object.
type search struct {
	undo     Undo
	live     *unstructured.Unstructured
	withheld bool
	// recorded reports that Manager had an entry when the edit was found.
	recorded bool
	// lastApplied is when an apply of Manager last changed the object.
	lastApplied time.Time
	managers    managersOfEdit
	// touched are the parents below which additions count.
	touched *parents
	roots   []root
	lost    []Change
	// walker names the authors of changes, among the owners at the time of the edit, and writes their paths.
	walker walker
	// former are the paths that existed before the edit, as far as managedFields show it; nil until they are needed.
	former sets.Set[pathHash]
}

// managersOfEdit are the managers of an object that was edited.
type managersOfEdit struct {
	// appliers are the managers with Prefix that have an entry now.
	appliers sets.Set[string]
	// entries belong to other managers, and ours to us; owners are the owners at the time of the edit.
	entries, owners []*entry
	// editors are the entries of the managers that may have made the edit.
	editors []*entry
}

// root is the top of the addition of an entry.
type root struct {
	path  *step
	value any
	entry *entry
	// below are the parents of path below which additions count.
	below *counting
	// alone reports that the configuration has nothing beside it: its map or list is empty there, or absent.
	alone bool
}

// counting are parents below which additions count: one, and those above it.
type counting struct {
	parent *parents
	above  *counting
}

// mayHaveAdded reports whether the set of an entry may have come with the edit.
func (s *search) mayHaveAdded(e *entry) bool {
	manager := e.record.text("manager")
	switch {
	case e.ours, e.record.text("subresource") != "":
		return false
	case s.undo.Scope == Defaults:
		created := s.live.GetCreationTimestamp()
		return e.record.staleOwner(DefaultTools) && (manager == beforeFirstApply || !e.when.After(created.Time)) // that entry has the time at which it was made up
	case s.undo.Editors != nil && !slices.Contains(s.undo.Editors, manager):
		return false
	case e.record.applies() && (s.undo.Scope == BesideRemoved || strings.HasPrefix(manager, s.undo.Prefix)):
		return false
	case strings.HasPrefix(manager, s.undo.Prefix) && (!s.undo.BeforeKnown || manager != s.undo.Manager && s.managers.appliers.Has(manager)):
		return false // what an admission webhook added to an apply
	case s.undo.BeforeKnown && (!s.undo.Unobserved || !s.recorded || manager == beforeFirstApply):
		return true
	case s.undo.Unobserved && !s.undo.BeforeKnown && s.undo.Scope != SinceApply:
		return false
	case manager == beforeFirstApply:
		return s.undo.Scope > BesideRemoved
	default:
		return s.recorded && !e.when.Before(s.lastApplied)
	}
}

// collectAll finds the additions of the editors. ours is the set of Manager.
func (s *search) collectAll(ours *fieldpath.Set) {
	s.roots = nil
	for _, e := range s.managers.editors {
		e.taken = nil
		s.collect(e, level{
			set: e.all(), ours: ours, conf: &node{live: s.undo.Configuration}, configured: true, live: &node{live: s.live.Object}, touched: s.touched, path: &step{},
		})
	}
}

// excludeAmbiguous excludes the parents below which several managers added something. It reports whether there were any.
func (s *search) excludeAmbiguous() (excluded bool) {
	managers := map[*parents]string{}
	for _, r := range s.roots {
		manager := r.entry.record.text("manager")
		for at := r.below; at != nil; at = at.above {
			first, known := managers[at.parent]
			if known && (first == manager || !at.parent.here) {
				break // the parents above it are decided already
			}
			if known {
				at.parent.here, excluded = false, true
			}
			managers[at.parent] = manager
		}
	}
	return excluded
}

// level is a node of an entry's set, with the nodes of ours, the configuration and the object at its path.
type level struct {
	set        *fieldpath.Set
	ours       *fieldpath.Set
	conf       *node
	configured bool
	live       *node
	touched    *parents
	// added reports that the node is below a touched parent; below are the parents below which additions count.
	added bool
	below *counting
	path  *step
	// names lead to the node in the configuration, as far as it is there.
	names []string
}

// collect finds the additions of an entry below a node. It reports how many paths it takes from the entry, and how many stay.
func (s *search) collect(e *entry, at level) (taken, kept int) {
	added := at.added || at.touched != nil && at.touched.here
	counts := at.below
	if at.touched != nil && at.touched.here {
		counts = &counting{at.touched, counts}
	}
	for _, element := range elements(at.set) {
		key, err := fieldpath.SerializePathElement(element)
		value, there := at.live.child(element)
		if err != nil || !there || s.undo.Scope >= SinceApply && at.path.depth == 0 && key == "f:metadata" {
			kept++ // written through a version that has another path for it, or metadata of the object
			continue
		}
		sub := level{
			live: &node{live: value}, added: added || at.touched.drops(key), below: counts,
			path: at.path.child(element), names: at.names, touched: at.touched.child(key),
			ours: at.ours.WithPrefix(element),
		}
		sub.path.hash = at.path.hash.child(key)
		if at.configured {
			var token string
			isOurs := at.ours.Members.Has(element) || !sub.ours.Empty()
			sub.conf, token, sub.configured = at.conf.configured(element, isOurs || !s.recorded)
			if token != "" {
				sub.names = append(at.names, token) //nolint:gocritic // the next child overwrites it
			}
		} else if element.FieldName != nil && len(at.names) == at.path.depth {
			sub.names = append(at.names, *element.FieldName) //nolint:gocritic // see above
		}
		took, left := 0, 0
		if at.set.Members.Has(element) {
			isNew := !sub.configured && !s.undo.Before.has(sub.path.hash.short())
			e.wrote = e.wrote || isNew
			if isNew && added && (s.undo.Keep == nil || !s.undo.Keep(e.record.text("manager"), sub.names)) {
				e.take().insert(sub.path)
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
		if took > 0 && left == 0 && !sub.configured && (at.set.Members.Has(element) || !s.existed(sub.path.hash)) {
			s.roots = append(s.roots[:roots], root{path: sub.path, value: value, entry: e, below: counts, alone: !at.configured || isEmpty(at.conf.live)})
		}
		taken, kept = taken+took, kept+left
	}
	return taken, kept
}

// existed reports whether a path existed before the edit: managedFields had a path at or below it, in Before or in an entry without a part in the edit.
func (s *search) existed(path pathHash) bool {
	if s.former == nil {
		s.former = sets.Set[pathHash]{}
		for _, e := range s.managers.entries {
			if !e.ours {
				s.addFormer(e.all(), 0, !slices.Contains(s.managers.editors, e))
			}
		}
	}
	return s.former.Has(path)
}

// addFormer adds the former paths of a part of an entry, with the paths above them. whole reports that all of the entry is former.
func (s *search) addFormer(set *fieldpath.Set, path pathHash, whole bool) (found bool) {
	for _, element := range elements(set) {
		key, err := fieldpath.SerializePathElement(element)
		if err != nil {
			continue
		}
		at := path.child(key)
		below := s.addFormer(set.WithPrefix(element), at, whole)
		if below || set.Members.Has(element) && (whole || s.undo.Before.has(at.short())) {
			s.former.Insert(at)
			found = true
		}
	}
	return found
}

// collectBelow takes the paths of others below the roots.
func (s *search) collectBelow() {
	roots := newBuilt()
	for _, r := range s.roots {
		roots.insert(r.path)
	}
	for _, e := range s.managers.entries {
		if !e.ours && e.record.text("subresource") == "" && !e.record.appliedWith(s.undo.Prefix) {
			e.takeBelow(e.all(), roots.set, &step{})
		}
	}
}

// takeBelow takes the paths of set, which is the part of the entry at a path, that are roots or below one.
func (e *entry) takeBelow(set, roots *fieldpath.Set, path *step) {
	if roots.Empty() {
		return
	}
	for _, element := range elements(set) {
		at := path.child(element)
		if !roots.Members.Has(element) {
			e.takeBelow(set.WithPrefix(element), roots.WithPrefix(element), at)
			continue
		}
		if set.Members.Has(element) {
			e.take().insert(at)
		}
		if below, nested := set.Children.Get(element); nested {
			part := e.take().at(at)
			*part = *part.Union(below)
		}
	}
}

// addition is the result of the search.
func (s *search) addition() Addition {
	a := Addition{Lost: s.lost, Patch: patchOf(s.managers.entries, s.undo.Manager, s.live.GetAPIVersion()), Empty: s.emptied()}
	for _, e := range s.managers.editors {
		if e.wrote {
			a.authors = append(a.authors, e)
		}
	}
	slices.SortStableFunc(s.roots, func(a, b root) int { return a.path.compare(b.path) })
	for i, r := range s.roots {
		if r.entry.index < 0 && i > 0 && r.path.compare(s.roots[i-1].path) == 0 {
			continue // another manager added the rest of it, and is named
		}
		c := s.change(Added, r.path, r.value, nil)
		c.setManager(r.entry)
		a.Changes, a.paths = append(a.Changes, c), append(a.paths, r.path)
	}
	return a
}

// emptied returns the JSON patch that empties the maps and lists which hold additions alone, and in which the apply restores nothing. The apply
// would leave null in their place: it removes the last field or item of a map or list together with its value (RemoveItems of structured-merge-diff).
func (s *search) emptied() []PatchOp {
	alone := newBuilt()
	for _, r := range s.roots {
		if r.alone {
			alone.insert(r.path)
		}
	}
	if alone.set.Empty() {
		return nil
	}
	var kept []*fieldpath.Set
	for _, e := range s.managers.entries {
		switch {
		case e.ours:
		case e.taken == nil:
			kept = append(kept, e.all())
		default:
			kept = append(kept, e.all().Difference(e.taken.set))
		}
	}
	left, _ := withoutContents(s.live.Object, alone.set, unionOf(kept)).(map[string]any)
	operations := replacing(s.live.Object, left)
	if len(operations) == 0 {
		return nil
	}
	return append([]PatchOp{{"test", "/metadata/resourceVersion", s.live.GetResourceVersion()}}, operations...)
}

// withoutContents returns a value with empty maps and lists in place of those that hold nothing but the paths of a set. kept are the paths that stay.
func withoutContents(live any, alone, kept *fieldpath.Set) any {
	switch live := live.(type) {
	case map[string]any:
		if alone.Members.Size() == len(live) && kept.Empty() {
			return map[string]any{}
		}
		left := maps.Clone(live)
		for element := range alone.Children.All() {
			if element.FieldName != nil {
				left[*element.FieldName] = withoutContents(live[*element.FieldName], alone.WithPrefix(element), kept.WithPrefix(element))
			}
		}
		return left
	case []any:
		if alone.Members.Size() == len(live) && kept.Empty() {
			return []any{}
		}
		left, list := slices.Clone(live), node{live: live}
		for element := range alone.Children.All() {
			if i, found := list.place(live, element); found {
				left[i] = withoutContents(live[i], alone.WithPrefix(element), kept.WithPrefix(element))
			}
		}
		return left
	}
	return live
}

// change returns a Change of the object. The owner of a field that exists is the manager that
// changed it.
func (s *search) change(kind ChangeKind, path *step, found, restored any) Change {
	if kind == Added {
		restored = absent{}
	}
	w := s.walker
	if kind != Changed {
		w.entries = nil
	}
	w.add(kind, path, found, restored)
	return w.changes[0]
}
