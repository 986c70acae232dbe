package ownership

import (
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// SensitiveAnnotation on an object, with any value but "false", means that its
// values must not be shown, as those of a Secret are not.
const SensitiveAnnotation = "infrahub.operators.com/sensitive"

// allSensitive is whether every object counts as sensitive.
var allSensitive atomic.Bool

// WithholdValues makes every object count as sensitive until the process ends. It is a
// switch of the process rather than an option of each caller, so that no caller can
// forget it. Call it before the first object is read.
func WithholdValues() { allSensitive.Store(true) }

// Sensitivity reports whether a version of an object is sensitive.
type Sensitivity bool

// SensitivityOf reports whether one of the versions of an object is sensitive: it is a Secret, it is a VidraResource
// whose manifest has one, or it has the SensitiveAnnotation. A nil version is none.
func SensitivityOf(versions ...*unstructured.Unstructured) Sensitivity {
	for _, obj := range versions {
		if obj != nil && (isSecret(obj) || holdsSecret(obj) || Annotated(obj)) {
			return true
		}
	}
	return false
}

func isSecret(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Secret" && !strings.Contains(obj.GetAPIVersion(), "/")
}

// holdsSecret reports whether an object is a VidraResource whose manifest may have a sensitive object.
func holdsSecret(obj *unstructured.Unstructured) bool {
	if obj.GetKind() != "VidraResource" || !strings.HasPrefix(obj.GetAPIVersion(), keptDomain) {
		return false
	}
	text, _, _ := unstructured.NestedString(obj.Object, "spec", "manifest")
	return strings.Contains(text, "Secret") || strings.Contains(text, SensitiveAnnotation)
}

// Annotated reports whether an object has the SensitiveAnnotation.
func Annotated(obj *unstructured.Unstructured) bool {
	annotation, found, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "annotations", SensitiveAnnotation)
	return err == nil && found && annotation != "false"
}

// Disclosure is the decision whether values of an object leave the process. Every function that
// returns or prints values takes one. Its zero value withholds all values.
type Disclosure struct{ shown bool }

// Disclose decides whether values of an object are shown: only if the object was not sensitive
// before the edit and is not after it, its manifest is not sensitive, and WithholdValues was not
// called. It is the only decision about the values of whole objects. A caller without knowledge of
// the time before the edit must not pass false for before: the inventory has it after a restart.
func Disclose(before, after, manifest Sensitivity) Disclosure {
	return Disclosure{shown: !bool(before || after || manifest) && !allSensitive.Load()}
}

// With returns the decision that also counts further versions of the object.
func (d Disclosure) With(versions ...*unstructured.Unstructured) Disclosure {
	return Disclosure{shown: d.shown && !bool(SensitivityOf(versions...))}
}

// Withholds reports whether no value of the object is shown.
func (d Disclosure) Withholds() bool { return !d.shown }

// withheldText stands in place of a withheld value inside of a shown one.
const withheldText = "(withheld)"

// environments are the names, in lower case, of the fields that hold environment
// variables: env of a container, and what custom resources use.
var environments = []string{"env", "envs", "envvars", "extraenv", "extraenvs", "extraenvvars", "environment"}

// place is what is known from a path about the value to which it leads, as far as environment
// variables are concerned: their values are withheld in every object.
type place int

const (
	// ordinary is a value that is shown.
	ordinary place = iota
	// environment is the list or map of environment variables.
	environment
	// variable is an item of such a list: its name and valueFrom are shown.
	variable
	// concealed is a value that is not shown.
	concealed
)

// field is the place of a field of a map at p.
func (p place) field(name string) place {
	switch {
	case p == environment, p == ordinary && name == corev1.LastAppliedConfigAnnotation: // which holds the whole object
		return concealed
	case p == variable && (name == "name" || name == "valueFrom"):
		return ordinary
	case p == variable:
		return concealed
	case p == ordinary && slices.Contains(environments, strings.ToLower(name)):
		return environment
	}
	return p
}

// item is the place of an item of a list at p.
func (p place) item() place {
	if p == environment {
		return variable
	}
	return p
}

// conceals reports whether nothing is shown of value at p.
func (p place) conceals(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return p == concealed
	}
	return p == concealed || p == variable
}

// placeOf is the place of the value to which a path leads.
func placeOf(path fieldpath.Path) place {
	p := ordinary
	for _, element := range path {
		if element.FieldName != nil {
			p = p.field(*element.FieldName)
		} else {
			p = p.item()
		}
	}
	return p
}

// InEnvironment reports whether a path leads to environment variables or to the value of
// one, which is withheld in every object. The path has names of fields, and items of
// lists in brackets.
func InEnvironment(path ...string) bool {
	p := ordinary
	for _, element := range path {
		if strings.HasPrefix(element, "[") {
			p = p.item()
		} else {
			p = p.field(element)
		}
	}
	return p != ordinary
}
