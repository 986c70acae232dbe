package ownership

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// SensitiveAnnotation on an object, with any value but "false", withholds its values like the values of a Secret.
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
// whose manifest may have one, a field of it is a Secret or a manifest with one, or it has the SensitiveAnnotation. A nil version is ignored.
func SensitivityOf(versions ...*unstructured.Unstructured) Sensitivity {
	for _, obj := range versions {
		if obj != nil && (isSecret(obj) || bool(sensitivityOfManifestIn(obj)) || Annotated(obj) || embedsSecret(obj.Object)) {
			return true
		}
	}
	return false
}

// SensitivityOfManifest reports whether the text of a manifest may have a value that is never shown: of a Secret, of an
// annotated object or of an environment variable.
func SensitivityOfManifest(text string) Sensitivity {
	return Sensitivity(strings.Contains(text, "Secret") || strings.Contains(text, SensitiveAnnotation) || strings.Contains(strings.ToLower(text), "env"))
}

func isSecret(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Secret" && !strings.Contains(obj.GetAPIVersion(), "/")
}

// sensitivityOfManifestIn is SensitivityOfManifest for the manifest of an object, if that is a VidraResource.
func sensitivityOfManifestIn(obj *unstructured.Unstructured) Sensitivity {
	if obj.GetKind() != "VidraResource" || !strings.HasPrefix(obj.GetAPIVersion(), keptDomain) {
		return false
	}
	text, _, _ := unstructured.NestedString(obj.Object, "spec", "manifest")
	return SensitivityOfManifest(text)
}

// secretInText and dataInText match a Secret, or a list of them, and its data in the text of a manifest, in YAML or JSON, which may be a value in other texts.
var (
	secretInText = regexp.MustCompile(`\bkind\\*["']?\s*:\s*\\*["']?Secret(?:List)?\b`)
	dataInText   = regexp.MustCompile(`\b(?:data|stringData)\\*["']?\s*:`)
)

// embedsSecret reports whether value, or a value in it, is a Secret with data or a list of Secrets, as kinds have it that distribute objects, or the text of
// a manifest with one, as ConfigMaps have it.
func embedsSecret(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		if value["apiVersion"] == "v1" && (value["kind"] == "Secret" && (value["data"] != nil || value["stringData"] != nil) || value["kind"] == "SecretList" && value["items"] != nil) {
			return true
		}
		for _, field := range value {
			if embedsSecret(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, embedsSecret)
	case string:
		return strings.Contains(value, "Secret") && secretInText.MatchString(value) && dataInText.MatchString(value)
	}
	return false
}

// Annotated reports whether an object has the SensitiveAnnotation.
func Annotated(obj *unstructured.Unstructured) bool {
	annotation, found, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "annotations", SensitiveAnnotation)
	return err == nil && found && annotation != "false"
}

// Disclosure is the decision whether values of an object leave the process. Every function that
// returns or prints values takes one. Its zero value withholds all values.
type Disclosure struct {
	shown bool
	// versions are those versions of the object whose environment variables Redact withholds.
	versions []func() *unstructured.Unstructured
}

// Disclose decides whether values of an object are shown: only if the object was not sensitive
// before the edit and is not after it, its manifest is not sensitive, and WithholdValues was not
// called. It is the only decision about the values of whole objects. A caller without knowledge of
// the time before the edit must not pass false for before: the inventory has it after a restart.
func Disclose(before, after, manifest Sensitivity) Disclosure {
	return Disclosure{shown: !bool(before || after || manifest) && !allSensitive.Load()}
}

// With returns the decision that also counts further versions of the object. A nil version is ignored.
func (d Disclosure) With(versions ...*unstructured.Unstructured) Disclosure {
	d.shown = d.shown && !bool(SensitivityOf(versions...))
	for _, version := range versions {
		if version != nil {
			d = d.Withholding(func() *unstructured.Unstructured { return version })
		}
	}
	return d
}

// Withholding returns the decision with one more version of the object for Redact. It is made when a text is redacted.
func (d Disclosure) Withholding(version func() *unstructured.Unstructured) Disclosure {
	d.versions = append(slices.Clip(d.versions), version)
	return d
}

// Withholds reports whether all values of the object are withheld.
func (d Disclosure) Withholds() bool { return !d.shown }

// withheldText stands in place of a withheld value inside of a shown one.
const withheldText = "(withheld)"

// environments are the ends of the names, in any case, of the fields that hold environment variables: env of a container, and
// names in custom resources, such as extraEnv and environmentVariables.
var environments = []string{
	"env", "envs", "envvar", "envvars", "env_vars", "env-vars", "environment", "environments", "environmentvariables", "environment_variables", "environment-variables",
}

// holdsEnvironment reports whether a field with a name holds environment variables, where it is a map or a list.
func holdsEnvironment(name string) bool {
	return slices.ContainsFunc(environments, func(end string) bool {
		return len(name) >= len(end) && strings.EqualFold(name[len(name)-len(end):], end)
	})
}

// wholeObjects are the annotations in which clients keep the whole object: kapp and Rancher. The annotations of kubectl and its successors, of
// kopf and of the libraries of the Banzai operators are called last-applied-configuration, last-handled-configuration or alike, in
// domains of their own.
var wholeObjects = []string{"kapp.k14s.io/original", "kapp.k14s.io/original-diff", "objectset.rio.cattle.io/applied"}

// holdsObject reports whether a field with a name is an annotation with a whole object.
func holdsObject(name string) bool {
	_, of, annotation := strings.Cut(name, "/")
	return annotation && (strings.HasPrefix(of, "last-applied") || strings.HasPrefix(of, "last-handled") || slices.Contains(wholeObjects, name))
}

// place is the knowledge from a path about the value at its end, as far as environment variables are concerned: their values
// are withheld in every object.
type place int

const (
	// ordinary is a value that is shown.
	ordinary place = iota
	// environment is the list or map of environment variables.
	environment
	// variable is an item of such a list: its name and valueFrom are shown.
	variable
	// concealed is a withheld value.
	concealed
)

// field is the place of a field of a map at p.
func (p place) field(name string) place {
	switch {
	case p == environment, p == ordinary && holdsObject(name):
		return concealed
	case p == variable && (name == "name" || name == "valueFrom"):
		return ordinary
	case p == variable:
		return concealed
	case p == ordinary && holdsEnvironment(name):
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

// conceals reports whether all of value at p is withheld.
func (p place) conceals(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return p == concealed
	}
	return p == concealed || p == variable
}

// child is the place of the value that element selects in one at p.
func (p place) child(element fieldpath.PathElement) place {
	if element.FieldName != nil {
		return p.field(*element.FieldName)
	}
	return p.item()
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
