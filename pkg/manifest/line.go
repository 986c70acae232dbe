package manifest

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Line returns the first line of a field of an object in a manifest: the line of its key, or of its item of a list. at is the
// position that Parse gave the object, and path has names of fields and indexes of lists. A field that the text lacks, for
// example because it comes from a merge key, is on the line of the field above it.
func Line(text string, at Position, path []string) int {
	roots, _ := documentAt(text, at).parse() // none of a text that cannot be read
	for _, root := range roots {
		if n := begins(root, at.Line, 0); n != nil {
			return lineOf(n, at.Line, path)
		}
	}
	return at.Line
}

// documentAt returns the document of a position; an empty one if the text lacks it.
func documentAt(text string, at Position) document {
	for _, doc := range split(text) {
		if doc.number == at.Document {
			return doc
		}
	}
	return document{}
}

// maxSearchDepth bounds the search for an object in lists of lists.
const maxSearchDepth = 16

// begins returns the object that begins on a line: the node itself, or an item of a list.
func begins(n *yaml.Node, line, depth int) *yaml.Node {
	if depth > maxSearchDepth || n == nil {
		return nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if !isList(n) {
		if n.Line == line {
			return n
		}
		return nil
	}
	items := child(n, "items")
	if items == nil {
		return nil
	}
	for _, item := range items.Content {
		if found := begins(item, line, depth+1); found != nil {
			return found
		}
	}
	return nil
}

// lineOf follows a path below a node, whose line is given, as far as the text has it.
func lineOf(n *yaml.Node, line int, path []string) int {
	for _, token := range path {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		key, value := entryOf(n, token)
		if value == nil {
			return line
		}
		n, line = value, key.Line
	}
	return line
}

// entryOf returns the child of a node that a token of a path names, and the node whose line it is on.
func entryOf(n *yaml.Node, token string) (key, value *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, nil
		}
		return n.Content[i], n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Kind == yaml.ScalarNode && k.Value == token {
			return k, n.Content[i+1]
		}
	}
	return nil, nil
}
