package remote

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// hidden is in all values of TestRemoteValuesStay that nothing shows.
const hidden = "hunter2"

// TestRemoteValuesStay edits objects with values that are never shown in another cluster, takes their marks away, and has a policy of
// that cluster quote values in refusals. No value is in the status, in an Event, in the log or in an answer of the command line.
func TestRemoteValuesStay(t *testing.T) {
	t.Parallel()
	vidra := newCLI(t)
	d, _ := newDestination(t)
	quoteRefusals(t, d.name)
	manifest := manifests(
		"apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2-ours}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: annotated, annotations: {infrahub.operators.com/sensitive: \"true\"}}\ndata: {password: hunter2-ours}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: marked}\ndata: {password: hunter2-ours}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\ndata: {password: 'kind: Secret, data: {a: hunter2-ours}'}\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: web}}\n  template:\n"+
			"    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web, env: [{name: PASSWORD, value: hunter2-ours}]}]}\n",
	)
	v := newVidraResource(t, d.url(), d.name, manifest)
	awaitReady(t, d.name)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: d.name, Name: name} }
	const unmark = `"metadata":{"annotations":{"infrahub.operators.com/sensitive":null}}`
	there.edit(t, &corev1.ConfigMap{ObjectMeta: meta("marked")}, `{"metadata":{"annotations":{"infrahub.operators.com/sensitive":"true"}}}`)
	await(t, func(c *assert.CollectT) { // the mark of a user counts once it is recorded
		for _, e := range getVidraResource(c, d.name).Status.ManagedResources {
			require.True(c, e.Name != "marked" || e.Sensitive)
		}
	})
	for _, edit := range []struct {
		obj           client.Object
		patch, reason string
	}{
		{&corev1.Secret{ObjectMeta: meta("login")}, `{"stringData":{"password":"hunter2-theirs","more":"hunter2-more"}}`, "Secret " + d.name + "/login"},
		{&corev1.ConfigMap{ObjectMeta: meta("annotated")}, `{` + unmark + `,"data":{"password":"hunter2-theirs"}}`, "ConfigMap " + d.name + "/annotated"},
		{&corev1.ConfigMap{ObjectMeta: meta("marked")}, `{` + unmark + `,"data":{"password":null,"more":"hunter2-more"}}`, "ConfigMap " + d.name + "/marked"},
		{&corev1.ConfigMap{ObjectMeta: meta("text")}, `{"data":{"password":"hunter2-theirs"}}`, "ConfigMap " + d.name + "/text"},
		{&appsv1.Deployment{ObjectMeta: meta("web")}, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web","env":[{"name":"PASSWORD","value":"hunter2-theirs"}]}]}}}}`, "Deployment " + d.name + "/web"},
	} {
		there.edit(t, edit.obj, "%s", edit.patch)
		awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "", edit.reason)
	}
	read := func(answers *strings.Builder) {
		for _, args := range [][]string{
			{"status", d.name, "-o", "yaml"}, {"history", d.name, "-o", "json"}, {"events", d.name, "-o", "json"}, {"tree", d.name, "-o", "yaml"}, {"diff", d.name}, {"diff", d.name, "-o", "json"}, {"forecast", d.name},
			{"why", "secret/login", "-n", d.name, "-o", "yaml"}, {"why", "configmap/annotated", "-n", d.name}, {"why", "configmap/marked", "-n", d.name}, {"why", "deployment/web", "-n", d.name, "-o", "json"},
			{"blame", "secret/login", "-n", d.name}, {"blame", "configmap/text", "-n", d.name}, {"keep", "configmap/text", "-n", d.name}, {"keep", "deployment/web", "-n", d.name},
		} {
			out, said, _ := vidra(t, here.KubeconfigPath, args...)
			answers.WriteString(out + said)
		}
	}
	var answers strings.Builder
	read(&answers)
	setManifest(t, d.name, strings.ReplaceAll(manifest, "-ours", "-ours-bad"))
	refused := awaitNotReady(t, d.name, v1alpha1.ReasonApplyFailed, "withheld")
	awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "", "withheld")
	read(&answers)
	fmt.Fprint(&answers, refused.Status, operatorLog(t))
	events := &eventsv1.EventList{}
	require.NoError(t, here.Admin.List(t.Context(), events))
	for _, e := range events.Items {
		answers.WriteString(e.String())
	}
	for _, value := range []string{hidden, base64.StdEncoding.EncodeToString([]byte(hidden))[:9]} {
		if at := strings.Index(answers.String(), value); at >= 0 {
			t.Errorf("%q was shown: %s", value, answers.String()[max(0, at-200):at+40])
		}
	}
}

// TestRepeatedTokenStays: a proxy before the other cluster repeats the token of the kubeconfig in a refusal. It is in no status, Event, answer of the command
// line or line of the log.
func TestRepeatedTokenStays(t *testing.T) {
	t.Parallel()
	const marker = "hunter2.0123456789/abcdef"
	vidra := newCLI(t)
	d, proxy := newDestination(t)
	d.config.BearerToken = marker // beside the certificate of the proxy
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	patches := func(r faultproxy.Request) bool { return r.Verb == "patch" && r.Resource == "configmaps" }
	rule := proxy.Inject(faultproxy.Match{Where: patches}, faultproxy.Text(http.StatusInternalServerError, "no route for Authorization: Bearer "+marker))
	v := newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	refused := awaitNotReady(t, d.name, v1alpha1.ReasonApplyFailed, "Authorization: Bearer ***")
	event := awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "", "Authorization: Bearer ***")
	var answers strings.Builder
	fmt.Fprint(&answers, refused.Status, event.Note, operatorLog(t))
	for _, args := range [][]string{{"status", d.name, "-o", "yaml"}, {"diff", d.name}, {"forecast", d.name, "-o", "json"}, {"events", d.name, "-o", "json"}, {"why", "configmap/page", "-n", d.name}} {
		out, said, _ := vidra(t, here.KubeconfigPath, args...)
		answers.WriteString(out + said)
	}
	require.NotContains(t, answers.String(), hidden)
	rule.Remove()
	awaitReady(t, d.name)
}

// quoteRefusals has the other cluster refuse the objects of a namespace whose password ends in bad, with the password in the message.
func quoteRefusals(t *testing.T, ns string) {
	t.Helper()
	const value = "(has(object.data) ? string(object.data.?password.orValue('')) : has(object.spec) ? object.spec.template.spec.containers[0].env[0].value : '')"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"configmaps", "deployments"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "!" + value + ".matches('bad')", MessageExpression: "'refused: ' + " + value}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	for _, obj := range []client.Object{policy, binding} {
		require.NoError(t, there.Admin.Create(t.Context(), obj))
		t.Cleanup(func() { require.NoError(t, there.Admin.Delete(context.Background(), obj)) })
	}
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}, Data: map[string]string{"password": "bad"}}
	await(t, func(c *assert.CollectT) {
		require.ErrorContains(c, there.Admin.Create(context.Background(), probe.DeepCopy(), client.DryRunAll), "refused: bad")
	})
}

// TestRemoteFormerAccount changes the namespace of a destination in another cluster, and with it the account: the former account removes
// the objects there. Where it may not, the message has both accounts and the next step.
func TestRemoteFormerAccount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		// spec is the change; IS is the other namespace.
		spec string
		// weak takes the rights of the former account away before.
		weak bool
		// by is the user that removes the object; empty if none may.
		by string
	}{
		"namespace":              {reason: "one account of each namespace", spec: `{"destination":{"namespace":"IS"}}`, by: "deployer"},
		"namespace and account":  {reason: "another account of another namespace", spec: `{"serviceAccountName":"other","destination":{"namespace":"IS"}}`, by: "deployer"},
		"account is dropped":     {reason: "the rights of the kubeconfig remain", spec: `{"serviceAccountName":null,"destination":{"namespace":"IS"}}`},
		"account without rights": {reason: "neither account may remove it", spec: `{"destination":{"namespace":"IS"}}`, weak: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := newAccountDestination(t)
			setKubeconfig(t, d.name, kubeconfig(t, d.config))
			other := d.name + "-is"
			there.MakeNamespace(t, other)
			for _, ns := range []string{d.name, other} {
				for _, account := range []string{"deployer", "other"} {
					there.newAccount(t, ns, account)
					if ns != d.name || account == "deployer" {
						there.grant(t, ns, account, "configmaps")
					}
				}
			}
			v := newVidraResource(t, d.url(), d.name, greeting("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = "deployer" })
			awaitReady(t, d.name)
			if tt.weak {
				require.NoError(t, there.Admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(d.name)))
			}
			mark := there.AuditMark(t)
			here.edit(t, v, "%s", `{"spec":`+strings.ReplaceAll(tt.spec, "IS", other)+`}`)
			there.awaitSays(t, other, "page", "hello")
			if tt.weak {
				awaitNotReady(t, d.name, v1alpha1.ReasonPruneFailed, "ConfigMap "+d.name+"/page", "ServiceAccount "+d.name+"/deployer",
					"grant the ServiceAccount "+other+"/deployer get, patch and delete on configmaps in namespace "+d.name+", or delete the object yourself")
				require.NoError(t, there.Admin.Delete(t.Context(), configMap(d.name, "page")))
				awaitReady(t, d.name)
				return
			}
			there.awaitSays(t, d.name, "page", "")
			awaitReady(t, d.name)
			var by []string
			for _, r := range there.RequestsBy(t, mark, d.user).On("configmaps", d.name, "page").Accepted() {
				if r.Verb == "delete" {
					by = append(by, strings.TrimPrefix(r.As, "system:serviceaccount:"+d.name+":"))
				}
			}
			require.Equal(t, []string{tt.by}, by, tt.reason)
		})
	}
}
