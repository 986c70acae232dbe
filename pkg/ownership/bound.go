package ownership

import "slices"

// A user who may edit an object can give it thousands of entries of managedFields: the API
// server bounds only the entries of updates. The work for one object stays linear in its size.

const (
	// maxAuthors is how many entries, of those that were written last, are searched for the
	// author of a change.
	maxAuthors = 64
	// fewTrees is how many trees are searched one after the other. More are merged first.
	fewTrees = 16
)

// latest returns the entries that were written last, in the order of entries. It returns
// at most maxAuthors, and our own.
func latest(entries []*entry) []*entry {
	if len(entries) <= maxAuthors {
		return entries
	}
	byTime := slices.Clone(entries)
	slices.SortStableFunc(byTime, func(a, b *entry) int { return b.when.Compare(a.when) })
	keep := make(map[*entry]bool, maxAuthors)
	for _, e := range byTime[:maxAuthors] {
		keep[e] = true
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return !keep[e] && !e.ours })
}

// merged returns one tree with all that the trees have.
func merged(trees []fieldsV1) fieldsV1 {
	all := fieldsV1{}
	for _, tree := range trees {
		mergeInto(all, tree)
	}
	return all
}

func mergeInto(all, tree fieldsV1) {
	for key, value := range tree {
		sub, _ := value.(map[string]any)
		into, _ := all[key].(map[string]any)
		if into == nil {
			into = make(fieldsV1, len(sub))
			all[key] = into
		}
		mergeInto(into, sub)
	}
}
