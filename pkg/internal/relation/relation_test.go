package relation

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSet(t *testing.T) {
	for name, test := range map[string]struct {
		reason         string
		before, keys   []string
		added, removed []string
	}{
		"first": {
			reason: "an owner that was not known needs all keys since",
			keys:   []string{"a", "b"}, added: []string{"a", "b"},
		},
		"changed": {
			reason: "only the difference is returned",
			before: []string{"a", "b"}, keys: []string{"b", "c"}, added: []string{"c"}, removed: []string{"a"},
		},
		"same": {
			reason: "a set that is unchanged has no difference",
			before: []string{"a", "b"}, keys: []string{"b", "a"},
		},
		"twice": {
			reason: "a key that is named twice is added once",
			keys:   []string{"a", "a"}, added: []string{"a"},
		},
		"none": {
			reason: "without keys the owner is forgotten",
			before: []string{"a"}, removed: []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Relation[int, string]
			r.Set(2, slices.Values([]string{"a", "c"}))
			r.Set(1, slices.Values(test.before))
			added, removed := r.Set(1, slices.Values(test.keys))
			require.ElementsMatch(t, test.added, added, test.reason)
			require.ElementsMatch(t, test.removed, removed, test.reason)
			require.Equal(t, slices.Contains(test.keys, "b"), r.Needed("b"), test.reason)
			require.ElementsMatch(t, []string{"a", "c"}, r.Keys(2), "another owner is not affected")
		})
	}
}

func TestForgetsWhatIsEmpty(t *testing.T) {
	var r Relation[int, string]
	r.Set(1, slices.Values([]string{"a", "b"}))
	r.Set(2, slices.Values([]string{"a"}))
	require.ElementsMatch(t, []int{1, 2}, r.Drop("a"))
	require.ElementsMatch(t, []string{"b"}, r.Release(1))
	require.Empty(t, r.keys, "an owner without a key takes no memory")
	require.Empty(t, r.owners, "a key without an owner takes no memory")
}

// FuzzRelation compares a Relation with a set of pairs.
func FuzzRelation(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 2, 3, 3, 3, 1, 0, 4, 2})
	f.Fuzz(func(t *testing.T, steps []byte) {
		type pair struct{ owner, key byte }
		var r Relation[byte, byte]
		model := map[pair]bool{}
		keysOf := func(owner byte) (keys []byte) {
			for p := range model {
				if p.owner == owner {
					keys = append(keys, p.key)
				}
			}
			return keys
		}
		ownersOf := func(key byte) (owners []byte) {
			for p := range model {
				if p.key == key {
					owners = append(owners, p.owner)
				}
			}
			return owners
		}
		for len(steps) >= 3 {
			owner, key := steps[1]%5, steps[2]%5
			switch step := steps[0]; step % 4 {
			case 0:
				require.Equal(t, !model[pair{owner, key}], r.Add(owner, key))
				model[pair{owner, key}] = true
			case 1: // the bits of the third byte are the keys
				before := keysOf(owner)
				maps.DeleteFunc(model, func(p pair, _ bool) bool { return p.owner == owner })
				for bit := range byte(5) {
					if steps[2]&(1<<bit) != 0 {
						model[pair{owner, bit}] = true
					}
				}
				added, removed := r.Set(owner, slices.Values(keysOf(owner)))
				require.ElementsMatch(t, without(keysOf(owner), before), added)
				require.ElementsMatch(t, without(before, keysOf(owner)), removed)
			case 2:
				require.ElementsMatch(t, keysOf(owner), r.Release(owner))
				maps.DeleteFunc(model, func(p pair, _ bool) bool { return p.owner == owner })
			case 3:
				require.ElementsMatch(t, ownersOf(key), r.Drop(key))
				maps.DeleteFunc(model, func(p pair, _ bool) bool { return p.key == key })
			}
			steps = steps[3:]
			for i := range byte(5) {
				require.ElementsMatch(t, keysOf(i), r.Keys(i))
				require.ElementsMatch(t, ownersOf(i), r.Owners(i))
				require.Equal(t, len(ownersOf(i)) > 0, r.Needed(i))
				require.Equal(t, len(ownersOf(i)) > 0, slices.Contains(slices.Collect(r.All()), i))
			}
		}
	})
}

// without returns the members of all that some does not have.
func without(all, some []byte) []byte {
	return slices.DeleteFunc(slices.Clone(all), func(b byte) bool { return slices.Contains(some, b) })
}
