package manifest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// maxErrors is the maximum number of errors that Parse collects, and that [Errors] prints.
const maxErrors = 10

// Error describes a fault of one object, or of one document, and its place. Its text is for the author of the manifest: it has
// the next step. It quotes no value, because that could be a value of a Secret.
type Error struct {
	// Position is the place of the fault: the offending line if it is known, otherwise the first line of the object or
	// document. It is zero for an error about the manifest as a whole.
	Position Position
	// GVK is the object's group, version and kind as far as they are known.
	GVK schema.GroupVersionKind
	// Namespace is the object's namespace as far as it is known.
	Namespace string
	// Name is the object's name as far as it is known.
	Name string
	// Message is the fault, with the next step if that is unclear.
	Message string
}

// Error returns for example
// "document 2, line 14, item 3: Deployment shop/web: has no ...".
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	if where := e.Position.String(); where != "" {
		parts = append(parts, where)
	}
	if who := e.object(); who != "" {
		parts = append(parts, who)
	}
	return strings.Join(append(parts, e.Message), ": ")
}

// object names the object as far as it is known: "Deployment shop/web".
func (e *Error) object() string {
	if e.Name == "" {
		return e.GVK.Kind
	}
	return strings.TrimSpace(display.Name(e.GVK.Kind, e.Namespace, e.Name))
}

// String returns for example "document 2, line 14, item 3", without zero parts.
func (p Position) String() string {
	var parts []string
	if p.Source != "" {
		parts = append(parts, p.Source)
	}
	if p.Document > 0 {
		parts = append(parts, fmt.Sprintf("document %d", p.Document))
	}
	if p.Line > 0 {
		parts = append(parts, fmt.Sprintf("line %d", p.Line))
	}
	if p.Item > 0 {
		parts = append(parts, fmt.Sprintf("item %d", p.Item))
	}
	return strings.Join(parts, ", ")
}

// Errors is everything that was found wrong with a manifest, in its order.
// errors.As finds the first *Error in it.
type Errors []*Error

// Error returns the errors in one line, and counts those beyond the tenth.
func (e Errors) Error() string {
	shown := make([]string, 0, min(len(e), maxErrors))
	for _, err := range e[:min(len(e), maxErrors)] {
		shown = append(shown, err.Error())
	}
	text := strings.Join(shown, "; ")
	if more := len(e) - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap returns the errors, for errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, err := range e {
		all[i] = err
	}
	return all
}

// faultf returns an error that knows only its line so far; fault, of
// identity, adds the rest. A line of 0 is unknown.
func faultf(line int, format string, args ...any) *Error {
	return &Error{Position: Position{Line: line}, Message: fmt.Sprintf(format, args...)}
}

// fault completes an error with the object's identity and position; a line that
// the error knows already is the better one.
func (id identity) fault(at Position, err *Error) *Error {
	if err.Position.Line > 0 {
		at.Line = err.Position.Line
	}
	return &Error{
		Position:  at,
		GVK:       schema.FromAPIVersionAndKind(id.apiVersion, id.kind),
		Namespace: id.namespace,
		Name:      id.name,
		Message:   err.Message,
	}
}
