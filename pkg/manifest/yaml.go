package manifest

import (
	"errors"
	"io"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
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
	body := skipToValue(d.text)
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

// shiftLines makes the line numbers of a document those of the manifest.
func shiftLines(n *yaml.Node, by int) {
	n.Line += by
	for _, c := range n.Content {
		shiftLines(c, by)
	}
}

// syntaxProblem explains one message of the YAML parser.
type syntaxProblem struct {
	// hint says what it means for the person who wrote the manifest.
	hint string
	// structure is true for what the parser finds, false for the scanner. The
	// parser counts lines from 0, and reports where the enclosing block began.
	structure bool
}

// syntaxProblems holds the messages that people meet. Only these are explained;
// nothing of any other is passed on, because it might quote the document.
var syntaxProblems = map[string]syntaxProblem{
	"did not find expected key":                                    {"the indentation is not that of the lines around it, or a quote or bracket before it is not closed", true},
	"did not find expected '-' indicator":                          {"the indentation is not that of the list before it", true},
	"did not find expected node content":                           {"a value is missing, or begins with a character that needs quotes", true},
	"did not find expected ',' or ']'":                             {"a ',' or the closing ']' is missing before it", true},
	"did not find expected ',' or '}'":                             {"a ',' or the closing '}' is missing before it", true},
	"found undefined tag handle":                                   {"a value that begins with '!' needs quotes", true},
	"did not find expected <document start>":                       {"there is something behind the end of the document, or a '---' is missing", true},
	"could not find expected ':'":                                  {"a key without its ':', or text whose quotes or indentation are missing", false},
	"mapping values are not allowed in this context":               {"a ':' where none can be: the indentation is wrong, or a value with ': ' in it needs quotes", false},
	"block sequence entries are not allowed in this context":       {"a '-' where no list can begin: begin the list on a line of its own", false},
	"found character that cannot start any token":                  {"a value that begins with '@', '`' or '%' needs quotes", false},
	"found unexpected end of stream":                               {"a quote that begins here is not closed", false},
	"found unknown escape character":                               {`an unknown escape after '\' in double quotes: write '\\', or use single quotes`, false},
	"did not find expected comment or line break":                  {"text behind a block scalar's '|' or '>': begin it on the next line", false},
	"did not find expected alphabetic or numeric character":        {"a value that begins with '*' or '&' needs quotes", false},
	"found a tab character where an indentation space is expected": {tabHint, false},
	"found a tab character that violates indentation":              {tabHint, false},
}

// tabHint explains a tab where YAML wants spaces.
const tabHint = "it is indented with a tab: YAML allows spaces only"

// syntaxFault says, in the words of syntaxProblems, what the parser found.
func syntaxFault(d document, err error) *Error {
	line, message := splitMessage(err)
	problem, known := syntaxProblems[message]
	if problem.structure {
		// The older parser, which kubectl uses, names the line of the trouble.
		// Decoding into a struct without fields parses, and expands nothing.
		if err := yamlv2.Unmarshal([]byte(d.text), &struct{}{}); err != nil {
			if l, m := splitMessage(err); m == message {
				line = l
			}
		}
		line++
	}
	line = max(line, 1)

	switch text := lineText(d.text, line); {
	case templateLine(d.text) > 0:
		return templateFault(d.line + templateLine(d.text) - 1)
	case strings.HasPrefix(message, "unknown anchor"):
		return aliasFault(d, message)
	case message == "control characters are not allowed":
		return faultf(d.lineAt(max(unprintable(d.text), 0)), "has a control character, which YAML does not allow")
	case !known:
		return faultf(d.line+line-1, "cannot be read as YAML")
	case strings.HasPrefix(strings.TrimLeft(text, " "), "\t"):
		return faultf(d.line+line-1, "cannot be read as YAML: %s", tabHint)
	}
	return faultf(d.line+line-1, "cannot be read as YAML: %s", problem.hint)
}

// splitMessage takes the line number and the message out of "yaml: line 4: ...".
// The line is 0 if the parser names none.
func splitMessage(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, found := strings.CutPrefix(message, "line "); found {
		if number, problem, found := strings.Cut(rest, ": "); found {
			if line, err := strconv.Atoi(number); err == nil {
				return line, problem
			}
		}
	}
	return 0, message
}

// aliasFault explains an alias without an anchor: nearly always a value that
// begins with an asterisk. Its text is a value, so it serves to find the line
// and is not quoted.
func aliasFault(d document, message string) *Error {
	line := d.line
	if _, rest, found := strings.Cut(message, "'"); found {
		name, _, _ := strings.Cut(rest, "'")
		line = d.lineAt(max(strings.Index(d.text, "*"+name), 0))
	}
	return faultf(line, "cannot be read as YAML: an alias (*name) without its anchor (&name); "+
		"a value that begins with '*' needs quotes")
}
