package manifest

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// child returns the node under a key of a mapping node, or nil. It ignores
// merge keys.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// childText returns the text of a scalar under a key of a mapping node, or "".
func childText(n *yaml.Node, key string) string {
	c := child(n, key)
	if c != nil && c.Kind == yaml.AliasNode {
		c = c.Alias
	}
	if c == nil || c.Kind != yaml.ScalarNode {
		return ""
	}
	value, _ := scalar(c)
	s, _ := value.(string)
	return s
}

// isNull reports whether a node is a scalar that stands for nothing.
func isNull(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	value, err := scalar(n)
	return err == nil && value == nil
}

// isList reports whether a node is a list of objects: a v1 List, or any kind that ends
// in List and has items. A kind that ends so and has none (an AllowList, say) is
// an object.
func isList(n *yaml.Node) bool {
	kind := childText(n, "kind")
	switch {
	case kind == "List" && childText(n, "apiVersion") == "v1":
		return true
	case strings.HasSuffix(kind, "List"):
		return child(n, "items") != nil
	}
	return false
}

// withoutItems returns a copy of a list's node whose items are null.
func withoutItems(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = slices.Clone(n.Content)
	if i := slices.Index(c.Content, child(n, "items")); i >= 0 {
		c.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Line: n.Line}
	}
	return &c
}

// describe returns the kind of a node, for errors about an unexpected one.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if isNull(n) {
		return "nothing (null)"
	}
	return "text or a number"
}

// identity is the known part of the identity of an unreadable object, or the type that the items of a list inherit from it.
type identity struct {
	apiVersion, kind, namespace, name string
}

// identify returns the identity of the object of a node, as far as the node has it.
func identify(n *yaml.Node, inherited identity) identity {
	metadata := child(n, "metadata")
	id := identity{
		apiVersion: childText(n, "apiVersion"),
		kind:       childText(n, "kind"),
		namespace:  childText(metadata, "namespace"),
		name:       childText(metadata, "name"),
	}
	if id.apiVersion == "" && id.kind == "" {
		id.apiVersion, id.kind = inherited.apiVersion, inherited.kind
	}
	return id
}

// itemType returns the type that the items of a list inherit from it: for a ConfigMapList the kind ConfigMap, and an empty one
// for a plain List.
func (id identity) itemType() identity {
	kind := strings.TrimSuffix(id.kind, "List")
	if kind == "" {
		return identity{}
	}
	return identity{apiVersion: id.apiVersion, kind: kind}
}
