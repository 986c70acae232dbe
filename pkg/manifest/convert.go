package manifest

import (
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// maxDepth is the maximum nesting of lists and mappings. The deepest ones in practice are the
// schemas of CRDs, with a few dozen.
const maxDepth = 256

// Approximate memory of a node that is expanded from an alias.
const (
	scalarCost    = 16
	containerCost = 64
)

// converter converts nodes to unstructured content. Aliases are expanded into copies, so the result
// is always a tree.
type converter struct {
	// budget is the number of bytes that aliases may still add to the manifest. Without it, a few lines of aliases to aliases
	// are gigabytes ("billion laughs").
	budget int
	// open holds the anchored nodes that are being expanded: to meet one again
	// means that it contains itself.
	open map[*yaml.Node]struct{}
	// values and total count the nodes of the present object and of the manifest, keys
	// included and aliases expanded.
	values, total int
	// encryptedValues refuses objects with values that SOPS encrypted.
	encryptedValues bool
}

// newConverter returns a converter that lets aliases add opts.MaxBytes.
func newConverter(opts Options) *converter {
	return &converter{budget: opts.MaxBytes, total: opts.Values, encryptedValues: opts.Artifact, open: map[*yaml.Node]struct{}{}}
}

// enter goes to a node, through the alias if it is one, and accounts for it. The caller calls leave at the end of the nodes
// below the target. On an error the target is the node itself.
func (c *converter) enter(n *yaml.Node, depth int) (target *yaml.Node, leave func(), err *Error) {
	if depth > maxDepth {
		return n, nil, depthFault(n.Line)
	}
	if err := c.count(n.Line); err != nil {
		return n, nil, err
	}
	target, leave = n, func() {}
	if n.Kind == yaml.AliasNode {
		target = n.Alias
		if _, again := c.open[target]; again {
			return n, nil, faultf(n.Line, "has an alias inside of what it stands for: it would never end")
		}
		c.open[target] = struct{}{}
		leave = func() { delete(c.open, target) }
	}
	if err := c.charge(n.Line, target); err != nil {
		leave()
		return n, nil, err
	}
	return target, leave, nil
}

// count counts a node.
func (c *converter) count(line int) *Error {
	c.values++
	c.total++
	switch {
	case c.values > MaxValues:
		return faultf(line, "the object has more than %d values: split it in several objects", MaxValues)
	case c.total > MaxTotalValues:
		return faultf(line, "the objects up to here have more than %d values: split the manifest in several", MaxTotalValues)
	}
	return nil
}

// charge takes the cost of a node off the budget if it is part of an expansion.
func (c *converter) charge(line int, n *yaml.Node) *Error {
	if len(c.open) == 0 {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		c.budget -= scalarCost + len(n.Value)
	} else {
		c.budget -= containerCost
	}
	if c.budget < 0 {
		return faultf(line, "its aliases expand to more than a manifest may hold: write out what they stand for, or use fewer")
	}
	return nil
}

// depthFault reports that something is nested deeper than maxDepth.
func depthFault(line int) *Error {
	return faultf(line, "is nested more than %d levels deep", maxDepth)
}

// value returns the value of a node, which is at the given depth.
func (c *converter) value(n *yaml.Node, depth int) (any, *Error) {
	target, leave, err := c.enter(n, depth)
	if err != nil {
		return nil, err
	}
	defer leave()

	switch target.Kind {
	case yaml.MappingNode:
		return c.mapping(target, depth)
	case yaml.SequenceNode:
		return c.sequence(target, depth)
	}
	value, err := scalar(target)
	if err != nil {
		return nil, err
	}
	return jsonValue(value, n.Line)
}

// sequence returns the items of a sequence node.
func (c *converter) sequence(n *yaml.Node, depth int) ([]any, *Error) {
	items := make([]any, len(n.Content))
	for i, item := range n.Content {
		var err *Error
		if items[i], err = c.value(item, depth+1); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// mapping returns the fields of a mapping node. A key that comes twice is an
// error: the API server would see only one of the values, and which is chance.
func (c *converter) mapping(n *yaml.Node, depth int) (map[string]any, *Error) {
	fields := make(map[string]any, len(n.Content)/2)
	var merged map[string]bool
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if isMerge(key) {
			if merged != nil {
				return nil, faultf(key.Line, "has the merge key << twice in one mapping: use one with a list (<<: [*a, *b])")
			}
			var err *Error
			if merged, err = c.merge(fields, key, val, depth+1); err != nil {
				return nil, err
			}
			continue
		}
		name, err := c.key(n, key, depth+1)
		if err != nil {
			return nil, err
		}
		if _, taken := fields[name]; taken && !merged[name] {
			return nil, faultf(key.Line, "has the key %s twice in one mapping: remove one", quote(name))
		}
		delete(merged, name)
		if fields[name], err = c.value(val, depth+1); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// key returns the text of a key of the mapping n.
func (c *converter) key(n, key *yaml.Node, depth int) (string, *Error) {
	target, leave, err := c.enter(key, depth)
	if err != nil {
		return "", err
	}
	defer leave()

	if target.Kind != yaml.ScalarNode {
		if key.Kind == yaml.MappingNode && key.Line == n.Line && key.Column == n.Column+1 {
			return "", templateFault(key.Line)
		}
		return "", faultf(key.Line, "has a mapping or a list as a key: keys are text")
	}
	value, err := scalar(target)
	if err != nil {
		return "", err
	}
	text, ok := keyText(value)
	if !ok {
		return "", faultf(key.Line, "has a key that is null or too large a number: put it in quotes")
	}
	return text, nil
}

// isMerge reports whether a key is YAML 1.1's merge key, <<.
func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (key.Style == 0 || key.Tag == tagMerge)
}

// merge adds to fields the fields of the mapping, or of the list of mappings, that a merge key names, and returns their names;
// later fields may overwrite these. Of several mappings the first has precedence.
//
// For a field that was given before the merge key, kubectl takes the merged
// value, and YAML's specification the other one: so this is refused.
func (c *converter) merge(fields map[string]any, key, source *yaml.Node, depth int) (map[string]bool, *Error) {
	target, leave, err := c.enter(source, depth)
	if err != nil {
		return nil, err
	}
	defer leave()

	sources := []*yaml.Node{target}
	if target.Kind == yaml.SequenceNode && source.Kind == yaml.SequenceNode {
		sources = target.Content
	}
	merged := map[string]bool{}
	for _, s := range sources {
		from, err := c.value(s, depth+1)
		if err != nil {
			return nil, err
		}
		inherited, ok := from.(map[string]any)
		if !ok {
			return nil, faultf(key.Line, "has a merge key << whose value is not a mapping, or a list of mappings")
		}
		for _, name := range slices.Sorted(maps.Keys(inherited)) {
			if _, taken := fields[name]; taken && !merged[name] {
				return nil, faultf(key.Line, "has a merge key << that would overwrite %s: move << to the top of its mapping", quote(name))
			} else if !taken {
				fields[name], merged[name] = inherited[name], true
			}
		}
	}
	return merged, nil
}

// quote returns a key in quotes, cut to a length that fits a message.
func quote(key string) string {
	const most = 60
	return strconv.Quote(display.TruncateRunes(key, most))
}
