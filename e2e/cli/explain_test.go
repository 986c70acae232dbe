package cli

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stretchr/testify/assert"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestKeep follows each way to keep a change that `why` names: the line, and the rule as it is printed.
func TestKeep(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "keep")
	cluster.NewVidraResource(t, "keep", settings, func(v *v1alpha1.VidraResource) {
		v.Spec.Drift = &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Paths: []string{"/data/colour"}}}}
	})
	vr := cluster.AwaitReady(t, "keep")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "keep", Name: "settings"}}
	require.NoError(t, cluster.MergePatch(cm, `{"metadata":{"labels":{"tier":null}}}`))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "metadata.labels.tier")
	why := ok(t, "why", "cm/settings", "-n", "keep")
	require.Contains(t, why, "spec.manifest of VidraResource keep, document 1, line 6  (metadata.labels.tier)")
	_, rest, found := strings.Cut(why, "paste these rules, of which the last one is new, into VidraResource keep, and make your change again\n")
	require.True(t, found, why)
	rule, _, _ := strings.Cut(rest, "3. ")
	body, err := yaml.YAMLToJSONStrict([]byte(rule))
	require.NoError(t, err, rule)
	requireNoDifference(t, vr, body)
	require.NoError(t, admin.Patch(t.Context(), vr, client.RawPatch(types.MergePatchType, body), &client.PatchOptions{
		Raw: &metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict},
	}), "the CustomResourceDefinition accepts it")
	vr = cluster.AwaitReady(t, "keep")
	require.Len(t, vr.Spec.Drift.Ignore, 2, "the rule that there was stays")
	require.NoError(t, cluster.MergePatch(cm, `{"metadata":{"labels":{"tier":null}}}`))
	ok(t, "reconcile", "keep", "--wait")
	require.NotContains(t, cluster.Get(t, cm).GetLabels(), "tier", "the change is kept")
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"colour":"red"}}`))
	require.Contains(t, ok(t, "why", "cm/settings", "-n", "keep"), "Ignored by VidraResource keep, because of spec.drift.ignore\ndata.colour\n")
}

// requireNoDifference requires that `diff` shows no change by rules that are added: fields that the operator leaves to others
// stay as they are.
func requireNoDifference(t *testing.T, vr *v1alpha1.VidraResource, rules []byte) {
	t.Helper()
	with := vr.DeepCopy()
	require.NoError(t, json.Unmarshal(rules, with)) // a merge, because it has lists only below spec.drift
	with.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind}
	with.ObjectMeta = metav1.ObjectMeta{Name: vr.Name}
	text, err := yaml.Marshal(with)
	require.NoError(t, err)
	require.Equal(t, "Dry run: nothing was written.\nVidraResource "+vr.Name+": 1 object is unchanged\n", ok(t, "diff", "-f", writeFile(t, string(text))))
}

// TestRemedies: `why` has a way to keep each of several edits, a deletion among them, and knows what is
// kept already.
func TestRemedies(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "remedies")
	cluster.NewVidraResource(t, "remedies", settings)
	vr := cluster.AwaitReady(t, "remedies")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remedies", Name: "settings"}}
	for _, key := range []string{"greeting", "colour"} {
		require.NoError(t, cluster.MergePatch(cm, `{"data":{%q:"mine"}}`, key))
		cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data."+key)
	}
	require.NoError(t, admin.Delete(t.Context(), cm.DeepCopy()))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "deleted")
	why := ok(t, "why", "cm/settings", "-n", "remedies")
	require.Contains(t, why, "document 1, line 1  (the object: remove it there to keep it deleted)")
	require.Contains(t, why, "document 1, line 8  (data.colour)")
	require.Contains(t, why, "document 1, line 9  (data.greeting)")
	require.Contains(t, why, "2. Leave the fields to others: paste this rule into VidraResource remedies, without the paths that you do not mean, and make")
	require.Contains(t, why, "- /data/colour\n")
	require.Contains(t, why, "- /data/greeting\n")

	unknown := filepath.Join(t.TempDir(), "unknown.yaml")
	require.NoError(t, os.WriteFile(unknown, []byte("apiVersion: v1\nkind: ConfigMapp\nmetadata: {name: settings}\n"), 0o600))
	diff := vidra(t, "diff", "remedies", "-f", unknown)
	require.Equal(t, 2, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "it is no longer in the manifest.") // and may be in the unreadable manifest of another test
	require.Contains(t, diff.stdout, ". It is not deleted before ConfigMapp")

	ok(t, "skip", "cm/settings", "-n", "remedies", "--for", "1h", "--reason", "tests")
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"mine"}}`))
	suite.Await(t, func(c *assert.CollectT) {
		why := vidra(c, "why", "cm/settings", "-n", "remedies").stdout
		require.Contains(c, why, "; no edit is reverted until ")
		require.Contains(c, why, "line 9  (data.greeting)", "another manager owns it")
		require.Contains(c, why, "vidra skip cm/settings -n remedies --end")
		require.NotContains(c, why, "--for 1h")
	})
}

// TestCompletion completes names of VidraResources, and managed objects: those of the namespace, and those
// without one.
func TestCompletion(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "completion")
	role := "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: completion\nrules: []\n"
	cluster.NewVidraResource(t, "completion", settings+"---\n"+web+role)
	cluster.AwaitReady(t, "completion")
	complete := func(args ...string) []string {
		a := vidra(t, append([]string{"__complete"}, args...)...)
		require.Zero(t, a.code, a.stderr)
		words := strings.Split(strings.TrimSpace(a.stdout), "\n")
		require.Equal(t, ":4", words[len(words)-1], "no names of files")
		return words[:len(words)-1]
	}
	objects := []string{"clusterrole/completion", "configmap/settings", "deployment/web"}
	require.Contains(t, ok(t, "events", "--for", "clusterrole/completion", "-n", "completion"), "Created ClusterRole completion", "it has no namespace")
	for _, command := range [][]string{{"why"}, {"blame"}, {"skip", "--for=1h"}} {
		command = append(command, "-n", "completion")
		got := complete(append(command, "")...)
		require.Subset(t, got, objects, command)
		require.NotContains(t, got, "completion", command)
		require.Empty(t, complete(append(command, "configmap/settings", "")...), command)
	}
	require.Equal(t, []string{"settings"}, complete("why", "-n", "completion", "configmap", ""))
	require.Equal(t, []string{"configmap/settings"}, complete("why", "-n", "completion", "configm"))
	require.NotContains(t, complete("why", "-n", "default", ""), "deployment/web")
	for _, command := range []string{"history", "orphan"} {
		require.Subset(t, complete(command, "-n", "completion", ""), append(objects, "completion"), command)
	}
	require.Contains(t, complete("status", ""), "completion")
}

// TestSources explains objects from a ConfigMap and a Secret, whose values are not printed.
func TestSources(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "sources")
	source := metav1.ObjectMeta{Namespace: "sources", Name: "parts"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: source, Data: map[string]string{"a.yaml": suite.Greeting("first", "hello") + "---\n" + settings}}))
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: source, StringData: map[string]string{"b.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: swordfish\n"},
	}))
	cluster.NewVidraResource(t, "sources", "", func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Key: "a.yaml"}, {Kind: "Secret", Name: "parts", Key: "b.yaml"}}
	})
	vr := cluster.AwaitReady(t, "sources")
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sources", Name: "login"}}
	require.NoError(t, cluster.MergePatch(login, `{"stringData":{"password":"hunter2"}}`))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.password")
	golden(t, "why-source", ok(t, "why", "cm/settings", "-n", "sources"))
	why := ok(t, "why", "secret/login", "-n", "sources")
	golden(t, "why-secret", why)
	blame := ok(t, "blame", "secret/login", "-n", "sources")
	golden(t, "blame-secret", withoutIDs(blame))
	for _, secret := range []string{"swordfish", "hunter2", "c3dvcmRmaXNo", "aHVudGVyMg"} {
		for _, output := range []string{why, blame, ok(t, "why", "secret/login", "-n", "sources", "-o", "json"), ok(t, "blame", "secret/login", "-n", "sources", "-o", "json"), ok(t, "history", "sources", "-o", "yaml")} {
			require.NotContains(t, output, secret)
		}
	}
}

// TestHistory lists the edits of a VidraResource, and of one object.
func TestHistory(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "history")
	cluster.NewVidraResource(t, "history", suite.Manifests(settings, suite.Greeting("page", "hello")))
	cluster.AwaitReady(t, "history")
	require.Equal(t, answer{stderr: "No edits found.\n"}, vidra(t, "history", "history"))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "history", Name: "settings"}}
	for range 2 {
		require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye"}}`))
		suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greetingOf(c, cm)) })
	}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "history", Name: "page"}}
	awaitText(t, "2   ", "history", "history") // of another second than what follows
	require.NoError(t, admin.Delete(t.Context(), page))
	awaitText(t, "ConfigMap history/page", "history", "history")
	golden(t, "history", ok(t, "history", "history"))
	golden(t, "history-wide", ok(t, "history", "cm/settings", "-n", "history", "-o", "wide"))
	golden(t, "history-yaml", ok(t, "history", "-n", "history", "-o", "yaml"))
	require.Equal(t, "configmap/page\nconfigmap/settings\n", ok(t, "history", "history", "-o", "name"))
	require.Contains(t, ok(t, "history", "-A", "--since", "1h", "-o", "json"), `"vidraResource": "history"`)
	require.Equal(t, "[]\n", ok(t, "history", "history", "--since", "1ms", "-o", "json"))
	for text, args := range map[string][]string{
		"VidraResource missing does not exist": {"history", "missing"},
		"want a duration above 0":              {"history", "--since", "yesterday"},
		`the cluster serves no kind "cn"`:      {"history", "cn/settings"},
	} {
		require.Contains(t, vidra(t, args...).stderr, text)
	}
}

// greetingOf is what a ConfigMap says; empty if it does not exist.
func greetingOf(t require.TestingT, cm *corev1.ConfigMap) string {
	live := cm.DeepCopy()
	require.NoError(t, client.IgnoreNotFound(admin.Get(context.Background(), client.ObjectKeyFromObject(cm), live)))
	return live.Data["greeting"]
}

// TestBlame shows who owns each line.
func TestBlame(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "blame")
	cluster.NewVidraResource(t, "blame", suite.Manifests(settings, "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector: {app: web}\n  ports:\n  - name: http\n    port: 80\n"))
	vr := cluster.AwaitReady(t, "blame")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "blame", Name: "settings"}}
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye","extra":"a\nb"}}`))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting")
	golden(t, "blame", withoutIDs(ok(t, "blame", "cm/settings", "-n", "blame")))
	golden(t, "blame-foreign", ok(t, "blame", "cm/settings", "-n", "blame", "--foreign"))
	require.Contains(t, ok(t, "blame", "svc/web", "-n", "blame", "--foreign"), "The manifest has all fields.\n")
	service := ok(t, "blame", "svc/web", "-n", "blame")
	require.Regexp(t, `blame: document 2, line 20 +│     port: 80\n`, service)
	require.Regexp(t, `\n +│     protocol: TCP\n`, service, "a default has no owner")
	require.Regexp(t, `blame: document 2, line 17 +│     app: web\n`, service, "it is owned as a whole")
}

// withoutIDs leaves out the lines that the API server makes up.
func withoutIDs(output string) string { return withoutLines(output, "uid: ", "resourceVersion: ") }

// withoutLines leaves out the lines that have one of some texts.
func withoutLines(output string, texts ...string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestTwoOwners explains an object of two VidraResources.
func TestTwoOwners(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "two")
	shared := func(key string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\n  namespace: two\ndata:\n  " + key + ": hello\n"
	}
	for _, name := range []string{"two-a", "two-b"} {
		cluster.NewVidraResource(t, "two", shared(name), suite.Named(name), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
		cluster.AwaitReady(t, name)
	}
	golden(t, "why-two", ok(t, "why", "cm/shared", "-n", "two"))
	require.Equal(t, "vidraresource.infrahub.operators.com/two-a\nvidraresource.infrahub.operators.com/two-b\n", ok(t, "why", "cm/shared", "-n", "two", "-o", "name"))
}

// TestTenant has a user ask who may read one namespace, and no VidraResource.
func TestTenant(t *testing.T) {
	t.Parallel()
	if !testenv.AtLeast(34) {
		t.Skip("the ClusterRole view of Kubernetes 1.33 has no Events of the group events.k8s.io")
	}
	makeNamespace(t, "tenant")
	cluster.NewVidraResource(t, "tenant", settings)
	cluster.AwaitReady(t, "tenant")
	meta := metav1.ObjectMeta{Namespace: "tenant", Name: "viewer"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "tenant", Name: "viewer"}},
	}))
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "tenant", "viewer")
	require.NoError(t, err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "settings"}}
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye"}}`))
	cluster.AwaitEvent(t, cm, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data.greeting")
	suite.Await(t, func(c *assert.CollectT) { // the API server learns of a RoleBinding soon
		why := vidraAs(c, kubeconfig, "why", "cm/settings", "-n", "tenant")
		require.Equal(c, 0, why.code, why.stderr)
		require.Contains(c, why.stdout, "reverted data.greeting")
	})
	golden(t, "why-tenant", vidraAs(t, kubeconfig, "why", "cm/settings", "-n", "tenant").stdout)
	for _, args := range [][]string{{"get"}, {"status"}, {"tree", "tenant"}, {"suspend", "tenant"}} {
		refused := vidraAs(t, kubeconfig, args...)
		require.Equal(t, 1, refused.code)
		require.Contains(t, refused.stderr, "ask for a ClusterRoleBinding to a role with that right on vidraresources.infrahub.operators.com, such as vidra-vidraresource-")
	}
}

// TestUnanswered asks about what cannot be answered.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	gone := vidraAs(t, writeFile(t, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), "status")
	require.Equal(t, 1, gone.code)
	require.Contains(t, gone.stderr, "the API server cannot be reached: check --context, --kubeconfig and the network")
	tests := map[string]struct {
		reason, says string
		args         []string
	}{
		"kind":        {reason: "a typing error", args: []string{"why", "deploymnt/web"}, says: "the cluster serves no kind \"deploymnt\": `kubectl api-resources` lists those that it serves; did you mean deployment?"},
		"not found":   {reason: "no owner either", args: []string{"why", "cm/missing"}, says: "ConfigMap default/missing does not exist, and no VidraResource manages it"},
		"not managed": {reason: "another tool's", args: []string{"blame", "cm/kube-root-ca.crt"}, says: "is not managed by Vidra"},
		"no object":   {reason: "no argument", args: []string{"why"}, says: "0 arguments: want KIND/NAME or KIND.GROUP/NAME, such as configmap/settings"},
		"command":     {reason: "none of the name", args: []string{"who"}, says: `unknown command "who" for "vidra" Did you mean this? why`},
		"no time":     {reason: "neither --for nor --end", args: []string{"skip", "cm/settings"}, says: "say for how long with --for, such as --for 1h, or end an exemption with --end"},
		"form":        {reason: "a name alone", args: []string{"why", "settings"}, says: "want KIND/NAME"},
		"namespace":   {reason: "no name of a namespace", args: []string{"why", "cm/a", "-n", "A"}, says: `--namespace "A": want the name of a namespace`},
		"output":      {reason: "no such output", args: []string{"get", "-o", "jsonn"}, says: `--output "jsonn": want wide, json, yaml or name`},
		"nowhere":     {reason: "a namespace that does not exist", args: []string{"why", "cm/a", "-n", "nowhere"}, says: `ConfigMap nowhere/a does not exist: namespace "nowhere" does not exist`},
		"no history":  {reason: "an object that does not exist", args: []string{"history", "cm/missing"}, says: "ConfigMap default/missing does not exist, and no VidraResource manages it"},
		"unmanaged":   {reason: "has no history", args: []string{"history", "cm/kube-root-ca.crt"}, says: "ConfigMap default/kube-root-ca.crt is not managed by Vidra"},
		"no events":   {reason: "of what does not exist", args: []string{"events", "--for", "cm/missing", "-n", "default"}, says: "no Events found, and no VidraResource manages ConfigMap default/missing"},
		"events":      {reason: "no such VidraResource", args: []string{"events", "missing"}, says: "VidraResource missing does not exist"},
		"missing":     {reason: "no such VidraResource", args: []string{"wait", "missing"}, says: "VidraResource missing does not exist"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := vidra(t, tt.args...)
			require.Equal(t, 1, a.code, tt.reason)
			require.Contains(t, a.stderr, tt.says, tt.reason)
			require.Empty(t, a.stdout)
		})
	}
}

// TestMeant asks about an object with another namespace, with a misspelt name, and about objects that managed objects own.
func TestMeant(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "meant")
	cluster.NewVidraResource(t, "meant", web)
	cluster.AwaitReady(t, "meant")
	awaitText(t, "Pod/web-", "tree", "meant") // its controllers create it
	refused := func(says string, args ...string) {
		a := vidra(t, args...)
		require.Equal(t, 1, a.code, a.stdout)
		require.Contains(t, a.stderr, says)
		require.NotContains(t, a.stderr, "infrahub.operators.com", "the error of the API server adds nothing")
	}
	refused("Deployment meant/wbe does not exist, and no VidraResource manages it", "why", "deployment/wbe", "-n", "meant")
	refused("did you mean Deployment meant/web", "why", "deployment/wbe", "-n", "meant")
	refused("VidraResource meant manages Deployment meant/web: add -n meant", "why", "deployment/web")
	refused(`namespace "meatn" does not exist; did you mean meant?`, "why", "deployment/web", "-n", "meatn")
	refused("VidraResource meatn does not exist; `vidra get` lists those that do; did you mean meant?", "status", "meatn")
	refused("no Events found, and no VidraResource manages Deployment wbe", "events", "--for", "deployment/wbe")
	for name := range strings.Lines(ok(t, "tree", "meant", "-o", "name")) {
		if name = strings.TrimSpace(name); name != "deployment.apps/web" {
			_, short, _ := strings.Cut(name, "/")
			refused("meant/"+short+" is in no manifest: Deployment meant/web owns it, which VidraResource meant manages: `vidra why deployment/web -n meant`",
				"why", name, "-n", "meant")
		}
	}
}

// TestAdoptAndOrphan adopts an object that was refused, and leaves it behind.
func TestAdoptAndOrphan(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "adopt")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "adopt", Name: "settings"}, Data: map[string]string{"greeting": "theirs"}}
	require.NoError(t, admin.Create(t.Context(), cm))
	vr := cluster.NewVidraResource(t, "adopt", settings)
	cluster.AwaitNotReady(t, "adopt", v1alpha1.ReasonAdoptionRefused)
	golden(t, "adopt", ok(t, "adopt", "adopt"))
	require.Equal(t, v1alpha1.AdoptIfIdentical, cluster.GetVidraResource(t, "adopt").Spec.Adopt)
	ok(t, "wait", "adopt")
	golden(t, "adopt-none", ok(t, "adopt", "adopt"))
	golden(t, "orphan-object", ok(t, "orphan", "cm/settings", "-n", "adopt"))
	require.Equal(t, "true", cluster.Get(t, cm).GetAnnotations()[v1alpha1.KeepAnnotation])
	golden(t, "orphan", ok(t, "orphan", "adopt"))
	require.NoError(t, admin.Delete(t.Context(), vr))
	cluster.AwaitGone(t, vr)
	require.True(t, cluster.Exists(t, cm))
}

// TestAdoptLeavesOtherWriters: `adopt` sets spec.adopt to its former value only where it is still the one that the command has set.
func TestAdoptLeavesOtherWriters(t *testing.T) {
	t.Parallel()
	const ns = "adopt-others"
	makeNamespace(t, ns)
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}, Data: map[string]string{"greeting": "theirs"}}))
	vr := cluster.NewVidraResource(t, ns, settings)
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused)
	require.NoError(t, cluster.MergePatch(vr, `{"spec":{"suspend":true}}`)) // the operator is not done before the end of the time
	suite.Await(t, func(c *assert.CollectT) {
		require.True(c, meta.IsStatusConditionTrue(cluster.GetVidraResource(c, ns).Status.Conditions, v1alpha1.ConditionSuspended))
	})
	var said strings.Builder
	adopt := exec.CommandContext(t.Context(), binary, "adopt", ns, "--timeout", "5s")
	adopt.Stderr, adopt.Env = &said, append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigPath, "HOME="+home())
	require.NoError(t, adopt.Start())
	suite.Await(t, func(c *assert.CollectT) {
		require.Equal(c, v1alpha1.AdoptAlways, cluster.GetVidraResource(c, ns).Spec.Adopt)
	})
	require.NoError(t, cluster.MergePatch(vr, `{"spec":{"adopt":"Never"}}`))
	require.ErrorAs(t, adopt.Wait(), new(*exec.ExitError))
	require.Contains(t, said.String(), "is still refused")
	require.NotContains(t, said.String(), "spec.adopt is still Always")
	require.Equal(t, v1alpha1.AdoptNever, cluster.GetVidraResource(t, ns).Spec.Adopt)
}
