package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	const text = `# a comment
apiVersion: v1
kind: ConfigMap
metadata:
  name: first
  labels: &labels
    tier: front
data:
  greeting: hello
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: second
    labels: {}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    template:
      spec:
        containers:
        - name: sidecar
        - name: web
          image: web:1
---
{"apiVersion": "v1", "kind": "ConfigMap",
 "metadata": {"name": "third"},
 "data": {"greeting":
   "hello"}}
`
	objects, err := Parse(text, Options{})
	require.NoError(t, err)
	tests := map[string]struct {
		reason string
		object string
		path   []string
		want   int
	}{
		"object":  {reason: "where it begins", object: "first", want: 2},
		"field":   {reason: "the line of its key", object: "first", path: []string{"data", "greeting"}, want: 9},
		"anchor":  {reason: "below a value with an anchor", object: "first", path: []string{"metadata", "labels", "tier"}, want: 7},
		"missing": {reason: "the next field above it that there is", object: "first", path: []string{"data", "farewell"}, want: 8},
		"in list": {reason: "an item of a list of objects", object: "second", path: []string{"metadata", "name"}, want: 17},
		"index":   {reason: "an item of a list", object: "web", path: []string{"spec", "template", "spec", "containers", "1", "image"}, want: 28},
		"flow":    {reason: "several fields on a line", object: "web", path: []string{"metadata", "name"}, want: 21},
		"JSON":    {reason: "lines count in JSON, too", object: "third", path: []string{"metadata", "name"}, want: 31},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, obj := range objects {
				if obj.GetName() == tt.object {
					require.Equal(t, tt.want, Line(text, obj.Position, tt.path), tt.reason)
				}
			}
		})
	}
	require.Equal(t, 7, Line("a: [", Position{Document: 1, Line: 7}, nil), "what cannot be read has no lines")
}
