package ownership

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Scope is the part of the additions of an edit that must be undone.
type Scope int

const (
	// BesideRemoved is for a structural edit: it covers additions below the parent of an owned field or list item that was
	// removed.
	BesideRemoved Scope = iota
	// BesideChanged also covers additions below the parent of an owned field that has another value: the field that selects
	// the member of a union, for example.
	BesideChanged
	// Everything covers all that was added.
	Everything
	// SinceApply covers BesideChanged, whatever was there before the edit: all writes of other managers since Manager last
	// applied. It also covers unowned fields there, such as a default that the API server added for the value of another
	// client. It never covers metadata of the object, which are never in the way of an apply.
	SinceApply
	// Defaults is for a changed configuration that the API server refuses. It covers unowned fields, such as defaults, also
	// those for which the API server made an owner up, and fields that a user's tool created together with the object. They count below the parent of a field that Configuration changes, adds
	// or drops. Metadata of the object are never covered.
	Defaults
)

// Undo describes an object that other managers changed, for [Undo.Added].
type Undo struct {
	// Manager is the field manager whose fields are reverted.
	Manager string
	// Prefix of the field managers that apply for us. Their applied fields are never an addition.
	Prefix string
	// Configuration is the configuration that Manager applies.
	Configuration map[string]any
	// Before are the paths that other managers owned before the edit; see [Others].
	// BeforeKnown is false if that is unknown: then every entry counts that was written
	// since Manager last applied.
	Before      Paths
	BeforeKnown bool
	// Unobserved reports that no event showed the edit, for example because the operator was stopped. Then Before is the last record of
	// the status. If several managers added something below one parent, the editor is unknown, and none of it counts. If
	// Before is unknown, additions count in the scope SinceApply alone.
	Unobserved bool
	// Editors are the field managers whose additions count; nil for all.
	Editors []string
	// Keep reports whether a path is left to a field manager: the names and indexes that
	// lead to it in Configuration, as far as it is there. nil keeps none.
	Keep func(manager string, path []string) bool
	// Scope is how much is undone.
	Scope Scope
	// Refused are the fields that the API server names as invalid, without indexes of lists. In the scope Defaults, only fields below the
	// parents of these count. If there are none below them, all count.
	Refused [][]string
	// Known is the decision about the values of the object before Added adds the versions that
	// it gets.
	Known Disclosure
}

// Addition is the part that an edit added, and the way to have it removed.
type Addition struct {
	// Changes are the topmost fields and list items that were added, in the order of the
	// paths. Their Kind is Added.
	Changes []Change
	// Patch is a JSON patch (RFC 6902) of managedFields that gives the additions to Manager alone: an apply by Manager then
	// removes them. It fails exactly if one of the entries that it changes has changed meanwhile. Empty
	// without additions.
	Patch []PatchOp
	// Empty is a JSON patch of the values, to be sent together with Patch. It empties the maps and lists that hold nothing but additions and that the
	// manifest, or another field manager, has without content: an apply would leave null in their place. It fails if the object has changed meanwhile.
	Empty []PatchOp
	// Lost are the fields and list items of Manager that another manager removed or changed,
	// with the values of Configuration. It is there only if another manager may have added
	// something.
	Lost []Change
	// authors are the entries that changed with the edit, or since.
	authors []*entry
	// paths lead to Changes in the object.
	paths []*step
}

// And returns two parts of the additions of an edit, if the first one was insufficient.
func (a Addition) And(b Addition) Addition {
	return Addition{
		Changes: append(slices.Clip(a.Changes), b.Changes...), Patch: b.Patch, Empty: b.Empty,
		Lost: a.Lost, authors: append(slices.Clip(a.authors), b.authors...), paths: append(slices.Clip(a.paths), b.paths...),
	}
}

// With returns changes with the additions. The API server records no author of a removal, so that it gets the manager that
// wrote last: other changes and additions of the same edit name it.
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

// Added finds the additions of other managers to an object with the edit that removed fields of Manager. found is the object
// as the edit left it, and live as it is now: often the same.
//
// An addition is a path that another manager's Update entry of the object itself owns, that
// Configuration lacks, that was absent before, and that is in the scope. Entries
// of subresources, of managers with Prefix that applied, and Apply entries are excluded:
// an apply removes no field of another manager. Where the API server refused to restore the
// field of Manager, Apply entries count, too. Below an item or a field that was added,
// everything is removed, whichever client wrote it since. In the scopes SinceApply and Defaults, unowned fields count,
// too.
//
// If found lacks managedFields, the edit may have cleared them. The first apply since has the API server record all fields of
// that time under a manager that it makes up. The fields among them that are newer than the edit are additions. live has to be
// the object after such an apply.
func (u Undo) Added(found, live *unstructured.Unstructured) Addition {
	unowned := u.Scope == SinceApply || u.Scope == Defaults
	if unowned {
		u.Before, u.BeforeKnown = "", false
	}
	s := search{
		undo: u, live: live, withheld: u.Known.With(found, live).Withholds(), lastApplied: LastApplied(live, u.Manager),
		managers: managersOfEdit{appliers: sets.New(Managers(live, u.Prefix)...)},
	}
	ours := applied(found, u.Manager)
	s.managers.entries, s.recorded = entries(live, u.Manager), ours != nil
	recorded := Recorded(found)
	if !recorded || u.Scope == Defaults {
		s.managers.entries = append(s.managers.entries, syntheticEntries(live)...)
	}
	for _, e := range s.managers.entries {
		if s.mayHaveAdded(e) {
			s.managers.editors = append(s.managers.editors, e)
		}
	}
	if len(s.managers.editors) == 0 && !unowned {
		return Addition{}
	}
	if s.managers.owners = s.managers.entries; found != live && recorded {
		s.managers.owners = entries(found, u.Manager)
	}
	s.walker = walker{manager: u.Manager, withheld: s.withheld, entries: latest(s.managers.owners)}
	oursFound := setOf(ours)
	s.findRemoved(found, oursFound)
	if s.touched == nil {
		return Addition{Lost: s.lost}
	}
	if unowned {
		s.addUnowned()
	}
	mine := oursFound
	if found != live {
		mine = setOf(applied(live, u.Manager))
	}
	s.collectAll(mine)
	for u.Unobserved && !unowned && s.excludeAmbiguous() {
		s.collectAll(mine)
	}
	s.collectBelow()
	return s.addition()
}

// EditorsOf returns the managers that may have made the edit that left an object as it was
// found; nil if that is unknown.
func (u Undo) EditorsOf(found *unstructured.Unstructured) []string {
	if !u.BeforeKnown || !Recorded(found) {
		return nil
	}
	return append([]string{}, Editors(found, u.Before)...)
}
