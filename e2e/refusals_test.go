package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// refusals bring a VidraResource of the name of a namespace into a state in which it stays.
var refusals = map[string]struct {
	reason string
	begin  func(t *testing.T, ns string)
}{
	"OwnershipConflict": {v1alpha1.ReasonOwnershipConflict, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "mine"), named(ns+"-first"))
		awaitReady(t, ns+"-first")
		newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("other", "hello")))
	}},
	"OwnershipConflictOfAChange": {v1alpha1.ReasonOwnershipConflict, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), named(ns+"-first"))
		awaitReady(t, ns+"-first")
		newVidraResource(t, ns, configMap("page", "hello"))
		awaitReady(t, ns)
		setManifest(t, ns, configMap("page", "mine"))
	}},
	"Crowded": {v1alpha1.ReasonOwnershipConflict, func(t *testing.T, ns string) {
		t.Helper()
		for i := range 16 {
			newVidraResource(t, ns, configMap("page", "hello"), named(fmt.Sprintf("%s-%d", ns, i)))
			awaitReady(t, fmt.Sprintf("%s-%d", ns, i))
		}
		newVidraResource(t, ns, configMap("page", "hello"))
	}},
	"AdoptionRefused": {v1alpha1.ReasonAdoptionRefused, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}, Data: map[string]string{"greeting": "mine"}}))
		newVidraResource(t, ns, configMap("page", "hello"))
	}},
	"Unreadable": {v1alpha1.ReasonManifestInvalid, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: [")
	}},
	"Invalid": {v1alpha1.ReasonManifestInvalid, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: Service\nmetadata: {name: page}\nspec: {ports: [{port: 100000}]}\n")
	}},
	"HoldsItself": {v1alpha1.ReasonManifestInvalid, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: "+ns+"}\nspec: {manifest: \"\"}\n")
	}},
	"Empty": {v1alpha1.ReasonManifestEmpty, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "# nothing\n")
	}},
	"Forbidden": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "powerless"}}))
		newVidraResource(t, ns, configMap("page", "hello"), as("powerless"))
	}},
	"Immutable": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\nimmutable: true\ndata: {a: b}\n")
		awaitReady(t, ns)
		setManifest(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\nimmutable: true\ndata: {a: c}\n")
	}},
	"Denied": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		meta := metav1.ObjectMeta{Name: ns}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false"}},
		}}
		require.NoError(t, admin.Create(t.Context(), policy))
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}
		require.NoError(t, admin.Create(t.Context(), binding))
		t.Cleanup(func() { _ = admin.Delete(t.Context(), binding); _ = admin.Delete(t.Context(), policy) })
		await(t, func(c *assert.CollectT) { // the API server takes a moment
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
			require.ErrorContains(c, admin.Create(t.Context(), probe, client.DryRunAll), "denied request")
		})
		newVidraResource(t, ns, configMap("page", "hello"))
	}},
	"Quota": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		require.NoError(t, admin.Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}},
		}))
		newVidraResource(t, ns, "apiVersion: v1\nkind: Secret\nmetadata: {name: page}\n")
	}},
	"KindMissing": {v1alpha1.ReasonKindUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: example.com/v1\nkind: Missing\nmetadata: {name: page}\n")
	}},
	"NamespaceMissing": {v1alpha1.ReasonApplyFailed, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: "+ns+"-missing}\n")
	}},
	"SourceMissing": {v1alpha1.ReasonSourceUnavailable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "missing", "app.yaml")))
	}},
	"DestinationUnreachable": {v1alpha1.ReasonDestinationUnreachable, func(t *testing.T, ns string) {
		t.Helper()
		newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Destination.Server = "https://" + ns + ".example.com" })
	}},
}

// silent are the refusals that are not retried while nothing changes.
var silent = []string{"OwnershipConflict", "OwnershipConflictOfAChange", "Crowded", "Unreadable", "HoldsItself", "Empty", "DestinationUnreachable"}

// TestRefusalsAtRest brings VidraResources into the states in which an object or its manifest is refused. Some of them cost
// no request, the others those of a backoff.
//
// It is not parallel: it counts every request of the operator.
func TestRefusalsAtRest(t *testing.T) {
	const (
		rest = 20 * time.Second
		most = 8 // two attempts of a backoff, with two requests for each of two objects
	)
	states := map[string]string{}
	for name, state := range refusals {
		ns := newNamespace(t)
		state.begin(t, ns)
		awaitNotReady(t, ns, state.reason)
		states[ns] = name
	}
	last := time.Now()
	await(t, func(c *assert.CollectT) { require.Greater(c, time.Since(last), 10*time.Second) }, "the backoff has grown")
	mark := auditMark(t)
	require.Never(t, func() bool {
		return len(operatorSince(t, mark).Only(func(r request) bool { return slices.Contains(silent, states[r.Namespace]) })) > 0
	}, rest, time.Second, "requests while nothing changes")
	counts := map[string]int{}
	for _, r := range operatorSince(t, mark) {
		if r.Resource != "selfsubjectaccessreviews" {
			counts[states[strings.TrimSuffix(r.Namespace, "-missing")]]++
		}
	}
	t.Logf("requests in %s: %v", rest, counts)
	for name, n := range counts {
		require.LessOrEqual(t, n, most, name)
	}
}
