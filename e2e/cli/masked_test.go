package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// hidden is in all values of TestMaskedAnswers that no answer may have, and plain in those that answers have.
const (
	hidden = "hunter2"
	plain  = "swordfish"
)

// questions are the commands that answer questions, with the formats of -o.
var questions = map[string][]string{
	"status": {"", "json", "yaml", "name"}, "why": {"", "wide", "json", "yaml", "name"}, "blame": {"", "json", "yaml"},
	"history": {"", "wide", "json", "yaml", "name"}, "events": {"", "wide", "json", "yaml"}, "tree": {"", "wide", "json", "yaml", "name"},
	"diff": {"", "markdown", "json", "yaml", "name"}, "forecast": {"", "json", "yaml"}, "lint": {"", "json", "yaml"},
	"create": {""}, "keep": {"", "json", "yaml"},
}

// otherCommands answer no question, or print VidraResources as the user may read them.
var otherCommands = []string{
	"get", "suspend", "resume", "skip", "adopt", "orphan", "reconcile", "wait", "expect", "drill", "version", "completion", "help", "mcp", "ui", "infrahub", "migrate", "export", "dev", "revisions", "rollback",
}

// maskedManifest has a value that is hidden in each way, and one that is shown.
func maskedManifest(value, shown string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: %[1]s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: annotated, annotations: {infrahub.operators.com/sensitive: "true"}}
data: {password: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, env: [{name: PASSWORD, value: %[1]s}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: %[2]s}
`, value, shown)
}

// TestMaskedAnswers asks every question in every format about objects with values that are never shown: of a Secret, an annotated
// object and an environment variable, as they are, as edits had them, as a file has them, and in messages of the API server. No
// answer has one, and each kind of answer has the value that is shown.
func TestMaskedAnswers(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(vidra(t, "__complete", "").stdout) {
		if name, _, found := strings.Cut(line, "\t"); found && questions[name] == nil {
			require.Contains(t, otherCommands, name, "questions has its formats, unless it answers none")
		}
	}
	makeNamespace(t, "masked")
	vr := cluster.NewVidraResource(t, "masked", maskedManifest(hidden+"-ours", plain+"-ours"))
	cluster.AwaitReady(t, "masked")
	in := metav1.ObjectMeta{Namespace: "masked"}
	named := func(name string) metav1.ObjectMeta { meta := in; meta.Name = name; return meta }
	for _, edit := range []struct {
		obj          client.Object
		patch, field string
	}{
		{&corev1.Secret{ObjectMeta: named("login")}, `{"stringData":{"password":"` + hidden + `-theirs","more":"` + hidden + `-more"}}`, "data.password"},
		{&corev1.ConfigMap{ObjectMeta: named("annotated")}, `{"data":{"password":"` + hidden + `-theirs","more":"` + hidden + `-more"}}`, "data.password"},
		{&appsv1.Deployment{ObjectMeta: named("web")}, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web","env":[{"name":"PASSWORD","value":"` + hidden + `-theirs"}]}]}}}}`, "PASSWORD"},
		{&corev1.ConfigMap{ObjectMeta: named("settings")}, `{"data":{"color":"` + plain + `-theirs","more":"` + plain + `-more"}}`, "data.color"},
	} {
		require.NoError(t, cluster.MergePatch(edit.obj, "%s", edit.patch))
		cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", edit.field)
	}
	awaitText(t, "Secret masked/login", "history", "masked")

	// The answers that show a change that waits, and refusals by the API server.
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "masked"}}, `{"spec":{"suspend":true}}`))
	file := writeFile(t, maskedManifest(hidden+"-new", plain+"-new")+strings.ReplaceAll(`---
apiVersion: v1
kind: Secret
metadata: {name: Refused}
stringData: {password: HIDDEN}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: typed, annotations: {infrahub.operators.com/sensitive: "true"}}
data: {password: [HIDDEN]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: wrong}
spec: {replicas: 0, selector: {matchLabels: {app: wrong}}, template: {metadata: {labels: {app: other}}, spec: {containers: [{name: web, image: web, env: [{name: "1=1", value: HIDDEN}]}]}}}
`, "HIDDEN", hidden))
	broken := writeFile(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: "+hidden+"\n  other: ["+hidden+"\n")
	lines := map[string][][]string{
		"status": {{}, {"masked"}}, "tree": {{"masked"}}, "events": {{}, {"masked"}, {"-n", "masked"}}, "history": {{}, {"masked"}},
		"diff": {{"masked"}, {"masked", "-f", file}, {"-f", broken}}, "forecast": {{"masked"}, {"masked", "-f", file}, {"-f", broken}}, "lint": {{"-f", file}, {"-f", broken}},
		"create": {{"masked", "-f", file, "--dry-run=server", "--force-conflicts"}, {"masked", "-f", file}, {"masked", "-f", broken}, {"other", "-f", file, "--dry-run=client", "-o", "yaml"}},
	}
	for _, object := range []string{"secret/login", "configmap/annotated", "deployment/web", "configmap/settings"} {
		for _, name := range []string{"why", "blame", "history", "events", "keep"} {
			arg := []string{object, "-n", "masked"}
			if name == "events" {
				arg = []string{"--for", object, "-n", "masked"}
			}
			lines[name] = append(lines[name], arg)
		}
		lines["blame"] = append(lines["blame"], []string{object, "-n", "masked", "--foreign"})
	}
	shown := map[string]bool{}
	for name, formats := range questions {
		for _, args := range lines[name] {
			for _, format := range formats {
				args := append([]string{name}, args...)
				if format != "" {
					args = append(args, "-o", format)
				}
				a := vidra(t, args...)
				requireHidden(t, strings.Join(args, " "), a.stdout+a.stderr)
				shown[name] = shown[name] || strings.Contains(a.stdout, plain)
			}
		}
	}
	session := assistant(t, cluster.KubeconfigPath)
	for _, object := range []string{"secret/login", "configmap/annotated", "deployment/web", "configmap/settings"} {
		kind, name, _ := strings.Cut(object, "/")
		for tool, arguments := range toolsAbout("masked", kind, "masked", name) {
			text, _ := asked(t, session, tool, arguments)
			requireHidden(t, "the tool "+tool, text)
		}
	}
	for _, tool := range []string{"diff", "forecast"} {
		for _, text := range []string{maskedManifest(hidden+"-new", plain+"-new"), "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: [" + hidden + "]}\n"} {
			answer, _ := asked(t, session, tool, map[string]any{"name": "masked", "file": text})
			requireHidden(t, "the tool "+tool+" with a file", answer)
		}
	}
	for _, name := range []string{"why", "blame", "history", "events", "diff"} {
		require.True(t, shown[name], "%s shows the values that are not hidden", name)
	}
	refuseWrites(t, "masked")
	for _, args := range [][]string{
		{"skip", "secret/login", "-n", "masked", "--for", "1h", "--reason", "test"}, {"skip", "configmap/annotated", "-n", "masked", "--end"},
		{"orphan", "secret/login", "-n", "masked"}, {"resume", "masked"}, {"reconcile", "masked"}, {"orphan", "masked"},
	} {
		a := vidra(t, args...)
		require.NotZero(t, a.code, args)
		require.Contains(t, a.stderr, "withheld", "%s has the reason of the API server without its message", args)
		requireHidden(t, strings.Join(args, " "), a.stdout+a.stderr)
	}
	a := vidra(t, "skip", "deployment/web", "-n", "masked", "--for", "1h", "--reason", "test")
	require.Contains(t, a.stderr, "refused: (withheld)", "the message of a policy is shown without the values that are never shown")
	requireHidden(t, "skip", a.stdout+a.stderr)
	for _, args := range [][]string{
		{"infrahub", "credentials", "apply", "https://infrahub.example.com", "-n", "masked", "--token-file", writeFile(t, hidden)},
		{"infrahub", "credentials", "delete", "https://other.example.com", "-n", "masked"},
	} {
		a := vidra(t, args...)
		require.NotZero(t, a.code, args)
		require.Contains(t, a.stderr, "withheld", args)
		requireHidden(t, strings.Join(args, " "), a.stdout+a.stderr)
	}
}

// refuseWrites has a policy refuse all writes of objects of a namespace, and of the VidraResource of its name, with their values in its
// message, as if the user lacked a right. It also makes a Secret with credentials of Infrahub there.
func refuseWrites(t *testing.T, ns string) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "credentials", Labels: map[string]string{v1alpha1.InfrahubURLLabel: "other.example.com"}},
		StringData: map[string]string{"token": hidden},
	}))
	forbidden := metav1.StatusReasonForbidden
	const object = "(request.operation == 'DELETE' ? oldObject : object)"
	const of = object + ".metadata.?namespace.orValue('') == '%[1]s' || " + object + ".metadata.name == '%[1]s'"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"secrets", "configmaps", "deployments", "vidraresources"}},
			}}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("!("+of+") || request.userInfo.username.startsWith('system:')", ns), Reason: &forbidden,
				MessageExpression: "'refused: ' + (has(" + object + ".data) ? string(" + object + ".data.?password.orValue(" + object + ".data.?token.orValue(''))) : " +
					"has(" + object + ".spec) && has(" + object + ".spec.manifest) ? " + object + ".spec.manifest : " +
					"has(" + object + ".spec) ? " + object + ".spec.template.spec.containers[0].env[0].value : '')",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}, Data: map[string]string{"password": "value"}}
	t.Cleanup(func() { // the VidraResource is deleted next
		require.NoError(t, admin.Delete(context.Background(), binding))
		suite.Await(t, func(c *assert.CollectT) {
			require.NoError(c, admin.Create(context.Background(), probe.DeepCopy(), client.DryRunAll))
		})
		require.NoError(t, admin.Delete(context.Background(), policy))
	})
	require.NoError(t, admin.Create(t.Context(), policy))
	require.NoError(t, admin.Create(t.Context(), binding))
	suite.Await(t, func(c *assert.CollectT) {
		require.ErrorContains(c, admin.Create(context.Background(), probe.DeepCopy(), client.DryRunAll), "refused: value")
	})
}

// requireHidden requires that a text has no hidden value, as it is or as a Secret has it.
func requireHidden(t *testing.T, of, text string) {
	t.Helper()
	for _, value := range []string{hidden, base64.StdEncoding.EncodeToString([]byte(hidden))[:9]} {
		if at := strings.Index(text, value); at >= 0 {
			t.Errorf("%s shows a value that is never shown: %q", of, text[max(0, at-100):min(len(text), at+40)])
		}
	}
}
