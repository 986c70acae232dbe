package ui

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

const (
	// hidden is in all values of TestMaskedPages that no answer may have, and plain in those that answers have.
	hidden = "hunter2"
	plain  = "goldfish"

	maskedManifest = `apiVersion: v1
kind: Secret
metadata: {name: login}
data: {password: aHVudGVyMg==}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: annotated, annotations: {infrahub.operators.com/sensitive: "true"}}
data: {password: hunter2-ours}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, env: [{name: PASSWORD, value: hunter2-ours}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {password: goldfish-ours}
`
)

// TestMaskedPages reads all that vidra ui serves while objects with values that are never shown are edited: pages, parts of pages,
// server-sent events, forecasts and refused actions. A user takes the mark of a sensitive object away, first and with an edit.
func TestMaskedPages(t *testing.T) {
	t.Parallel()
	cluster.MakeNamespace(t, "masked")
	vr := cluster.NewVidraResource(t, "masked", maskedManifest)
	cluster.AwaitReady(t, "masked")
	p := start(t, kubeconfig, "--allow-writes")
	objects := map[string]string{"secret": "login", "configmap": "annotated", "deployment.apps": "web", "ConfigMap": "settings"}
	topics := url.Values{"topic": {"vr/masked"}}
	paths := []string{"", "?part=summary", "?part=rows", "?part=table", "vr/masked", "vr/masked?part=status", "vr/masked?part=inventory", "vr/masked?part=owned", "forecast"}
	for kind, name := range objects {
		paths = append(paths, "object?"+url.Values{"kind": {kind}, "namespace": {"masked"}, "name": {name}}.Encode())
		topics.Add("topic", "object/"+kind+"/masked/"+name)
	}
	events, changed := follow(t, p.URL+"live?"+topics.Encode())
	<-changed // the page misses no edit

	var said strings.Builder
	edit := func(obj client.Object, named string, patches ...string) {
		for _, patch := range patches {
			require.NoError(t, admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit")))
		}
		cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", named)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "masked", Name: name} }
	const unmark = `{"metadata":{"annotations":{"infrahub.operators.com/sensitive":null}}}`
	edit(&corev1.Secret{ObjectMeta: meta("login")}, "Secret masked/login", `{"stringData":{"password":"hunter2-theirs","more":"hunter2-more"}}`)
	edit(&corev1.ConfigMap{ObjectMeta: meta("annotated")}, "ConfigMap masked/annotated", unmark, `{"data":{"password":"hunter2-theirs"}}`)
	edit(&corev1.ConfigMap{ObjectMeta: meta("settings")}, "ConfigMap masked/settings", `{"data":{"password":"goldfish-theirs"}}`)
	suite.Await(t, func(c *assert.CollectT) {
		_, body := p.get(c, "object?kind=configmap&namespace=masked&name=settings")
		require.Contains(c, body, plain+"-theirs", "the page has the edits")
	})
	for _, path := range paths {
		_, body := p.get(t, path)
		said.WriteString(body)
	}
	for _, text := range []string{
		strings.NewReplacer("-ours", "-new", "aHVudGVyMg==", "aHVudGVyMw==").Replace(maskedManifest),
		"apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: Refused}\nstringData: {password: hunter2}\n",
	} {
		_, body := p.post(t, map[string]string{"file": "masked.yaml", "text": text, "vidraresource": "masked"})
		said.WriteString(body)
	}
	refuseSecrets(t, "masked")
	for _, verb := range []string{"skip", "keep", "end"} {
		answer, err := http.PostForm(p.URL+"act", url.Values{
			"verb": {verb}, "kind": {"secret"}, "namespace": {"masked"}, "name": {"login"}, "for": {"1h"}, "reason": {"test"},
		})
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Contains(t, string(body), "withheld", "%s: the message of the policy is withheld", verb)
		said.Write(body)
	}
	said.WriteString(events())
	for _, value := range []string{hidden, "aHVudGVy"} {
		if at := strings.Index(said.String(), value); at >= 0 {
			t.Errorf("a page shows %q: %s", value, said.String()[max(0, at-200):at+40])
		}
	}
}

// follow reads server-sent events. changed gets a value with the first one; the function returns all events.
func follow(t *testing.T, address string) (events func() string, changed <-chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r) //nolint:bodyclose // end closes it
	require.NoError(t, err)
	first, done := make(chan struct{}, 1), make(chan struct{})
	var text strings.Builder
	go func() {
		defer close(done)
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
			select {
			case first <- struct{}{}:
			default:
			}
		}
	}()
	end := func() string {
		stop()
		<-done
		_ = answer.Body.Close()
		return text.String()
	}
	t.Cleanup(func() { end() })
	return end, first
}

// refuseSecrets has a policy refuse all writes of Secrets of a namespace, with a value in its message.
func refuseSecrets(t *testing.T, ns string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: "'refused: ' + string(object.data.password)"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	for _, obj := range []client.Object{policy, binding} {
		require.NoError(t, admin.Create(t.Context(), obj))
		t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), obj)) })
	}
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}, Data: map[string][]byte{"password": []byte("value")}}
	suite.Await(t, func(c *assert.CollectT) {
		require.ErrorContains(c, admin.Create(context.Background(), probe.DeepCopy(), client.DryRunAll), "refused")
	})
}
