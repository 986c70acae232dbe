package object

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestMessageWithholdsEnvironment: what the API server quotes in an error is shown, unless
// it may be the value of an environment variable.
func TestMessageWithholdsEnvironment(t *testing.T) {
	root := field.NewPath("spec", "containers").Index(0)
	invalid := func(path *field.Path, value any, detail string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Invalid(path, value, detail)})
	}
	misfit := func(lines ...string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "failed to create typed patch object (a/b; v1, Kind=Pod): " + strings.Join(lines, "\n")}}
	}
	type app struct {
		Env map[string]string `json:"env"`
	}
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Plain": {
			"A value that is wrong is shown.", invalid(root.Child("image"), "no image", "must be one"),
			`spec.containers[0].image: Invalid value: "no image": must be one`,
		},
		"Variable": {
			"That of a variable is not.", invalid(root.Child("env").Index(0).Child("value"), "hunter2", "is too short"),
			"spec.containers[0].env[0].value: Invalid value (withheld: it belongs to an environment variable)",
		},
		"VariableWithoutDetail": {
			"Nor a part of it that looks like a reason.", invalid(root.Child("env").Index(0).Child("value"), "a: hunter2", ""),
			"spec.containers[0].env[0].value: Invalid value (withheld: it belongs to an environment variable)",
		},
		"VariableName": {
			"The name of a variable is shown.", invalid(root.Child("env").Index(0).Child("name"), "a b", "must be a name"),
			`spec.containers[0].env[0].name: Invalid value: "a b": must be a name`,
		},
		"Map": {
			"A map of variables is not shown.", invalid(field.NewPath("spec", "env"), map[string]string{"P": "hunter2"}, "has no A"),
			"spec.env: Invalid value (withheld: it belongs to an environment variable)",
		},
		"Around": {
			"Nor is what holds them.", invalid(field.NewPath("spec", "app"), app{map[string]string{"P": "hunter2"}}, "field is immutable"),
			"spec.app: Invalid value: field is immutable",
		},
		"AroundWithoutDetail": {
			"Also where no reason is given.", invalid(field.NewPath("spec", "app"), app{map[string]string{"P": "x: hunter2"}}, ""),
			"spec.app: Invalid value",
		},
		"Misfit": {
			"The API server quotes what does not fit the schema in the syntax of Go.",
			misfit(`.spec.replicas: expected numeric (int or float), got &value.valueUnstructured{Value:"two"}`,
				`.spec.containers[name="w"].env[name="P"].value: expected string, got &value.valueUnstructured{Value:4711}`,
				`.spec.app: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"env":"hunter2"}}`),
			`spec.replicas: expected numeric (int or float), got "two"; spec.containers[name="w"].env[name="P"].value: expected string; spec.app: expected string`,
		},
		"Duplicates": {
			"An item of a list has a key of its own.", misfit(`.spec.containers[name="w"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]`),
			`spec.containers[name="w"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]: keep one of them`,
		},
		"Unquoted": {
			"YAML reads a number where text is meant.", misfit(`.data.port: expected string, got &value.valueUnstructured{Value:8080}`),
			`data.port: expected string, got 8080: write it in quotes`,
		},
		"Several": {
			"Several fields are named one after the other.", misfit("errors:", `  .spec.a: field not declared in schema`, `  .spec.b: field not declared in schema`),
			`spec.a: field not declared in schema; spec.b: field not declared in schema`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Message(tc.err, ownership.Disclose(false, false, false)), tc.reason)
		})
	}
}

// TestReasonsWithoutValues: of an error about a sensitive object, the fields and the reasons that quote no value are shown.
func TestReasonsWithoutValues(t *testing.T) {
	failed := func(text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: text}}
	}
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Schema": {
			"The path of a field is no value, and the key of an item is.",
			failed(`failed to create typed patch object (a/b; /v1, Kind=Secret): errors:` + "\n" + `  .data.a: expected string, got &value.valueUnstructured{Value:"hunter2"}` + "\n" +
				`  .list[name="hunter2"]: field not declared in schema`),
			" for the fields [data.a, list[*]] (expected string, field not declared in schema)",
		},
		"Quoted":    {"Nor is any text that looks like a path.", failed(`failed to create typed patch object (a/b; /v1, Kind=Secret): .list[name="hunter2: x"].a: expected string`), " (expected string)"},
		"Webhook":   {"A webhook may write a value there.", failed(`admission webhook "w" denied the request: failed to create typed patch object (a): .hunter2: x`), ""},
		"Base64":    {"The position in a text is no value.", failed("failed to convert new object (a/b; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: illegal base64 data at input byte 7"), " (illegal base64 data at input byte 7)"},
		"Immutable": {"Nor is the reason.", apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "p", field.ErrorList{field.Invalid(field.NewPath("type"), "hunter2", "field is immutable")}), " for the fields [type] (field is immutable)"},
	} {
		t.Run(name, func(t *testing.T) {
			text := Message(tc.err, ownership.Disclose(true, false, false))
			require.Contains(t, text, tc.want+"; its message is withheld", tc.reason)
			require.NotContains(t, text, "hunter2")
		})
	}
}

// TestFieldWithoutValues: the values that identify items of lists are withheld with the others.
func TestFieldWithoutValues(t *testing.T) {
	tests := map[string]struct{ reason, field, want string }{
		"Field":  {"names of fields are shown", ".data.password", ".data.password"},
		"Index":  {"an index is no value", "spec.list[12].a", "spec.list[12].a"},
		"Key":    {"a key is", `.spec.list[name="hunter2",port=80].a`, ".spec.list[*].a"},
		"Quoted": {"whatever is in it", `.spec.list[name="a]hunter2\"]"].a`, ".spec.list[*].a"},
		"Set":    {"an item of a set is one", `.spec.set[="hunter2"]`, ".spec.set[*]"},
		"Number": {"also a number", ".spec.set[=5]", ".spec.set[*]"},
		"Name":   {"a name may be", "spec.list[hunter2].a", "spec.list[*].a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, FieldWithoutValues(tt.field, ownership.Disclosure{}), tt.reason)
			require.Equal(t, tt.field, FieldWithoutValues(tt.field, ownership.Disclose(false, false, false)), "of others they are shown")
		})
	}
}

// TestMessageOfAnAnswer lacks an object that the client quotes, because the API server names no kind or version in it.
func TestMessageOfAnAnswer(t *testing.T) {
	const answer = `{"data":{"password":"it's hunter2"}}`
	for _, err := range []error{runtime.NewMissingKindErr(answer), runtime.NewMissingVersionErr(answer)} {
		for _, known := range []ownership.Disclosure{ownership.Disclose(true, false, false), ownership.Disclose(false, false, false)} {
			require.Regexp(t, `^apply: Object '(Kind|apiVersion)' is missing in an answer of the API server$`, Message(fmt.Errorf("apply: %w", err), known))
		}
	}
}

// TestMessageOfAPolicy: the message of a policy is shown without environment variables, and of a sensitive object not at all. One
// that only looks like a missing right is one of a policy.
func TestMessageOfAPolicy(t *testing.T) {
	deployment := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"env": []any{map[string]any{"name": "PASSWORD", "value": "hunter2-ours"}}}}}
	policy := func(reason metav1.StatusReason, code int32, text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: text, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: text}}}}}
	}
	sensitive, known := ownership.Disclose(true, false, false), ownership.Disclose(false, false, false).With(deployment)
	const denied = `deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: `
	for name, tc := range map[string]struct {
		reason string
		err    error
		known  ownership.Disclosure
		want   string
	}{
		"Forbidden": {"Most policies and webhooks forbid.", policy(metav1.StatusReasonForbidden, 403, denied+"hunter2-ours is weak"), known, denied + "(withheld) is weak"},
		"Invalid":   {"Others call the object invalid.", policy(metav1.StatusReasonInvalid, 422, denied+"hunter2-ours is weak"), known, denied + "(withheld) is weak"},
		"Sensitive": {"Of a sensitive object nothing is shown.", policy(metav1.StatusReasonForbidden, 403, denied+"hunter2"), sensitive,
			"the API server answered Forbidden; its message is withheld because it may quote a sensitive value"},
		"LikeARight": {"A policy may write what the API server writes of rights.", policy(metav1.StatusReasonForbidden, 403, denied+`secret is forbidden: User "hunter2"`), sensitive,
			"the API server answered Forbidden; its message is withheld because it may quote a sensitive value"},
		"Right": {"A right has no value.", policy(metav1.StatusReasonForbidden, 403, `secrets "a" is forbidden: User "u" cannot get resource "secrets"`), sensitive,
			`secrets "a" is forbidden: User "u" cannot get resource "secrets"`},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "Sensitive" || name == "LikeARight" {
				tc.err.(*apierrors.StatusError).ErrStatus.Details = nil //nolint:errorlint,forcetypeassert // it was made here
			}
			require.Equal(t, tc.want, Message(tc.err, tc.known), tc.reason)
			without := WithoutValues(fmt.Errorf("add the finalizer: %w", tc.err), tc.known)
			require.NotContains(t, without.Error(), "hunter2")
			require.Equal(t, apierrors.IsForbidden(tc.err), apierrors.IsForbidden(without), "a caller can still test for its reason")
		})
	}
	require.NoError(t, WithoutValues(nil, known))
}
