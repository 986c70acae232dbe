package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// keptManifest has comments, and an order of its own.
const keptManifest = `# The shop
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  greeting: hello   # for visitors
  # of the page
  colour: "blue"
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 0 # none yet
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: web:1
        env: [{name: PASSWORD, value: swordfish}]
      - name: proxy
        image: proxy:1 # beside
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: hunter2}
`

// TestKeepEdit writes reverted edits into the manifest, in each place that it can have.
func TestKeepEdit(t *testing.T) {
	t.Parallel()
	vidraResource := func(ns string) string {
		return "# ours\napiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: " + ns + "}\nspec:\n  destination: {namespace: " + ns + "}\n  manifest: | # inside\n    " +
			strings.ReplaceAll(strings.TrimSpace(keptManifest), "\n", "\n    ") + "\n"
	}
	deployment := func(ns string) client.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	}
	settings := func(ns string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}}
	}
	tests := map[string]struct {
		reason string
		// edited is the object, patch a merge patch of it, and field the edited field in the history.
		edited               func(ns string) client.Object
		target, patch, field string
		// old and text are the part of the manifest that changes.
		old, text string
		// part has the manifest in a ConfigMap, file in a local file, and resource in a VidraResource in a local file.
		part, file, resource bool
	}{
		"inline":        {"spec.manifest", settings, "cm/settings", `{"data":{"greeting":"bye"}}`, "data.greeting", "greeting: hello   #", "greeting: bye   #", false, false, false},
		"quoted":        {"the quotes stay", settings, "cm/settings", `{"data":{"colour":"red: 1"}}`, "data.colour", `colour: "blue"`, `colour: "red: 1"`, false, false, false},
		"removed":       {"a removed field is removed", settings, "cm/settings", `{"data":{"colour":null}}`, "data.colour", "  # of the page\n  colour: \"blue\"\n", "", false, false, false},
		"number":        {"in another document", deployment, "deployment/web", `{"spec":{"replicas":2}}`, "spec.replicas", "replicas: 0 #", "replicas: 2 #", false, false, false},
		"item":          {"an item of a list, by its key", deployment, "deployment/web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:1","env":[{"name":"PASSWORD","value":"swordfish"}]},{"name":"proxy","image":"proxy:2"}]}}}}`, `spec.template.spec.containers[name="proxy"].image`, "image: proxy:1 #", "image: proxy:2 #", false, false, false},
		"part":          {"a ConfigMap", settings, "cm/settings", `{"data":{"greeting":"bye"}}`, "data.greeting", "greeting: hello   #", "greeting: bye   #", true, false, false},
		"file":          {"a local file", settings, "cm/settings", `{"data":{"greeting":"bye"}}`, "data.greeting", "greeting: hello   #", "greeting: bye   #", false, true, false},
		"VidraResource": {"a VidraResource in a file", settings, "cm/settings", `{"data":{"greeting":"bye"}}`, "data.greeting", "greeting: hello   #", "greeting: bye   #", false, true, true},
	}
	for name, tt := range tests {
		ns := "keep-" + strings.ToLower(name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			makeNamespace(t, ns)
			args, path := []string{"keep", tt.target, "-n", ns}, ""
			if tt.file {
				path = writeFile(t, keptManifest)
				if tt.resource {
					path = writeFile(t, vidraResource(ns))
				}
				args = append(args, "-f", path)
			}
			part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"all.yaml": keptManifest}}
			if tt.part {
				require.NoError(t, admin.Create(t.Context(), part))
				cluster.NewVidraResource(t, ns, "", func(v *v1alpha1.VidraResource) {
					v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Key: "all.yaml"}}
				})
			} else {
				cluster.NewVidraResource(t, ns, keptManifest)
			}
			cluster.AwaitReady(t, ns)
			text := func() string {
				switch {
				case tt.file:
					written, err := os.ReadFile(path)
					require.NoError(t, err)
					return string(written)
				case tt.part:
					require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(part), part))
					return part.Data["all.yaml"]
				}
				return cluster.GetVidraResource(t, ns).Spec.Manifest
			}
			before := text()
			require.NoError(t, cluster.Edit(tt.edited(ns), types.StrategicMergePatchType, tt.patch, client.FieldOwner("kubectl-edit")))
			suite.Await(t, func(c *assert.CollectT) {
				history := cluster.GetVidraResource(c, ns).Status.History
				require.NotEmpty(c, history)
				require.Contains(c, history[0].Fields, tt.field)
			})
			shown := vidra(t, args...)
			require.Equal(t, 1, shown.code, shown.stderr)
			require.Contains(t, shown.stdout, tt.field)
			require.NotContains(t, shown.stdout, "hunter2")
			require.NotContains(t, shown.stdout, "swordfish", "it is on a line near the change")
			if name == "inline" {
				golden(t, "keep", shown.stdout+shown.stderr)
			}
			require.Equal(t, before, text(), "nothing is written without --yes")
			kept := vidra(t, append(args, "--yes")...)
			require.Equal(t, 0, kept.code, kept.stderr)
			want := strings.Replace(before, tt.old, tt.text, 1)
			require.NotEqual(t, want, before)
			if name != "removed" { // its document is written again
				require.Equal(t, want, text(), tt.reason)
			}
			if tt.file {
				return
			}
			require.Contains(t, text(), "# for visitors")
			vr := cluster.AwaitReady(t, ns)
			again := vidra(t, args...)
			require.Equal(t, 0, again.code, again.stderr)
			require.Contains(t, again.stdout, "the manifest has these values")
			suite.Await(t, func(c *assert.CollectT) { // VidraResource may be Ready with the former part
				require.Equal(c, 0, vidra(c, "diff", vr.Name).code)
			})
		})
	}
}

// TestKeepEditRefuses: an edit that cannot be kept is an error with the next step, without a value that is not shown.
func TestKeepEditRefuses(t *testing.T) {
	t.Parallel()
	const ns = "keep-refuses"
	makeNamespace(t, ns)
	cluster.NewVidraResource(t, ns, suite.Manifests(keptManifest, suite.Greeting("page", "hello"), suite.Greeting("calm", "hello"), suite.Greeting("long", "hello")))
	cluster.AwaitReady(t, ns)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	require.NoError(t, cluster.MergePatch(&corev1.Secret{ObjectMeta: meta("login")}, `{"stringData":{"password":"hunter3"}}`))
	require.NoError(t, cluster.Edit(&appsv1.Deployment{ObjectMeta: meta("web")}, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"PASSWORD","value":"hunter4"}]}]}}}}`))
	require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: meta("page")}))
	require.NoError(t, cluster.MergePatch(&corev1.ConfigMap{ObjectMeta: meta("long")}, `{"data":{"greeting":%q}}`, strings.Repeat("long ", 200)))
	for target, want := range map[string]string{
		"secret/login":   "has values that are not shown, and so are not recorded: change its manifest",
		"deployment/web": "is not recorded, because it is long or withheld: change line",
		"cm/page":        "the last edit deleted ConfigMap keep-refuses/page: remove it from the manifest to keep that",
		"cm/long":        "the value of data.greeting is not recorded, because it is long or withheld: change line",
		"cm/calm":        "no edit of ConfigMap keep-refuses/calm is known",
		"cm/nothing":     "does not exist",
	} {
		suite.Await(t, func(c *assert.CollectT) {
			a := vidra(c, "keep", target, "-n", ns, "--yes")
			require.Equal(c, 2, a.code)
			require.Contains(c, a.stderr, want)
			require.NotContains(c, a.stdout+a.stderr, "hunter")
		}, target)
	}
	for _, e := range cluster.GetVidraResource(t, ns).Status.History {
		require.NotContains(t, strings.Join(e.Values, ""), "hunter")
	}
}
