package ownership

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnvironmentIsWithheld: the value of an environment variable is shown of no object,
// wherever a kind has it.
func TestEnvironmentIsWithheld(t *testing.T) {
	const canary = "hunter2"
	cases := map[string]struct {
		reason          string
		content, fields string
		found           string
		path            string
		want            string
		withheld        bool
	}{
		"Value": {
			reason:  "The value of a variable is withheld, its name is not.",
			content: `"a":{"env":[{"name":"PASSWORD","value":"?"}]}`, found: `"a":{"env":[{"name":"PASSWORD","value":"?!"}]}`,
			fields: `{"f:a":{"f:env":{"k:{\"name\":\"PASSWORD\"}":{"f:value":{}}}}}`,
			path:   `a.env[name="PASSWORD"].value`, withheld: true,
		},
		"ValueRemoved": {
			reason:  "So is a value that was removed.",
			content: `"a":{"env":[{"name":"PASSWORD","value":"?"}]}`, found: `"a":{"env":[{"name":"PASSWORD"}]}`,
			fields: `{"f:a":{"f:env":{"k:{\"name\":\"PASSWORD\"}":{"f:value":{}}}}}`,
			path:   `a.env[name="PASSWORD"].value`, withheld: true,
		},
		"VariableRemoved": {
			reason:  "Of a variable that was removed the name is shown.",
			content: `"a":{"env":[{"name":"PASSWORD","value":"?"}]}`, found: `"a":{"env":[]}`,
			fields: `{"f:a":{"f:env":{"k:{\"name\":\"PASSWORD\"}":{}}}}`,
			path:   `a.env[name="PASSWORD"]`, want: `{"name":"PASSWORD","value":"(withheld)"}`,
		},
		"Reference": {
			reason:  "Where a variable takes its value from is shown.",
			content: `"a":{"env":[{"name":"PASSWORD","valueFrom":{"key":"x"}}]}`, found: `"a":{"env":[{"name":"PASSWORD","valueFrom":{"key":"y"}}]}`,
			fields: `{"f:a":{"f:env":{"k:{\"name\":\"PASSWORD\"}":{"f:valueFrom":{"f:key":{}}}}}}`,
			path:   `a.env[name="PASSWORD"].valueFrom.key`, want: `"x"`,
		},
		"ContainerRemoved": {
			reason:  "A variable may be inside of what was removed.",
			content: `"a":[{"name":"web","env":[{"name":"P","value":"?"}]}]`, found: `"a":[]`,
			fields: `{"f:a":{"k:{\"name\":\"web\"}":{}}}`,
			path:   `a[name="web"]`, want: `{"env":[{"name":"P","value":"(withheld)"}],"name":"web"}`,
		},
		"AtomicList": {
			reason:  "A list of a custom resource may be one value.",
			content: `"a":{"extraEnv":[{"name":"P","value":"?"}]}`, found: `"a":{"extraEnv":[{"name":"P","value":"?!"}]}`,
			fields: `{"f:a":{"f:extraEnv":{}}}`,
			path:   `a.extraEnv`, want: `[{"name":"P","value":"(withheld)"}]`,
		},
		"Map": {
			reason:  "Or a map of names and values.",
			content: `"a":{"environment":{"PASSWORD":"?"}}`, found: `"a":{"environment":{"PASSWORD":"?!"}}`,
			fields: `{"f:a":{"f:environment":{"f:PASSWORD":{}}}}`,
			path:   `a.environment.PASSWORD`, withheld: true,
		},
		"Set": {
			reason:  "Or a set of NAME=value, in which the items are the path.",
			content: `"a":{"env":["?"]}`, found: `"a":{"env":[]}`,
			fields: `{"f:a":{"f:env":{"v:\"?\"":{}}}}`,
			path:   `a.env[*]`, withheld: true,
		},
		"KeyIsValue": {
			reason:  "Or a list whose items are told apart by their values.",
			content: `"a":{"env":[{"name":"P","value":"?"}]}`, found: `"a":{"env":[]}`,
			fields: `{"f:a":{"f:env":{"k:{\"name\":\"P\",\"value\":\"?\"}":{}}}}`,
			path:   `a.env[*]`, want: `{"name":"P","value":"(withheld)"}`,
		},
		"LastApplied": {
			reason:  "kubectl keeps the whole object in an annotation.",
			content: `"a":{"kubectl.kubernetes.io/last-applied-configuration":"?"}`, found: `"a":{"kubectl.kubernetes.io/last-applied-configuration":"?!"}`,
			fields: `{"f:a":{"f:kubectl.kubernetes.io/last-applied-configuration":{}}}`,
			path:   `a["kubectl.kubernetes.io/last-applied-configuration"]`, withheld: true,
		},
		"OtherName": {
			reason:  "Custom resources call their variables by other names.",
			content: `"a":{"pod_environment-Variables":{"PASSWORD":"?"}}`, found: `"a":{"pod_environment-Variables":{"PASSWORD":"?!"}}`,
			fields: `{"f:a":{"f:pod_environment-Variables":{"f:PASSWORD":{}}}}`,
			path:   `a.pod_environment-Variables.PASSWORD`, withheld: true,
		},
		"Original": {
			reason:  "So do other clients than kubectl.",
			content: `"a":{"kapp.k14s.io/original":"?"}`, found: `"a":{"kapp.k14s.io/original":"?!"}`,
			fields: `{"f:a":{"f:kapp.k14s.io/original":{}}}`,
			path:   `a["kapp.k14s.io/original"]`, withheld: true,
		},
		"LastAppliedState": {
			reason:  "Libraries have annotations of their own for it.",
			content: `"a":{"example.com/last-applied-state":"?"}`, found: `"a":{"example.com/last-applied-state":"?!"}`,
			fields: `{"f:a":{"f:example.com/last-applied-state":{}}}`,
			path:   `a["example.com/last-applied-state"]`, withheld: true,
		},
		"LastHandled": {
			reason:  "So has a framework for operators.",
			content: `"a":{"kopf.zalando.org/last-handled-configuration":"?"}`, found: `"a":{"kopf.zalando.org/last-handled-configuration":"?!"}`,
			fields: `{"f:a":{"f:kopf.zalando.org/last-handled-configuration":{}}}`,
			path:   `a["kopf.zalando.org/last-handled-configuration"]`, withheld: true,
		},
		"AppliedBy": {
			reason:  "An annotation that only has the word is shown.",
			content: `"a":{"example.com/applied-by":"mary"}`, found: `"a":{"example.com/applied-by":"john"}`,
			fields: `{"f:a":{"f:example.com/applied-by":{}}}`,
			path:   `a["example.com/applied-by"]`, want: `"mary"`,
		},
		"PlainField": {
			reason:  "A field that only has the name of an environment is shown.",
			content: `"a":{"environment":"prod"}`, found: `"a":{"environment":"test"}`,
			fields: `{"f:a":{"f:environment":{}}}`,
			path:   `a.environment`, want: `"prod"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			filled := strings.NewReplacer("?", canary)
			restored := widget(t, filled.Replace(tc.content), ours(filled.Replace(tc.fields)))
			found := widget(t, filled.Replace(tc.found), ours(filled.Replace(tc.fields)))
			changes := Drift(found, restored, manager, shown)
			require.Len(t, changes, 1, tc.reason)
			require.Equal(t, tc.path, changes[0].Path, tc.reason)
			require.Equal(t, tc.want, changes[0].Restored, tc.reason)
			require.Equal(t, tc.withheld, changes[0].Withheld, tc.reason)
			require.NotContains(t, fmt.Sprint(changes), canary, tc.reason)
		})
	}
}

// shown is the decision about an object of which nothing sensitive is known.
var shown = Disclose(false, false, false)

// TestDisclose has all combinations of the three states of an object that count.
func TestDisclose(t *testing.T) {
	for _, before := range []Sensitivity{false, true} {
		for _, after := range []Sensitivity{false, true} {
			for _, manifest := range []Sensitivity{false, true} {
				require.Equal(t, bool(before || after || manifest), Disclose(before, after, manifest).Withholds(),
					"before %t, after %t, manifest %t: one of them is enough", before, after, manifest)
			}
		}
	}
	require.True(t, Disclosure{}.Withholds(), "a decision that was not made shows nothing")
}

// TestSensitivityOf: each version counts, and none hides another.
func TestSensitivityOf(t *testing.T) {
	annotated := func(value any) string {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"infrahub.operators.com/sensitive":` + string(text) + `}}}`
	}
	vidraResource := func(manifest string) string {
		return fmt.Sprintf(`{"apiVersion":"infrahub.operators.com/v1alpha1","kind":"VidraResource","spec":{"manifest":%q}}`, manifest)
	}
	inText := func(text string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":%q}}`, text)
	}
	cases := map[string]struct {
		reason string
		object string
		want   Sensitivity
	}{
		"Secret":       {"Secrets of the core group are sensitive.", `{"apiVersion":"v1","kind":"Secret"}`, true},
		"OtherSecret":  {"A kind of another group only has the name.", `{"apiVersion":"example.com/v1","kind":"Secret"}`, false},
		"True":         {"The annotation says so.", annotated("true"), true},
		"Empty":        {"It is there, whatever its value is.", annotated(""), true},
		"Typo":         {"What was meant is not known, so values are withheld.", annotated("flase"), true},
		"False":        {"Its author says that the object is not sensitive.", annotated("false"), false},
		"Embedded":     {"A kind that distributes objects has a Secret in a field.", `{"apiVersion":"example.com/v1","kind":"Work","spec":{"objects":[{"apiVersion":"v1","kind":"Secret","stringData":{"a":"b"}}]}}`, true},
		"Reference":    {"A reference to a Secret has no value.", `{"apiVersion":"example.com/v1","kind":"Work","spec":{"ref":{"apiVersion":"v1","kind":"Secret","name":"a"}}}`, false},
		"InText":       {"A ConfigMap has manifests for another controller.", inText("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  a: b\n"), true},
		"InFlow":       {"So does one in the flow style.", inText(`{apiVersion: v1, kind: Secret, data: {a: Yg==}}`), true},
		"InJSON":       {"So does one in JSON.", inText(`[{"kind":"Secret","data":{"a":"Yg=="}}]`), true},
		"InJSONText":   {"So does JSON in JSON.", inText(`{"manifest":"{\"kind\":\"Secret\",\"data\":{}}"}`), true},
		"InDeepText":   {"So does JSON in JSON in JSON, as in an annotation of a client.", inText(`{"manifest":"{\"manifest\":\"{\\\"kind\\\":\\\"Secret\\\",\\\"data\\\":{}}\"}"}`), true},
		"ListInText":   {"So does a list of Secrets, whose items lack a kind.", inText("apiVersion: v1\nkind: SecretList\nitems:\n- metadata: {name: a}\n  data: {a: Yg==}\n"), true},
		"ListEmbedded": {"So does a field.", `{"apiVersion":"example.com/v1","kind":"Work","spec":{"objects":[{"apiVersion":"v1","kind":"SecretList","items":[{"data":{"a":"Yg=="}}]}]}}`, true},
		"InList":       {"So does a text in a list.", `{"apiVersion":"example.com/v1","kind":"Chart","spec":{"files":["kind: 'Secret'\ndata: {a: Yg==}"]}}`, true},
		"RefInText":    {"A reference to a Secret has no value.", inText("valuesFrom:\n- kind: Secret\n  name: a\n"), false},
		"LikeInText":   {"A kind that begins like one.", inText("kind: SecretStore\ndata: {}\n"), false},
		"Nested":       {"A VidraResource may hold a Secret.", vidraResource("kind: Secret"), true},
		"NestedMark":   {"Or an annotated object.", vidraResource("metadata: {annotations: {infrahub.operators.com/sensitive: yes}}"), true},
		"EmbeddedData": {"Its data may be encoded.", `{"apiVersion":"example.com/v1","kind":"Work","spec":{"objects":[{"apiVersion":"v1","kind":"Secret","data":{"a":"Yg=="}}]}}`, true},
		"NestedEnv":    {"Or an environment variable.", vidraResource("spec: {containers: [{env: []}]}"), true},
		"OtherVidra":   {"A kind of another group only has the name.", `{"apiVersion":"example.com/v1","kind":"VidraResource","spec":{"manifest":"env"}}`, false},
		"OtherKind":    {"Another kind of Vidra has no manifest.", `{"apiVersion":"infrahub.operators.com/v1alpha1","kind":"InfrahubSync","spec":{"manifest":"env"}}`, false},
		"NestedPlain":  {"Or nothing that is withheld.", vidraResource("kind: ConfigMap"), false},
		"None":         {"Nothing says so.", `{"apiVersion":"v1","kind":"ConfigMap"}`, false},
	}
	plain := object(t, `{"apiVersion":"v1","kind":"ConfigMap"}`)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, SensitivityOf(object(t, tc.object)), tc.reason)
			require.Equal(t, tc.want, SensitivityOf(plain, object(t, tc.object), nil), tc.reason)
			require.Equal(t, bool(tc.want), shown.With(plain, object(t, tc.object)).Withholds(), tc.reason)
		})
	}
}

// TestKnownSensitive: no function shows a value of versions of an object that are not sensitive, if another one is.
func TestKnownSensitive(t *testing.T) {
	known := Disclose(true, false, false)
	restored := widget(t, `"spec":{"color":"red","list":[{"name":"hunter2"}]}`, ours(`{"f:spec":{"f:color":{},"f:list":{"k:{\"name\":\"hunter2\"}":{}}}}`))
	found := widget(t, `"spec":{"color":"hunter2","list":[]}`, ours(`{"f:spec":{"f:color":{},"f:list":{"k:{\"name\":\"hunter2\"}":{}}}}`))
	changes := Drift(found, restored, manager, known)
	require.NotEmpty(t, changes)
	undo := undoOf(t, `"spec":{"color":"red"}`)
	undo.Known = known
	added := undo.Added(found, found)
	leaves, above := FieldsOf(restored, manager, nil, known)
	masked := Mask(restored, known, func([]string, any) any { return "***" })
	require.NotContains(t, fmt.Sprint(changes, added.Changes, added.Lost, leaves, above), "hunter2")
	require.NotContains(t, fmt.Sprint(masked.Object["spec"]), "hunter2")
	require.Contains(t, fmt.Sprint(Drift(found, restored, manager, shown)), "hunter2", "the values are those that would be shown")
}

// TestWithholdValues makes every object sensitive, also one whose annotation says that it is not.
func TestWithholdValues(t *testing.T) {
	require.False(t, Disclose(false, false, false).Withholds())
	WithholdValues()
	t.Cleanup(func() { allSensitive.Store(false) })
	require.True(t, Disclose(false, false, false).Withholds())
}

// TestInEnvironment finds the environment of a container in a path.
func TestInEnvironment(t *testing.T) {
	tests := map[string]struct {
		reason string
		path   []string
		want   bool
	}{
		"Value":    {"The value of a variable.", []string{"spec", "containers", "[0]", "env", "[0]", "value"}, true},
		"Variable": {"A variable.", []string{"spec", "containers", "[name=a]", "env", "[name=b]"}, true},
		"List":     {"All variables.", []string{"spec", "containers", "[0]", "env"}, true},
		"Image":    {"Another field of the container.", []string{"spec", "containers", "[0]", "image"}, false},
		"Object":   {"The object itself.", nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, InEnvironment(tt.path...), tt.reason)
		})
	}
}
