package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// webhookProbe is the name of a ConfigMap that every webhook of the tests
// refuses, so that a test can see whether a webhook is in force.
const webhookProbe = "webhook-probe"

// review decides on a request to the API server: nil allows it as it is. It runs
// on the goroutines of a server; ctx ends when the API server waits no longer.
type review func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// webhook is an admission webhook for what happens to the ConfigMaps of one namespace,
// which this process answers.
type webhook struct {
	// name of the webhook, which the API server quotes.
	name          string
	namespace     string
	configuration client.Object
}

// startWebhook has a webhook decide, and returns when the API server asks it. It is
// removed when the test ends, if not before. Of a webhook that hangs, hanging are the
// objects that it is asked about alone: for its answer the API server waits a second, and
// for that of others so long that a busy machine is no reason to refuse anything.
func startWebhook(t *testing.T, namespace string, mutates bool, decide review, hanging ...string) *webhook {
	t.Helper()
	return startWebhookOn(t, []string{"configmaps"}, namespace, mutates, decide, hanging...)
}

// startWebhookOn is startWebhook for several resources, of which ConfigMaps must be one.
func startWebhookOn(t *testing.T, resources []string, namespace string, mutates bool, decide review, hanging ...string) *webhook {
	t.Helper()
	server, authority := suite.ServeTLS(t, reviewer(t, decide))
	w := &webhook{name: "page." + unique(t) + ".example.com", namespace: namespace}
	meta := metav1.ObjectMeta{Name: w.name}
	to := admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: authority}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"", "apps", v1alpha1.GroupVersion.Group}, APIVersions: []string{"v1", v1alpha1.GroupVersion.Version}, Resources: resources},
	}}
	fail, none, timeout := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(20)
	var conditions []admissionregistrationv1.MatchCondition
	if len(hanging) > 0 {
		timeout = 1
		expression := fmt.Sprintf("request.name in ['%s']", strings.Join(append(hanging, webhookProbe), "', '"))
		conditions = []admissionregistrationv1.MatchCondition{{Name: "hanging", Expression: expression}}
	}
	if mutates {
		w.configuration = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: w.name, ClientConfig: to, Rules: rules, NamespaceSelector: only, FailurePolicy: &fail, SideEffects: &none,
			TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"}, MatchConditions: conditions,
		}}}
	} else {
		w.configuration = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: w.name, ClientConfig: to, Rules: rules, NamespaceSelector: only, FailurePolicy: &fail, SideEffects: &none,
			TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"}, MatchConditions: conditions,
		}}}
	}
	require.NoError(t, admin.Create(t.Context(), w.configuration))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), w.configuration) }) // the test may have
	await(t, func(c *assert.CollectT) { require.ErrorContains(c, w.probe(), w.name) }, "the webhook is in force")
	return w
}

// probe asks the API server, in vain, to create what every webhook refuses.
func (w *webhook) probe() error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: webhookProbe, Namespace: w.namespace}}
	return admin.Create(context.Background(), cm, client.DryRunAll)
}

// remove takes the webhook away, and returns when the API server does not ask it any more.
func (w *webhook) remove(t *testing.T) {
	t.Helper()
	require.NoError(t, admin.Delete(t.Context(), w.configuration))
	await(t, func(c *assert.CollectT) { require.NoError(c, w.probe()) }, "the webhook is gone")
}

// reviewer answers as a webhook does. It must not fail the test: it is not the
// goroutine of the test.
func reviewer(t *testing.T, decide review) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		var answer *admissionv1.AdmissionResponse
		if body.Request.Name == webhookProbe {
			answer = refused("it is the probe")
		} else {
			answer = decide(r.Context(), body.Request)
		}
		if answer == nil {
			answer = &admissionv1.AdmissionResponse{Allowed: true}
		}
		answer.UID = body.Request.UID
		body.Request, body.Response = nil, answer
		_ = json.NewEncoder(w).Encode(body) // the API server may be gone
	})
}

// refused is the answer that refuses a request.
func refused(why string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: why}}
}

// patched is the answer that allows a request and changes the object.
func patched(jsonPatch string) *admissionv1.AdmissionResponse {
	how := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(jsonPatch), PatchType: &how}
}

// writesTo says whether a request writes an object of a name, rather than delete it.
func writesTo(r *admissionv1.AdmissionRequest, name string) bool {
	return r.Name == name && r.Operation != admissionv1.Delete
}

// TestF28WebhookThatRefuses has webhooks that refuse an object, or do not answer: the
// condition and the Event name the webhook, the other objects are applied, the retries
// get fewer, and all is well as soon as the webhook is gone.
func TestF28WebhookThatRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		mutates bool
		answer  func(ctx context.Context) *admissionv1.AdmissionResponse
		hanging []string
		part    string
	}{
		"refuses": {
			reason: "what the webhook says is what a person needs",
			answer: func(context.Context) *admissionv1.AdmissionResponse { return refused("pages need a title") },
			part:   "pages need a title",
		},
		"mutating webhook that refuses": {
			reason:  "a mutating webhook may refuse, too",
			mutates: true,
			answer:  func(context.Context) *admissionv1.AdmissionResponse { return refused("pages need a title") },
			part:    "pages need a title",
		},
		"does not answer": {
			reason: "a webhook that hangs is a cause that lasts",
			answer: func(ctx context.Context) *admissionv1.AdmissionResponse { <-ctx.Done(); return nil }, hanging: []string{"page"},
			part: "failed calling webhook",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			w := startWebhook(t, ns, tt.mutates, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				if !writesTo(r, "page") {
					return nil
				}
				return tt.answer(ctx)
			}, tt.hanging...)
			manifest := manifests(configMap("first", "hello"), configMap("page", "hello"), configMap("last", "hello"))
			mark := auditMark(t)
			newVidraResource(t, ns, manifest)
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/page", w.name, tt.part)
			require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState, tt.reason)
			require.Equal(t, v1alpha1.ObjectFailed, entry(t, v, "ConfigMap", "page").State)
			awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", "ConfigMap "+ns+"/page", w.name)
			for _, other := range []string{"first", "last"} {
				requireInOrder(t, ns, declaredObject(t, ns, manifest, "ConfigMap", other))
				require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, "ConfigMap", other).State)
			}
			requireRetriesGetFewer(t, func() requests { return operatorSince(t, mark).On("configmaps", ns, "page").Writes() })

			w.remove(t)
			awaitReady(t, ns)
			requireInOrder(t, ns, declaredObject(t, ns, manifest, "ConfigMap", "page"))
			awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", w.name)
			writes := operatorSince(t, mark).ObjectsIn(ns).Writes()
			for _, other := range []string{"first", "last"} {
				require.Len(t, writes.On("configmaps", ns, other), 1, "%s", writes)
			}
		})
	}
}

// requireRetriesGetFewer waits until what fails was tried some times, and requires
// that more and more time passes between the attempts: half a second, one, two and four.
// Two may come early: the object that a refused creation has left is applied at once, and
// what else begins, such as a watch, is a reason to try again. The
// time between two is not looked at: how long an attempt takes is up to the machine,
// which cannot make all of them shorter.
func requireRetriesGetFewer(t *testing.T, attempts func() requests) {
	t.Helper()
	const tries, least = 6, 3 * time.Second
	var sent requests
	await(t, func(c *assert.CollectT) {
		sent = attempts()
		require.GreaterOrEqual(c, len(sent), tries)
	})
	require.Greater(t, sent[tries-1].Time.Sub(sent[0].Time), least, "%s", sent)
}

// TestF28WebhookDuringHealing has a webhook that comes between an edit and its
// correction.
func TestF28WebhookDuringHealing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	w := startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.UserInfo.Username != operatorUser {
			return nil
		}
		return refused("not you")
	})
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/page", w.name, "not you")
	require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionDrifted).Status, "it is known to have been changed")
	w.remove(t)
	awaitInOrder(t, ns, page)
	v = awaitReady(t, ns)
	require.Equal(t, metav1.ConditionFalse, condition(t, v, v1alpha1.ConditionDrifted).Status)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `data.greeting to "hello"; "person" had set it to "mine"`)
}

// TestF28WebhookIsNoReasonToRecreate has a webhook refuse a change with the code that the
// API server has for a field that cannot change. That is no such field: even where
// spec.force is true, the object stays.
func TestF28WebhookIsNoReasonToRecreate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), forced)
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	uid := get(t, page).GetUID()
	w := startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if !writesTo(r, "page") {
			return nil
		}
		answer := refused("not now")
		answer.Result.Code, answer.Result.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
		answer.Result.Details = &metav1.StatusDetails{}
		return answer
	})
	mark := auditMark(t)
	setManifest(t, ns, configMap("page", "hi"))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/page", w.name, "not now")
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")))
	w.remove(t)
	awaitReady(t, ns)
	require.Equal(t, uid, get(t, page).GetUID())
}

// TestFailingPolicy has a MutatingAdmissionPolicy fail for each write. The API server calls that invalid, without a field. It is no fault of the manifest,
// the object stays even where spec.force is true, and the change is applied once the policy is bound no more.
func TestFailingPolicy(t *testing.T) {
	t.Parallel()
	if !testenv.AtLeast(36) {
		t.Skip("MutatingAdmissionPolicy v1 needs Kubernetes 1.36")
	}
	for name, operations := range map[string][]admissionregistrationv1.OperationType{
		"Updates": {admissionregistrationv1.Update},
		"Writes":  {admissionregistrationv1.Create, admissionregistrationv1.Update},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, configMap("page", "hello"), forced)
			awaitReady(t, ns)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			uid := get(t, page).GetUID()
			binding := startFailingPolicy(t, ns, operations...)
			setManifest(t, ns, configMap("page", "hi"))
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/page: policy '"+ns+"' with binding '"+ns+"' denied request")
			require.NotContains(t, condition(t, v, v1alpha1.ConditionReady).Message, "another name", "no change of the manifest is a remedy")
			require.NoError(t, admin.Delete(t.Context(), binding))
			awaitReady(t, ns)
			require.Equal(t, uid, get(t, page).GetUID())
		})
	}
}

// startFailingPolicy creates a MutatingAdmissionPolicy that fails for operations on ConfigMaps in a namespace, and waits until the API server
// has noticed it. It returns its binding. Both are deleted with the test.
func startFailingPolicy(t *testing.T, ns string, operations ...admissionregistrationv1.OperationType) client.Object {
	t.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
	require.NoError(t, admin.Create(t.Context(), probe))
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: operations,
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}}},
		},
		FailurePolicy: new(admissionregistrationv1.Fail), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
				Expression: `Object{metadata: Object.metadata{labels: {"tier": object.metadata.labels["absent"]}}}`,
			},
		}},
	}}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns},
	}
	for _, obj := range []client.Object{policy, binding} {
		require.NoError(t, admin.Create(t.Context(), obj))
		t.Cleanup(func() { _ = admin.Delete(context.Background(), obj) })
	}
	await(t, func(c *assert.CollectT) {
		require.ErrorContains(c, mergePatch(probe, `{"data":{"a":"b"}}`), " denied request")
	})
	return binding
}
