package manifest

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parse reads a document and returns its top-level nodes: one, several when it
// is a run of JSON objects, or none when it holds nothing. The nodes carry the
// line numbers of the manifest.
func (d document) parse() ([]*yaml.Node, *Error) {
	if at := invalidUTF8(d.text); at >= 0 {
		return nil, faultf(d.lineAt(at), "is not text in UTF-8: save the manifest in that encoding")
	}

	// JSON first: it is nearly YAML, but not quite ("\ud83d\ude00" is a pair of
	// escapes that YAML refuses), and its reader knows nothing of YAML's numbers.
	body := skipToValue(skipMarker(d.text))
	var jsonErr *Error
	if strings.HasPrefix(body, "{") {
		var nodes []*yaml.Node
		if nodes, jsonErr = parseJSON(d, body); jsonErr == nil {
			return nodes, nil
		}
	}

	root, yamlErr := parseYAML(d)
	switch {
	case yamlErr == nil && root == nil:
		return nil, nil
	case yamlErr == nil:
		return []*yaml.Node{root}, nil
	case jsonErr != nil && looksLikeJSON(body):
		return nil, jsonErr
	}
	return nil, yamlErr
}

// lineAt returns the line, in the manifest, of an offset in the document.
func (d document) lineAt(offset int) int {
	return d.line + lineAt(d.text, offset) - 1
}

// parseYAML returns the root node of a YAML document, or nil if it holds none.
func parseYAML(d document) (root *yaml.Node, fault *Error) {
	// The parser panics on input that it did not foresee. One manifest must not
	// take down the operator, and the same text would do so again after each
	// restart.
	defer func() {
		if recover() != nil {
			root, fault = nil, faultf(d.line, "cannot be read as YAML")
		}
	}()

	if directives(d.text) > maxDirectives {
		return nil, faultf(d.line, "has more than %d directives (%%TAG): remove those it does not need", maxDirectives)
	}
	dec := yaml.NewDecoder(strings.NewReader(d.text))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxFault(d, err)
	}
	// YAML 1.1 knows three more line breaks than split does.
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, faultf(d.line, "has a line break other than LF, CR or CRLF before a document marker")
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	shiftLines(&doc, d.line-1)
	return doc.Content[0], nil
}

// maxDirectives is how many directives a document has at most: the parser compares each one, and each tag, with all of them.
const maxDirectives = 16

// lineStarts are the line breaks of YAML 1.1, and the byte order mark.
const lineStarts = "\r\n\u0085\u2028\u2029" + byteOrderMark

// directives returns how many lines of a text may be directives. They may follow a line break that split does not know, also behind a first document.
func directives(text string) (count int) {
	before, text, found := strings.Cut("\n"+text, "%TAG")
	for found {
		if last, _ := utf8.DecodeLastRuneInString(before); strings.ContainsRune(lineStarts, last) {
			count++
		}
		before, text, found = strings.Cut(text, "%TAG")
	}
	return count
}

// shiftLines turns the line numbers of a document into line numbers of the manifest.
func shiftLines(n *yaml.Node, by int) {
	n.Line += by
	for _, c := range n.Content {
		shiftLines(c, by)
	}
}
