package cluster

import (
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
			require.Equal(t, tt.clusterWideToo, scope.Namespace("") == nil, "objects without a namespace")
			require.True(t, scope.same(scopeOf("", annotations)))
			require.Equal(t, tt.absent, scope.same(Scope{}))
		})
	}
}
