package namespaced

import (
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestRightsOfNamespaces asks for what the operator may do with config/namespaced.
func TestRightsOfNamespaces(t *testing.T) {
	own := v1alpha1.GroupVersion.Group
	const crds = "customresourcedefinitions"
	tests := map[string]struct {
		verb, group, resource, sub, namespace, name string
		want                                        bool
	}{
		"apply in a namespace":             {verb: "patch", resource: "configmaps", namespace: teamA, want: true},
		"a kind of tomorrow":               {verb: "watch", group: "example.com", resource: "things", namespace: teamB, want: true},
		"Events about objects":             {verb: "create", group: "events.k8s.io", resource: "events", namespace: teamB, want: true},
		"Events about VidraResources":      {verb: "create", group: "events.k8s.io", resource: "events", namespace: "default", want: true},
		"other objects in default":         {verb: "get", resource: "configmaps", namespace: "default"},
		"read in another namespace":        {verb: "get", resource: "configmaps", namespace: other},
		"write in another namespace":       {verb: "patch", resource: "configmaps", namespace: other},
		"watch everywhere":                 {verb: "watch", resource: "configmaps"},
		"Secrets everywhere":               {verb: "list", resource: "secrets"},
		"credentials of Infrahub":          {verb: "list", resource: "secrets", namespace: testenv.OperatorNamespace, want: true},
		"credentials elsewhere":            {verb: "list", resource: "secrets", namespace: other},
		"parts of manifests":               {verb: "patch", resource: "secrets", namespace: testenv.OperatorNamespace, want: true},
		"parts of manifests elsewhere":     {verb: "patch", resource: "secrets", namespace: other},
		"sync InfrahubSyncs":               {verb: "create", group: own, resource: "vidraresources", want: true},
		"InfrahubSyncs themselves":         {verb: "create", group: own, resource: "infrahubsyncs"},
		"nodes/proxy":                      {verb: "get", resource: "nodes", sub: "proxy"},
		"a cluster-scoped kind":            {verb: "patch", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
		"list all Namespaces":              {verb: "list", resource: "namespaces"},
		"list one of its Namespaces":       {verb: "list", resource: "namespaces", name: teamB, want: true},
		"list the Namespace of Vidra":      {verb: "list", resource: "namespaces", name: testenv.OperatorNamespace, want: true},
		"list another Namespace":           {verb: "list", resource: "namespaces", name: other},
		"delete a Namespace":               {verb: "delete", resource: "namespaces", name: teamB},
		"impersonate":                      {verb: "impersonate", resource: "serviceaccounts", namespace: teamB},
		"watch CustomResourceDefinitions":  {verb: "watch", group: "apiextensions.k8s.io", resource: crds, want: true},
		"write CustomResourceDefinitions":  {verb: "patch", group: "apiextensions.k8s.io", resource: crds},
		"Events about its Lease":           {verb: "create", resource: "events", namespace: testenv.OperatorNamespace, want: true},
		"core Events elsewhere":            {verb: "create", resource: "events", namespace: "default"},
		"replace VidraResources":           {verb: "update", group: own, resource: "vidraresources"},
		"replace statuses":                 {verb: "update", group: own, resource: "vidraresources", sub: "status"},
		"write statuses":                   {verb: "patch", group: own, resource: "vidraresources", sub: "status", want: true},
		"read kubeconfigs":                 {verb: "list", resource: "secrets", namespace: testenv.OperatorNamespace, want: true},
		"elect a leader":                   {verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: testenv.OperatorNamespace, want: true},
		"see the leaders of other ones":    {verb: "list", group: "coordination.k8s.io", resource: "leases", want: true},
		"grant what it may not do":         {verb: "escalate", group: "rbac.authorization.k8s.io", resource: "roles", namespace: teamA},
		"bind roles that it does not have": {verb: "bind", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: suite.OperatorUser,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: tt.verb, Group: tt.group, Resource: tt.resource, Subresource: tt.sub, Namespace: tt.namespace, Name: tt.name,
				},
			}}
			require.NoError(t, admin.Create(t.Context(), review))
			require.Equal(t, tt.want, review.Status.Allowed, review.Status.Reason)
		})
	}
}
