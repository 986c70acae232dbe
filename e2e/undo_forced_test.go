package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// forcedKinds are custom resources of which the API server gives a member of a union its defaults, and refuses it with another type.
const forcedKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gates.<group>}
spec:
  group: <group>
  scope: Namespaced
  names: {plural: gates, singular: gate, kind: Gate, listKind: GateList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              limit: {type: integer, default: 3}
              lock: &lock
                type: object
                x-kubernetes-validations:
                - {rule: "(self.type == 'Timed') == has(self.timed)", message: "timed is for the type Timed"}
                required: [type]
                properties:
                  name: {type: string, maxLength: 10}
                  type: {type: string, maxLength: 10}
                  timed: {type: object, properties: {seconds: {type: integer}, grace: {type: array, default: [3], items: {type: integer}}}}
              doors:
                type: array
                maxItems: 10
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  <<: *lock
                  required: [name, type]
`

// TestEditByForcedApply: an edit by a forced server-side apply removes nothing of what is applied. With a value that it changes,
// the API server adds defaults, which no manager owns. They are removed where they are in the way.
func TestEditByForcedApply(t *testing.T) {
	t.Parallel()
	group := unique(t) + ".example.com"
	definitions := declared(t, "", strings.ReplaceAll(forcedKinds, "<group>", group))
	require.NoError(t, testenv.Apply(t.Context(), env.Config, definitions))
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), definitions[0]))) })
	const workload = `
  selector: {matchLabels: {app: forced}}
  template:
    metadata: {labels: {app: forced}}
    spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`
	for name, tc := range map[string]struct {
		reason, manifest, edit string
	}{
		"Strategy": {
			reason:   "the strategy has defaults, which exclude the type of the manifest",
			manifest: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: forced}\nspec:\n  strategy: {type: Recreate}" + workload,
			edit:     `{"spec":{"strategy":{"type":"RollingUpdate"}}}`,
		},
		"Part of a strategy": {
			reason:   "the other client owns a part of what is in the way",
			manifest: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: forced}\nspec:\n  strategy: {type: Recreate}" + workload,
			edit:     `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}}`,
		},
		"Update strategy": {
			reason:   "of a StatefulSet",
			manifest: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: forced}\nspec:\n  serviceName: forced\n  updateStrategy: {type: OnDelete}" + workload,
			edit:     `{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`,
		},
		"Type of a Service": {
			reason:   "ports of nodes",
			manifest: "apiVersion: v1\nkind: Service\nmetadata: {name: forced}\nspec:\n  type: ClusterIP\n  ports: [{name: http, port: 80}]\n",
			edit:     `{"spec":{"type":"LoadBalancer"}}`,
		},
		"Affinity": {
			reason:   "the default time",
			manifest: "apiVersion: v1\nkind: Service\nmetadata: {name: forced}\nspec:\n  sessionAffinity: None\n  ports: [{name: http, port: 80}]\n",
			edit:     `{"spec":{"sessionAffinity":"ClientIP"}}`,
		},
		"Custom resource": {
			reason:   "the other client owns a part of what is in the way",
			manifest: "apiVersion: <group>/v1\nkind: Gate\nmetadata: {name: forced}\nspec: {lock: {type: Plain}}\n",
			edit:     `{"spec":{"lock":{"type":"Timed","timed":{"seconds":3}}}}`,
		},
		"Item": {
			reason:   "in an item of a list",
			manifest: "apiVersion: <group>/v1\nkind: Gate\nmetadata: {name: forced}\nspec: {doors: [{name: a, type: Plain}, {name: b, type: Plain}]}\n",
			edit:     `{"spec":{"doors":[{"name":"b","type":"Timed","timed":{}}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := strings.ReplaceAll(tc.manifest, "<group>", group)
			obj := declared(t, ns, manifest)[0]
			newVidraResource(t, ns, manifest)
			awaitReady(t, ns)
			before := get(t, obj)
			require.NoError(t, edit(obj, types.ApplyPatchType,
				`{"apiVersion":"`+obj.GetAPIVersion()+`","kind":"`+obj.GetKind()+`",`+tc.edit[1:], client.FieldOwner("person"), client.ForceOwnership), tc.reason)
			undone(t, before)
			awaitReady(t, ns)
		})
	}
}
