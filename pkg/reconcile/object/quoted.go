package object

import (
	"regexp"
	"strings"

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

var (
	// brackets are the brackets of a path, around the index of an item, or values in quotes.
	brackets = regexp.MustCompile(`\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]`)
	// index matches the brackets with an index.
	index = regexp.MustCompile(`^\[[0-9]+\]$`)
	// pathElement is one element of the path of a field, as the API server writes it:
	// spec.containers[0].env[name="A"].value.
	pathElement = regexp.MustCompile(`\[[^\]]*\]|[^.\[\]]+`)
	// misfitAt matches the message of the API server about a field that violates the schema: the
	// path, the expectation, and the value in the syntax of Go. The text is in
	// sigs.k8s.io/structured-merge-diff/v6/typed.
	misfitAt = regexp.MustCompile(`(?m)(\.\S+): (expected [^,\n]*), got (.*)$`)
)

// FieldWithoutValues returns a field as the API server names it. If values of the object are withheld, it replaces the keys of
// list items, which are values.
func FieldWithoutValues(field string, known ownership.Disclosure) string {
	if known.Withholds() {
		return brackets.ReplaceAllStringFunc(field, func(keys string) string {
			if index.MatchString(keys) {
				return keys
			}
			return "[*]"
		})
	}
	return field
}

// FieldNames returns the names that lead to the fields which the API server calls invalid, without the indexes and keys of lists, each
// once; nil for another error.
func FieldNames(err error) [][]string {
	var all [][]string
	seen := map[string]bool{}
	for _, field := range InvalidFields(err) {
		names := []string{}
		for _, element := range pathElement.FindAllString(field, -1) {
			if !strings.HasPrefix(element, "[") && field != noField {
				names = append(names, element)
			}
		}
		if joined := strings.Join(names, "."); !seen[joined] {
			seen[joined] = true
			all = append(all, names)
		}
	}
	return all
}

// noField is the field of a cause that concerns the whole object.
const noField = "<nil>"

// InvalidFields returns the fields that the API server calls invalid, as it writes them; nil for an answer that names none, or in
// another form.
func InvalidFields(err error) []string {
	details := DetailsOf(err)
	if details == nil {
		return nil
	}
	var fields []string
	for _, cause := range details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

// inEnvironment reports whether a field, as the API server names it, belongs to the
// value of an environment variable.
func inEnvironment(field string) bool {
	return ownership.InEnvironment(pathElement.FindAllString(field, -1)...)
}

// causeText is the message of a cause of an Invalid error, without the value of an
// environment variable, and without a long value.
func causeText(field, message string) string {
	text, _, _ := strings.Cut(message, "\n") // a difference follows
	kind, value, quotes := strings.Cut(text, ": ")
	if !quotes {
		return text
	}
	const long, kept = 200, 60
	at := strings.LastIndex(text, ": ")
	switch isScalar := strings.HasPrefix(value, `"`) || !strings.ContainsAny(value, "{["); {
	case inEnvironment(field):
		return kind + " (withheld: it belongs to an environment variable)"
	case !isScalar && at > len(kind) && !strings.ContainsAny(text[at:], `"}])`):
		return kind + text[at:] // such a value may hold environment variables
	case !isScalar:
		return kind
	case len(text) > long && at > kept:
		return display.Truncate(text, kept) + text[at:]
	}
	return text
}

// misfitText is the message of an error about the schema, without the value of an
// environment variable.
func misfitText(message string) string {
	return misfitAt.ReplaceAllStringFunc(message, func(line string) string {
		part := misfitAt.FindStringSubmatch(line)
		if value := part[3]; !inEnvironment(part[1]) && !strings.Contains(value, "{Value:map") && !strings.Contains(value, "{Value:[]") {
			return line
		}
		return part[1] + ": " + part[2]
	})
}

var (
	// schemaPrefix matches the beginning of an error about the schema: which step of an apply failed, and the name of the object.
	schemaPrefix = regexp.MustCompile(`failed to (?:create typed patch object|convert new object) \([^()]*\)(?: to proper version)?: (?:unable to convert unstructured object to [^:]*: )?`)
	// schemaPath matches the path of a line of such an error.
	schemaPath = regexp.MustCompile(`(?m)^(?:errors:\n)?\s*\.(\S+: )`)
	// schemaField matches such a path alone.
	schemaField = regexp.MustCompile(`^(?:\.[\w/-]+|\[[^\]]*\])+$`)
	// goValue matches a value in the syntax of Go.
	goValue = regexp.MustCompile(`(?m)&value\.valueUnstructured\{Value:(.*)\}$`)
	// unquoted matches a number or a truth value in the place of text.
	unquoted = regexp.MustCompile(`(?m)expected string, got (?:-?[0-9][0-9.eE+-]*|true|false)$`)
	// duplicate matches the reason of two items with one key.
	duplicate = regexp.MustCompile(`(?m)(duplicate entries for key \[.*\])$`)
)

// schemaText is the text of an error about the schema in the form of other errors about fields: "spec.ports: field not declared in schema".
func schemaText(message string) string {
	if !schemaPrefix.MatchString(message) {
		return message
	}
	text := schemaPath.ReplaceAllString(schemaPrefix.ReplaceAllString(message, ""), "$1")
	text = unquoted.ReplaceAllString(goValue.ReplaceAllString(text, "$1"), "$0: write it in quotes")
	text = duplicate.ReplaceAllString(text, "$1: keep one of them")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}

// schemaFields are the fields that an error about the schema names, up to the number that a message shows. A webhook may write a value in their place.
func schemaFields(err error) (fields []string) {
	if !misfit(err) || Denied(err) {
		return nil
	}
	for line := range strings.Lines(schemaPrefix.ReplaceAllString(err.Error(), "")) {
		field, _, found := strings.Cut(strings.TrimSpace(line), ": ")
		if found && schemaField.MatchString(field) {
			fields = append(fields, strings.TrimPrefix(field, "."))
		}
		if len(fields) == maxCauses {
			break
		}
	}
	return fields
}
