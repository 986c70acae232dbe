package cli

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestMaskedFormerValues has policies refuse changes and quote values that only the live object has: the former manifest of a VidraResource, and an
// environment variable of another client in the sentinel of a drill.
func TestMaskedFormerValues(t *testing.T) {
	t.Parallel()
	const ns = "maskedformer"
	makeNamespace(t, ns)
	const container = "spec: {containers: [{name: web, image: web}]}"
	cluster.NewVidraResource(t, ns, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: %s-former}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {%s: sentinel}}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, %s}}
`, hidden, v1alpha1.DrillAnnotation, container))
	cluster.AwaitReady(t, ns)
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	require.NoError(t, admin.Patch(t.Context(), web, client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
		"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"TOKEN","value":"%s-injected"}]}]}}}}`, hidden)), client.FieldOwner("injector")))
	const annotation = "object.metadata.annotations['" + v1alpha1.DrillAnnotation + "']"
	refuseChanges(t, ns+"-manifest", "vidraresources", "object.metadata.name != '"+ns+"' || object.spec.manifest == oldObject.spec.manifest", "'was: ' + oldObject.spec.manifest.split('password: ')[1].split('}')[0]")
	refuseChanges(t, ns+"-env", "deployments", "object.metadata.namespace != '"+ns+"' || "+annotation+" == oldO"+annotation[1:],
		"'was: ' + oldObject.spec.template.spec.containers[0].env[0].value")

	file := writeFile(t, fmt.Sprintf("apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: %[1]s}\nspec:\n  destination: {namespace: %[1]s}\n"+
		"  manifest: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: page}\n", ns))
	suite.Await(t, func(c *assert.CollectT) {
		for _, args := range [][]string{{"diff", "-f", file}, {"forecast", "-f", file}, {"create", ns, "-f", writeFile(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\n")}, {"drill", ns}} {
			a := vidra(t, args...)
			requireHidden(t, args[0], a.stdout+a.stderr)
			require.NotZero(c, a.code, args)
			require.Contains(c, a.stderr, "withheld", args)
		}
	})
}

// refuseChanges has a policy refuse updates of a resource that violate an expression, with a message.
func refuseChanges(t *testing.T, name, resource, expression, message string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: expression, MessageExpression: message}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	for _, obj := range []client.Object{policy, binding} {
		require.NoError(t, admin.Create(t.Context(), obj))
		t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), obj)) })
	}
}
