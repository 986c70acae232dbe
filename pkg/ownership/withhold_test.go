package ownership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
			changes := Drift(found, restored, manager)
			require.Len(t, changes, 1, tc.reason)
			require.Equal(t, tc.path, changes[0].Path, tc.reason)
			require.Equal(t, tc.want, changes[0].Restored, tc.reason)
			require.Equal(t, tc.withheld, changes[0].Withheld, tc.reason)
			require.NotContains(t, fmt.Sprint(changes), canary, tc.reason)
		})
	}
}

// TestWithholdValues makes every object sensitive, also one that says that it is not.
func TestWithholdValues(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	object.SetAnnotations(map[string]string{SensitiveAnnotation: "false"})
	require.False(t, Sensitive(object))
	WithholdValues()
	t.Cleanup(func() { allSensitive.Store(false) })
	require.True(t, Sensitive(object))
}
