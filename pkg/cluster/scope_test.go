package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScope(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, value  string
		absent         bool
		name           string
		allowed        bool
		clusterWideToo bool
	}{
		"no annotation": {reason: "nothing is limited", absent: true, name: "shop", allowed: true, clusterWideToo: true},
		"empty":         {reason: "an empty list allows nothing", value: " , ", name: "shop"},
		"name":          {reason: "it is in the list", value: "web, shop", name: "shop", allowed: true},
		"other name":    {reason: "it is not in the list", value: "web,shop", name: "shop2"},
		"pattern":       {reason: "it begins so", value: "team-a-*", name: "team-a-shop", allowed: true},
		"other pattern": {reason: "a pattern is for the whole name", value: "team-a-*", name: "x-team-a-shop"},
		"star":          {reason: "every name matches", value: "*", name: "shop", allowed: true},
		"no pattern":    {reason: "what cannot be read allows nothing", value: "[", name: "shop"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{AllowedVidraResources: tt.value, AllowedNamespaces: tt.value}
			if tt.absent {
				annotations = nil
			}
			scope := scopeOf("vidra-system/there", annotations)
			for annotation, err := range map[string]error{
				AllowedVidraResources: scope.VidraResource(tt.name), AllowedNamespaces: scope.Namespace(tt.name),
			} {
				if tt.allowed {
					require.NoError(t, err, tt.reason)
					continue
				}
				require.ErrorContains(t, err, annotation, tt.reason)
				require.ErrorContains(t, err, "Secret vidra-system/there")
			}
			require.Equal(t, !tt.absent, scope.LimitsNamespaces())
			require.Equal(t, !tt.absent && !strings.ContainsAny(tt.value, "*["), scope.NamesNamespaces(), "patterns have no end")
			require.Equal(t, tt.clusterWideToo, scope.Namespace("") == nil, "objects without a namespace")
			require.True(t, scope.Same(scopeOf("", annotations)))
			require.Equal(t, tt.absent, scope.Same(Scope{}))
		})
	}
}

func TestLocalScope(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, namespace string
		names             []string
		want              string
	}{
		"no flag":      {"Nothing is limited.", "shop", nil, ""},
		"clusterwide":  {"Nor are objects without a namespace.", "", nil, ""},
		"listed":       {"It is one of them.", "shop", []string{"web", " shop"}, ""},
		"not listed":   {"The message names the flag and what to do.", "shop2", []string{"web", "shop", "web"}, "does nothing in the namespace shop2, because it runs with --namespaces=web,shop: use one of these namespaces, or add shop2 to the flag"},
		"no namespace": {"They are everywhere.", "", []string{"shop"}, "manages no objects without a namespace, because it runs with --namespaces=shop: remove the object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scope, err := LocalScope(tt.names...)
			require.NoError(t, err)
			require.Equal(t, len(tt.names) > 0, scope.LimitsNamespaces())
			require.Equal(t, len(tt.names) > 0, scope.NamesNamespaces())
			require.Equal(t, len(tt.names) > 0, scope.IsLocal())
			require.NoError(t, scope.VidraResource("any"))
			if err := scope.Namespace(tt.namespace); tt.want == "" {
				require.NoError(t, err, tt.reason)
			} else {
				require.ErrorContains(t, err, tt.want, tt.reason)
			}
		})
	}
	for _, wrong := range []string{"", "*", "team-*", "Shop", "a/b"} {
		_, err := LocalScope("shop", wrong)
		require.ErrorContains(t, err, "is not the name of a namespace", "%q", wrong)
	}
	require.False(t, scopeOf("vidra-system/there", map[string]string{AllowedNamespaces: ""}).IsLocal())
}
