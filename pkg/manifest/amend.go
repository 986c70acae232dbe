package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Amendment is a new value of a field in the text of a manifest.
type Amendment struct {
	// Path has names of fields and indexes of lists, from the object on.
	Path []string
	// Value is a value as a decoded JSON text has it. Remove removes the field or item instead.
	Value  any
	Remove bool
}

// Amend returns the text of a manifest with new values of fields of one object. at is the position that Parse gave the object. The rest of
// the text stays: only the values themselves are replaced where they and the new ones are scalars or texts in lines, and the document is
// written again otherwise, with its comments and its order. The result is read again: an error means that the amendment failed.
func Amend(text string, at Position, amendments []Amendment, opts Options) (string, error) {
	at.Source = opts.Source // the caller may have read the text by another name
	before, err := Parse(text, opts)
	if err != nil {
		return "", err
	}
	found := false
	for _, object := range before {
		if object.Position != at {
			continue
		}
		found = true
		for _, a := range amendments {
			if _, err := set(object.Object, a.Path, a); err != nil {
				return "", err
			}
		}
	}
	if !found {
		return "", errors.New("the text does not have the object there")
	}
	want, err := canonical(before...)
	if err != nil {
		return "", err
	}
	for _, one := range amendments { // in turn: each changes the lines of the others
		if text, err = amendText(text, at, one, opts); err != nil {
			return "", err
		}
	}
	after, err := Parse(text, opts)
	if err != nil {
		return "", fmt.Errorf("the amended text cannot be read: %w", err)
	}
	have, err := canonical(after...)
	if err != nil {
		return "", err
	}
	if !slices.Equal(want, have) {
		return "", errors.New("the text cannot be amended: the field is written in a form that other fields share, such as an anchor")
	}
	return text, nil
}

// set returns a value with a new value at a path below it. A map is changed itself.
func set(value any, path []string, a Amendment) (any, error) {
	if len(path) == 0 {
		return a.Value, nil
	}
	last := len(path) == 1
	switch value := value.(type) {
	case map[string]any:
		if last && a.Remove {
			delete(value, path[0])
			return value, nil
		}
		below, err := set(value[path[0]], path[1:], a)
		value[path[0]] = below
		return value, err
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(value) {
			return nil, fmt.Errorf("the list has no item %s", path[0])
		}
		if last && a.Remove {
			return slices.Delete(value, i, i+1), nil
		}
		value[i], err = set(value[i], path[1:], a)
		return value, err
	}
	return nil, fmt.Errorf("the manifest has no field above %s", path[0])
}

// canonical returns objects as JSON with their keys in order.
func canonical(objects ...Object) ([]string, error) {
	texts := make([]string, len(objects))
	for i, object := range objects {
		encoded, err := json.Marshal(object.Object)
		if err != nil {
			return nil, errors.New("an object cannot be encoded") // the error may quote it
		}
		texts[i] = string(encoded)
	}
	return texts, nil
}

// amendText returns the text with one new value.
func amendText(text string, at Position, a Amendment, opts Options) (string, error) {
	doc := documentAt(text, at)
	before, behind := text[:doc.begin], text[doc.end:]
	_, _, old, err := doc.field(at, a.Path)
	if err != nil {
		return "", err
	}
	if old == nil && a.Remove {
		return text, nil
	}
	if old != nil && !a.Remove {
		for _, replaced := range inPlace(doc, old, a.Value) {
			changed := before + replaced + behind
			if matches(changed, at, a, opts) {
				return changed, nil
			}
		}
	}
	// The parser loses comments that end with CRLF.
	plain := document{number: doc.number, line: doc.line, text: strings.ReplaceAll(doc.text, "\r\n", "\n")}
	root, parent, old, err := plain.field(at, a.Path)
	if err != nil {
		return "", err
	}
	if err := replaceNode(parent, old, a); err != nil {
		return "", err
	}
	whole, err := encodeDocument(plain.text, root)
	if strings.Contains(doc.text, "\r\n") {
		whole = strings.ReplaceAll(whole, "\n", "\r\n")
	}
	return before + whole + behind, err
}

// field returns the root of the document, and of a field of the object at a position the node above it and its value, or nil.
func (d document) field(at Position, path []string) (root, parent, value *yaml.Node, err error) {
	root, fault := parseYAML(d) // which, unlike the reader of JSON, knows where values are
	if fault != nil || root == nil {
		return nil, nil, nil, errors.New("the text is in a form that cannot be amended, such as several JSON values in a row")
	}
	object := begins(root, at.Line, 0)
	if object == nil {
		return nil, nil, nil, errors.New("the text does not have the object there")
	}
	if parent, err = descend(object, path[:len(path)-1]); err != nil {
		return nil, nil, nil, err
	}
	_, value = entryOf(parent, path[len(path)-1])
	return root, parent, value, nil
}

// descend follows a path below a node.
func descend(n *yaml.Node, path []string) (*yaml.Node, error) {
	for _, token := range path {
		_, value := entryOf(n, token)
		if value == nil || value.Kind == yaml.AliasNode {
			return nil, fmt.Errorf("the text has no field %s of its own", token)
		}
		n = value
	}
	return n, nil
}

// matches reports whether a text has an object with a value.
func matches(text string, at Position, a Amendment, opts Options) bool {
	objects, err := Parse(text, opts)
	if err != nil {
		return false
	}
	for _, object := range objects {
		if object.Position == at {
			before, _ := canonical(object)
			_, err := set(object.Object, a.Path, a)
			after, _ := canonical(object)
			return err == nil && slices.Equal(before, after)
		}
	}
	return false
}

// inPlace returns texts of a document in which the text of one value is replaced, the best first. Some of them may lack the value.
func inPlace(doc document, old *yaml.Node, value any) []string {
	if old.Kind != yaml.ScalarNode || old.Anchor != "" || old.Style&yaml.TaggedStyle != 0 {
		return nil
	}
	switch value.(type) {
	case map[string]any, []any, nil:
		return nil
	}
	if old.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return literal(doc, old, value)
	}
	text := doc.text
	begin := offsetOf(text, old.Line-doc.line+1, old.Column)
	end := scalarEnd(text, begin, old)
	if end < 0 {
		return nil
	}
	var all []string
	for _, encoded := range scalars(old, value) {
		all = append(all, text[:begin]+encoded+text[end:])
	}
	return all
}

// scalars returns the forms of a scalar, in the style of the former one first.
func scalars(old *yaml.Node, value any) []string {
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var all []string
	text, isText := value.(string)
	switch {
	case isText && old.Style&yaml.DoubleQuotedStyle != 0:
		all = append(all, string(quoted))
	case isText && old.Style&yaml.SingleQuotedStyle != 0 && !strings.ContainsAny(text, "\r\n"):
		all = append(all, "'"+strings.ReplaceAll(text, "'", "''")+"'")
	}
	if plain, err := yaml.Marshal(value); err == nil && strings.Count(string(plain), "\n") == 1 {
		all = append(all, strings.TrimSuffix(string(plain), "\n"))
	}
	return append(all, string(quoted))
}

// offsetOf returns the offset of a line and column, both from 1. Columns are characters.
func offsetOf(text string, line, column int) int {
	number := 0
	for offset, content := range lines(text) {
		if number++; number != line {
			continue
		}
		for i := range content {
			if column--; column == 0 {
				return offset + i
			}
		}
		return offset + len(content)
	}
	return len(text)
}

// scalarEnd returns the offset behind a scalar in one line; negative if it is unknown.
func scalarEnd(text string, begin int, n *yaml.Node) int {
	rest := text[begin:]
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0 && strings.HasPrefix(rest, `"`):
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return begin + i + 1
			}
		}
	case n.Style&yaml.SingleQuotedStyle != 0 && strings.HasPrefix(rest, "'"):
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\'' && i+1 < len(rest) && rest[i+1] == '\'' {
				i++
			} else if rest[i] == '\'' {
				return begin + i + 1
			}
		}
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 && n.Value != "" && strings.HasPrefix(rest, n.Value):
		return begin + len(n.Value)
	}
	return -1
}

// literal returns the document in which the lines of a literal block are replaced.
func literal(doc document, old *yaml.Node, value any) []string {
	text := doc.text
	want, isText := value.(string)
	if !isText || old.Style&yaml.LiteralStyle == 0 || strings.HasSuffix(want, "\n") != strings.HasSuffix(old.Value, "\n") || strings.HasPrefix(want, " ") {
		return nil
	}
	begin := offsetOf(text, old.Line-doc.line+2, 1)
	ending := "\n"
	if strings.Contains(text[:begin], "\r\n") {
		ending = "\r\n"
	}
	first, _, _ := strings.Cut(old.Value, "\n")
	indent := strings.Repeat(" ", indentation(lineText(text[begin:], 1))-indentation(first))
	block := func(content string) string {
		var b strings.Builder
		for line := range strings.SplitSeq(strings.TrimSuffix(content, "\n"), "\n") {
			if line != "" {
				b.WriteString(indent + line)
			}
			b.WriteString(ending)
		}
		return b.String()
	}
	have := block(old.Value)
	if !strings.HasPrefix(text[begin:], have) {
		if have = strings.TrimSuffix(have, ending); text[begin:] != have { // the last line may have no end
			return nil
		}
	}
	return []string{text[:begin] + block(want) + text[begin+len(have):]}
}

// replaceNode replaces, adds or removes a value below a node. old is the value that it has; nil for none.
func replaceNode(parent, old *yaml.Node, a Amendment) error {
	token := a.Path[len(a.Path)-1]
	at := slices.Index(parent.Content, old)
	switch {
	case a.Remove && parent.Kind == yaml.MappingNode:
		parent.Content = slices.Delete(parent.Content, at-1, at+1)
		return nil
	case a.Remove:
		parent.Content = slices.Delete(parent.Content, at, at+1)
		return nil
	}
	n := &yaml.Node{}
	if err := n.Encode(a.Value); err != nil {
		return errors.New("a value cannot be encoded") // the error may quote it
	}
	switch {
	case old != nil:
		n.HeadComment, n.LineComment, n.FootComment = old.HeadComment, old.LineComment, old.FootComment
		if n.Kind == old.Kind && n.Kind != yaml.ScalarNode {
			n.Style = old.Style
		}
		if n.Kind != yaml.ScalarNode && parent.Kind == yaml.MappingNode && n.LineComment != "" { // otherwise it moves to the next field
			key := parent.Content[at-1]
			key.HeadComment = strings.TrimPrefix(key.HeadComment+"\n"+n.LineComment, "\n")
			n.LineComment = ""
		}
		parent.Content[at] = n
	case parent.Kind == yaml.MappingNode:
		parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: token}, n)
	default:
		return fmt.Errorf("the list has no item %s", token)
	}
	return nil
}

// encodeDocument returns a changed document in the style of its text.
func encodeDocument(text string, root *yaml.Node) (string, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if !wideLists(text) {
		encoder.CompactSeqIndent()
	}
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return "", errors.New("the document cannot be encoded") // the error may quote it
	}
	encoded := b.String()
	if first := lineText(text, 1); isMarker(first, "---") && isBlank(first[len("---"):]) {
		encoded = first + "\n" + encoded
	}
	return encoded, nil
}

// wideLists reports whether the items of lists are indented below their field, where the text shows it.
func wideLists(text string) bool {
	field := -1
	for _, line := range lines(text) {
		if isBlank(line) {
			continue
		}
		if indent := indentation(line); field >= 0 && strings.HasPrefix(line[indent:], "- ") {
			return indent > field
		}
		field = -1
		if strings.HasSuffix(strings.TrimRight(line, " "), ":") {
			field = indentation(strings.Replace(line, "- ", "  ", 1))
		}
	}
	return false
}
