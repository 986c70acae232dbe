package configfile

import (
	"reflect"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/vidra-operator/vidra/pkg/api/config/v1alpha1"
)

// A Field is one field of the file.
type Field struct {
	// Name is its name in the file.
	Name string
	// Flag is the name of its flag, without the dashes.
	Flag string
	// Type is its kind of value: boolean, integer, duration, string or list of strings.
	Type string
}

// Fields returns the fields of an OperatorConfiguration except apiVersion and kind.
func Fields() []Field {
	var all []Field
	for field := range reflect.TypeFor[configv1alpha1.OperatorConfiguration]().Fields() {
		if field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, Field{Name: name, Flag: flagName(name), Type: typeName(field.Type)})
	}
	return all
}

// flagName returns the name of the flag of a field: leaderElect is --leader-elect.
func flagName(field string) string {
	var b strings.Builder
	for _, char := range field {
		if unicode.IsUpper(char) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(char))
	}
	return b.String()
}

// The types of fields.
const (
	boolean    = "boolean"
	integer    = "integer"
	duration   = "duration"
	text       = "string"
	listOfText = "list of strings"
)

// typeName returns the type of a field; empty for an unsupported one.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[*bool]():
		return boolean
	case reflect.TypeFor[*int]():
		return integer
	case reflect.TypeFor[*metav1.Duration]():
		return duration
	case reflect.TypeFor[*string]():
		return text
	case reflect.TypeFor[[]string]():
		return listOfText
	}
	return ""
}
