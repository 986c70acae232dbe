package manifest

import (
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
)

// syntaxProblem explains one message of the YAML parser.
type syntaxProblem struct {
	// hint is the meaning for the author of the manifest.
	hint string
	// structure is true for faults that the parser finds, false for the scanner. The parser counts lines from 0, and reports
	// the first line of the enclosing block.
	structure bool
}

// syntaxProblems explains the common messages. Others are dropped, because they may quote the
// document.
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

// syntaxFault returns the finding of the parser in the words of syntaxProblems.
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

	if fault := d.templateFault(); fault != nil {
		return fault
	}
	switch text := lineText(d.text, line); {
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
