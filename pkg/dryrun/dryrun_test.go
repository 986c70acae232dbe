package dryrun

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestWithIgnored(t *testing.T) {
	tests := map[string]struct{ applied, whole, live, want string }{
		"no rule excludes anything":           {"{a: 1}", "{a: 1}", "{a: 2}", "{a: 1}"},
		"the default of a released field":     {"{replicas: 1, image: new}", "{replicas: 2, image: new}", "{replicas: 7, image: old}", "{replicas: 7, image: new}"},
		"a released field would be removed":   {"{labels: {}}", "{labels: {app: web}}", "{labels: {app: shop}}", "{labels: {app: shop}}"},
		"a field that others removed":         {"{}", "{labels: {app: web}}", "{}", "{}"},
		"a field of others":                   {"{replicas: 7}", "{replicas: 2}", "{replicas: 7}", "{replicas: 7}"},
		"in an item of a list":                {"{c: [{n: a, i: 2}]}", "{c: [{n: a, e: 1, i: 2}]}", "{c: [{n: a, e: 3, i: 1}]}", "{c: [{n: a, e: 3, i: 2}]}"},
		"an item that the apply would remove": {"{c: [{n: a}]}", "{c: [{n: a}, {n: b}]}", "{c: [{n: a}, {n: b, i: 1}]}", "{c: [{n: a}, {n: b, i: 1}]}"},
	}
	parse := func(text string) (value any) {
		require.NoError(t, yaml.Unmarshal([]byte(text), &value))
		return value
	}
	for name, tt := range tests {
		require.Equal(t, parse(tt.want), withIgnored(parse(tt.applied), parse(tt.whole), parse(tt.live)), name)
	}
}
