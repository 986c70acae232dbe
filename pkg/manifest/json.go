package manifest

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// skipMarker leaves out the marker that a document may begin with.
func skipMarker(text string) string {
	if isMarker(lineText(text, 1), "---") {
		return text[len("---"):]
	}
	return text
}

// skipToValue leaves out white space and YAML comments before a JSON value.
func skipToValue(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if !strings.HasPrefix(text, "#") {
			return text
		}
		end := strings.IndexAny(text, "\r\n")
		if end < 0 {
			return ""
		}
		text = text[end:]
	}
}

// looksLikeJSON distinguishes JSON from a YAML flow mapping, whose keys are usually unquoted. It
// decides whether the error of the JSON or of the YAML parser is returned.
func looksLikeJSON(body string) bool {
	body = strings.TrimLeft(body[1:], " \t\r\n")
	return strings.HasPrefix(body, `"`) || strings.HasPrefix(body, "}")
}

// parseJSON returns the nodes of the JSON values that follow one another in body, which is the rest of the document's text.
// They equal the nodes of YAML with each string in quotes, so that all later steps are the same for both.
func parseJSON(d document, body string) ([]*yaml.Node, *Error) {
	j := &jsonReader{doc: d, line: d.line}
	j.begin(body)
	var nodes []*yaml.Node
	for {
		n, err := j.value(0)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)

		rest := d.text[j.offset():]
		next := skipToValue(rest)
		if next == "" {
			return nodes, nil
		}
		if strings.Contains(rest[:len(rest)-len(next)], "#") {
			j.begin(next) // The decoder itself knows no comments.
		}
	}
}

// jsonReader reads one JSON value after the other.
type jsonReader struct {
	doc  document
	dec  *json.Decoder
	base int // The offset in the document's text at which dec began.

	// counted is the end of the counted lines, as an offset.
	counted, line int
}

// begin makes the reader continue with body, which is the rest of the document's
// text.
func (j *jsonReader) begin(body string) {
	j.base = len(j.doc.text) - len(body)
	j.dec = json.NewDecoder(strings.NewReader(body))
	j.dec.UseNumber()
}

// offset returns the offset, in the document's text, behind the last token.
func (j *jsonReader) offset() int {
	return j.base + int(j.dec.InputOffset())
}

// here returns the line of the last token.
func (j *jsonReader) here() int {
	passed := j.doc.text[j.counted:j.offset()]
	j.line += lineAt(passed, len(passed)) - 1
	j.counted += len(passed)
	return j.line
}

// value reads the next value.
func (j *jsonReader) value(depth int) (*yaml.Node, *Error) {
	token, err := j.dec.Token()
	if err != nil {
		return nil, j.fault(err)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: j.here()}
	switch token := token.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, depthFault(n.Line)
		}
		return n, j.members(n, token, depth+1)
	case string:
		n.Style, n.Value = yaml.DoubleQuotedStyle, token
	case json.Number:
		n.Value = token.String()
		if _, err := strconv.ParseFloat(n.Value, 64); err != nil {
			n.Value = ".inf" // YAML would take a number so large for text.
		}
	case bool:
		n.Value = strconv.FormatBool(token)
	case nil:
		n.Value = "null"
	}
	return n, nil
}

// members reads the members of an object or an array, to its end.
func (j *jsonReader) members(n *yaml.Node, open json.Delim, depth int) *Error {
	n.Kind = yaml.SequenceNode
	if open == '{' {
		n.Kind = yaml.MappingNode
	}
	for j.dec.More() {
		member, err := j.value(depth)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, member)
	}
	if _, err := j.dec.Token(); err != nil {
		return j.fault(err)
	}
	return nil
}

// fault explains an error of the JSON decoder, whose own text quotes characters
// of the document.
func (j *jsonReader) fault(err error) *Error {
	line := j.here()
	if fault := j.doc.templateFault(); fault != nil {
		return fault
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return faultf(line, "cannot be read as JSON: it ends too early, a brace, bracket or quote is not closed")
	}
	return faultf(line, "cannot be read as JSON: what stands here is not allowed, "+
		"as when a comma, a colon or a quote is missing or there is one too many")
}
