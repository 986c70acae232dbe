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

// treesAt are trees on a walk, with the parts of them at the path of the walk.
type treesAt struct {
	path []string
	// trees are whole trees, then their parts below the first key of path, and so on. ends has the end of each of these groups, as far as they were
	// needed: siblings share those above.
	trees []fieldsV1
	ends  []int
}

// descend enters a child, and ascend leaves it.
func (t *treesAt) descend(key string) { t.path = append(t.path, key) }

func (t *treesAt) ascend() {
	depth := len(t.path)
	if t.path = t.path[:depth-1]; len(t.ends) > depth {
		end := t.ends[depth-1]
		clear(t.trees[end:])
		t.trees, t.ends = t.trees[:end], t.ends[:depth]
	}
}

// anyBelow reports whether one of the trees has a path below the path of the walk. It merges many trees first.
func (t *treesAt) anyBelow() bool {
	if len(t.ends) == 0 {
		if len(t.trees) > fewTrees {
			all := merged(t.trees)
			clear(t.trees)
			t.trees = append(t.trees[:0], all)
		}
		t.ends = append(t.ends, len(t.trees))
	}
	first := 0
	if len(t.ends) > 1 {
		first = t.ends[len(t.ends)-2]
	}
	for len(t.ends) <= len(t.path) {
		key, end := t.path[len(t.ends)-1], len(t.trees)
		for _, tree := range t.trees[first:end] {
			if below, _ := tree[key].(map[string]any); len(below) > 0 {
				t.trees = append(t.trees, below)
			}
		}
		t.ends, first = append(t.ends, len(t.trees)), end
	}
	return slices.ContainsFunc(t.trees[first:], func(fields fieldsV1) bool {
		_, self := fields["."]
		return len(fields) > 1 || !self
	})
}

// clear forgets the trees.
func (t *treesAt) clear() {
	clear(t.trees)
	t.path, t.trees, t.ends = t.path[:0], t.trees[:0], t.ends[:0]
}
