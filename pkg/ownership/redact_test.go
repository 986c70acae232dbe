package ownership

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRedact: a policy may quote the environment variables of an object. Its message is shown without them.
func TestRedact(t *testing.T) {
	pod := func(env string) *unstructured.Unstructured {
		return object(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"webserver","namespace":"shop"},"spec":{"containers":[{"name":"web","image":"web:1.2.3","env":%s}]}}`, env))
	}
	variable := func(value string) string { return fmt.Sprintf(`[{"name":"PASSWORD","value":%q}]`, value) }
	for name, tt := range map[string]struct {
		reason   string
		versions []*unstructured.Unstructured
		text     string
		want     string
	}{
		"Value":       {"The message is shown without the value.", []*unstructured.Unstructured{pod(variable("hunter2!"))}, "PASSWORD is hunter2!, which is weak", "PASSWORD is (withheld), which is weak"},
		"Versions":    {"The value before the edit counts, too.", []*unstructured.Unstructured{pod(variable("swordfish")), nil, pod(variable("hunter22"))}, "was swordfish, is hunter22", "was (withheld), is (withheld)"},
		"Within":      {"A long value is found within a word.", []*unstructured.Unstructured{pod(variable("swordfish"))}, "xswordfishx", "x(withheld)x"},
		"Shortest":    {"So is one of eight bytes.", []*unstructured.Unstructured{pod(variable("hunter22"))}, "xhunter22x", "x(withheld)x"},
		"Word":        {"A short one is not: another word has it by chance.", []*unstructured.Unstructured{pod(variable("info"))}, "information: info", "information: (withheld)"},
		"Short":       {"One of few characters hides nothing.", []*unstructured.Unstructured{pod(variable("on"))}, "on or off", "on or off"},
		"Shown":       {"What the object shows elsewhere stays, or no message could name the object.", []*unstructured.Unstructured{pod(variable("webserver"))}, `pods "webserver" is forbidden`, `pods "webserver" is forbidden`},
		"Quoted":      {"Values are quoted in the syntax of Go and of JSON.", []*unstructured.Unstructured{pod(variable("a\"b\nc<d"))}, `"a\"b\nc<d" and "a\"b\nc\u003cd"`, `"(withheld)" and "(withheld)"`},
		"Part":        {"One value is a part of another.", []*unstructured.Unstructured{pod(`[{"name":"A","value":"swordfish"},{"name":"B","value":"swordfish-two"}]`)}, "swordfish-two, swordfish", "(withheld), (withheld)"},
		"Map":         {"Custom resources have maps.", []*unstructured.Unstructured{object(t, `{"apiVersion":"example.com/v1","kind":"App","spec":{"extraEnv":{"PASSWORD":"swordfish"}}}`)}, "no swordfish", "no (withheld)"},
		"Assignment":  {"Or sets of NAME=value.", []*unstructured.Unstructured{object(t, `{"apiVersion":"example.com/v1","kind":"App","spec":{"env":["PASSWORD=swordfish"]}}`)}, "no swordfish", "no (withheld)"},
		"Number":      {"Or numbers.", []*unstructured.Unstructured{object(t, `{"apiVersion":"example.com/v1","kind":"App","spec":{"env":[{"name":"PIN","value":471147}]}}`)}, "no 471147", "no (withheld)"},
		"LastApplied": {"kubectl keeps a former value in an annotation.", []*unstructured.Unstructured{object(t, `{"apiVersion":"example.com/v1","kind":"App","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"env\":[{\"name\":\"A\",\"value\":\"swordfish\"}]}}"}}}`)}, "no swordfish", "no (withheld)"},
		"None":        {"Without a version nothing is known.", nil, "swordfish", "swordfish"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, shown.With(tt.versions...).Redact(tt.text), tt.reason)
		})
	}
	later := shown.Withholding(func() *unstructured.Unstructured { return pod(variable("swordfish")) })
	require.Equal(t, "(withheld)", later.Redact("swordfish"), "a version that is made when it is needed")
	require.Equal(t, "swordfish", shown.Redact("swordfish"), "the decision that it was made from is unchanged")
}
