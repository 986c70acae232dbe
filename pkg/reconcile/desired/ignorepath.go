package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// ignorePath is a path of an ignore rule: names of fields, indexes of lists, and keys of list items such as [name=web].
type ignorePath []string

// parseIgnorePath reads a path. The error says how to write the key of a list item.
func parseIgnorePath(text string) (ignorePath, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q does not begin with /", text)
	}
	path := ignorePath(ownership.PointerNames(text))
	for _, token := range path {
		if strings.HasPrefix(token, "[") && keysOfItem(token) == nil {
			return nil, fmt.Errorf("%q: %s selects no list item: write [key=value], or [key=value,key=value], such as [name=web]", text, token)
		}
	}
	return path, nil
}

// keysOfItem returns the keys and values of a token that selects list items; nil for another token.
func keysOfItem(token string) [][2]string {
	inner, begins := strings.CutPrefix(token, "[")
	inner, ends := strings.CutSuffix(inner, "]")
	if !begins || !ends {
		return nil
	}
	var keys [][2]string
	for pair := range strings.SplitSeq(inner, ",") {
		key, value, isPair := strings.Cut(pair, "=")
		if !isPair || key == "" {
			return nil
		}
		keys = append(keys, [2]string{key, value})
	}
	return keys
}

// in returns the paths of the selected parts of a value, with an index for each list item. It takes from steps the values that it visits and the tokens of
// the paths, and ends once none is left.
func (p ignorePath) in(value any, steps *int) (all [][]string) {
	var path []string
	var visit func(p ignorePath, value any)
	visit = func(p ignorePath, value any) {
		if *steps--; *steps < 0 {
			return
		}
		if len(p) == 0 {
			*steps -= len(path)
			all = append(all, slices.Clone(path))
			return
		}
		below := func(token string, child any) {
			path = append(path, token)
			visit(p[1:], child)
			path = path[:len(path)-1]
		}
		switch at := value.(type) {
		case map[string]any:
			if child, found := at[p[0]]; found {
				below(p[0], child)
			}
		case []any:
			keys := keysOfItem(p[0])
			if i, err := strconv.Atoi(p[0]); err == nil && keys == nil && i >= 0 && i < len(at) {
				below(strconv.Itoa(i), at[i])
			}
			for i, item := range at {
				if keys == nil || *steps < 0 {
					break
				}
				if *steps -= len(keys); hasKeys(item, keys) {
					below(strconv.Itoa(i), item)
				}
			}
		}
	}
	visit(p, value)
	return all
}

// shared returns selected paths. A path without items of lists equals the path of the rule, and shares its memory.
func (p ignorePath) shared(selected [][]string) [][]string {
	for i := range selected {
		if slices.Equal(selected[i], p) {
			selected[i] = p
		}
	}
	return selected
}

// hasKeys reports whether a list item has all values.
func hasKeys(item any, keys [][2]string) bool {
	fields, is := item.(map[string]any)
	return is && !slices.ContainsFunc(keys, func(key [2]string) bool {
		value, found := fields[key[0]]
		return !found || fmt.Sprint(value) != key[1]
	})
}

// from returns the paths that the path may select in an object with more fields than value: keys of list items are
// replaced by their indexes in value as far as it has them. whole reports that value has them. It takes from steps as in.
func (p ignorePath) from(value any, steps *int) (all [][]string, whole bool) {
	for n := len(p); n > 0; n-- {
		found := p[:n].in(value, steps)
		if len(found) == 0 {
			continue
		}
		for i := range found {
			found[i] = append(found[i], p[n:]...)
		}
		return found, n == len(p)
	}
	return [][]string{p}, false
}
