package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSwitches has each command that writes do so, and the operator do as asked.
func TestSwitches(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "switches")
	cluster.NewVidraResource(t, "switches", settings, func(v *v1alpha1.VidraResource) {
		v.Spec.Destination.ReconcileOnEvents = ptr.To(false) // so that nothing but a request reverts an edit
	})
	golden(t, "wait", ok(t, "wait", "switches", "--for", "healthy"))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "switches", Name: "settings"}}
	greeting := func(t require.TestingT) string {
		live := cm.DeepCopy()
		require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(cm), live))
		return live.Data["greeting"]
	}

	// reconcile
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye"}}`))
	golden(t, "reconcile-wait", ok(t, "reconcile", "switches", "--wait"))
	require.Equal(t, "hello", greeting(t))
	require.NotEmpty(t, cluster.GetVidraResource(t, "switches").Status.LastHandledReconcileAt)

	// suspend, resume
	golden(t, "suspend", ok(t, "suspend", "switches"))
	golden(t, "suspend-again", ok(t, "suspend", "switches"))
	cluster.AwaitCondition(t, "switches", metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye"}}`))
	golden(t, "reconcile", ok(t, "reconcile", "switches"))
	awaitText(t, "1 Drifted", "status", "switches")
	status := vidra(t, "status", "switches")
	require.Equal(t, 1, status.code, "it is not in order")
	golden(t, "status-suspended", status.stdout)
	diff := vidra(t, "diff", "switches")
	require.Equal(t, 1, diff.code, diff.stderr)
	golden(t, "diff-suspended", diff.stdout)
	require.Equal(t, "bye", greeting(t), "a dry run writes nothing")
	late := vidra(t, "wait", "switches", "--timeout", "1s")
	require.Equal(t, 1, late.code)
	golden(t, "wait-late", late.stderr)
	require.Equal(t, "VidraResource switches is settled\n", ok(t, "wait", "switches", "--for", "settled"))
	golden(t, "resume", ok(t, "resume", "switches"))
	ok(t, "reconcile", "switches", "--wait")
	require.Equal(t, "hello", greeting(t))
	golden(t, "status", ok(t, "status", "switches"))
	require.Equal(t, "Dry run: nothing was written.\nVidraResource switches: 1 object is unchanged\n", ok(t, "diff", "switches"))

	// spec.reconciledAt, which requests a reconcile if it is later than the annotation
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye"}}`))
	at := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
	require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, "switches"), `{"spec":{"reconciledAt":%q}}`, at))
	suite.Await(t, func(c *assert.CollectT) {
		require.Equal(c, at, cluster.GetVidraResource(c, "switches").Status.LastHandledReconcileAt)
	})
	require.Equal(t, "hello", greeting(t))

	// a request of the command is later than that one, although the time is not
	require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, "switches"), `{"spec":{"reconciledAt":"2222-01-01T00:00:00Z"}}`))
	for _, handled := range []string{"2222-01-01T00:00:00.000000001Z", "2222-01-01T00:00:00.000000002Z"} {
		ok(t, "reconcile", "switches", "--wait")
		require.Equal(t, handled, cluster.GetVidraResource(t, "switches").Status.LastHandledReconcileAt)
	}
}

// TestSkip asks for an exemption, which ends.
func TestSkip(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "skip")
	cluster.NewVidraResource(t, "skip", settings, func(v *v1alpha1.VidraResource) {
		v.Spec.Drift = &v1alpha1.DriftPolicy{MaxBreakGlass: &metav1.Duration{Duration: 7200e9}}
	})
	cluster.AwaitReady(t, "skip")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "skip", Name: "settings"}}
	golden(t, "skip", ok(t, "skip", "cm/settings", "-n", "skip", "--for", "1h", "--reason", "INC-42"))
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"bye"}}`))
	awaitText(t, "break-glass Accepted until", "why", "cm/settings", "-n", "skip")
	awaitText(t, "DriftDetected", "why", "cm/settings", "-n", "skip", "-o", "json")
	golden(t, "skip-end", ok(t, "skip", "cm/settings", "-n", "skip", "--end"))
	suite.Await(t, func(c *assert.CollectT) {
		live := cm.DeepCopy()
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(cm), live))
		require.Equal(c, "hello", live.Data["greeting"])
	})
	for name, args := range map[string][]string{
		"--reason is missing":             {"skip", "cm/settings", "-n", "skip", "--for", "1h"},
		"want a duration above 0":         {"skip", "cm/settings", "-n", "skip", "--for", "-1h", "--reason", "x"},
		"is not managed by Vidra":         {"skip", "cm/kube-root-ca.crt", "-n", "skip", "--for", "1h", "--reason", "x"},
		"say for how long with --for":     {"skip", "cm/settings", "-n", "skip"},
		"want KIND/NAME or KIND.GROUP":    {"skip", "settings", "--end"},
		`the cluster serves no kind "cn"`: {"skip", "cn/settings", "--end"},
	} {
		refused := vidra(t, args...)
		require.Equal(t, 1, refused.code, args)
		require.Contains(t, refused.stderr, name)
	}
}

// changed is a manifest of which an apply does each thing that it can do.
const changed = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: green
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: new
data:
  greeting: hello
---
apiVersion: v1
kind: Secret
metadata:
  name: login
stringData:
  password: hunter2
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: foreign
data:
  greeting: ours
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: immutable
immutable: true
data:
  greeting: hi
---
apiVersion: example.com/v1
kind: Unknown
metadata:
  name: unknown
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: taken
data:
  greeting: mine
`

const before = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: blue
  greeting: hello
---
apiVersion: v1
kind: Secret
metadata:
  name: login
stringData:
  password: swordfish
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: old
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: kept
  annotations:
    vidraresource.infrahub.operators.com/keep: "true"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: immutable
immutable: true
data:
  greeting: hello
`

// TestDiff compares a changed manifest, in which each object is treated in another way.
func TestDiff(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "diff")
	cluster.NewVidraResource(t, "diff", before)
	cluster.AwaitReady(t, "diff")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "diff", Name: "foreign"}, Data: map[string]string{"greeting": "theirs"},
	}))
	makeNamespace(t, "diff-other")
	cluster.NewVidraResource(t, "diff-other", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: taken\n  namespace: diff\ndata:\n  greeting: theirs\n")
	cluster.AwaitReady(t, "diff-other")
	versions := func() map[string]string {
		all := &corev1.ConfigMapList{}
		require.NoError(t, admin.List(t.Context(), all, client.InNamespace("diff")))
		found := map[string]string{}
		for _, cm := range all.Items {
			found[cm.Name] = cm.ResourceVersion
		}
		return found
	}
	versionsBefore := versions()

	manifest := writeFile(t, changed)
	diff := vidra(t, "diff", "diff", "-f", manifest)
	require.Equal(t, 2, diff.code, diff.stderr)
	golden(t, "diff", diff.stdout)
	golden(t, "diff-markdown", vidra(t, "diff", "diff", "-f", manifest, "-o", "markdown").stdout)
	for _, output := range []string{"json", "yaml", "name"} {
		printed := vidra(t, "diff", "diff", "-f", manifest, "-o", output)
		require.NotContains(t, printed.stdout, "swordfish")
		require.NotContains(t, printed.stdout, "hunter2")
		require.Contains(t, printed.stdout, "create")
	}
	require.NotContains(t, diff.stdout+diff.stderr, "hunter2")

	vr := writeFile(t, "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata:\n  name: other\nspec:\n  destination:\n    namespace: diff\n  manifest: |\n"+
		"    apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: another\n")
	diff = vidra(t, "diff", "-f", vr)
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "+ create ConfigMap diff/another")
	bad := writeFile(t, "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata:\n  name: other\nspec:\n  interval: 1s\n")
	diff = vidra(t, "diff", "-f", bad)
	require.Equal(t, 2, diff.code)
	require.Contains(t, diff.stderr, "interval must be at least 10s")
	plain := vidra(t, "diff", "-n", "diff", "-f", writeFile(t, suite.Greeting("fresh", "hello")))
	require.Equal(t, 1, plain.code, plain.stderr)
	require.Contains(t, plain.stdout, "+ create ConfigMap diff/fresh")
	require.Contains(t, plain.stderr, "compared as the manifest of a new one")
	require.Equal(t, 2, vidra(t, "diff", "missing").code)
	require.Equal(t, "Dry run: nothing was written.\nVidraResource diff: 5 objects are unchanged\n", ok(t, "diff", "diff"))
	require.Equal(t, versionsBefore, versions(), "nothing is written")
}

// volumes is a Deployment whose structure is edited.
const volumes = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
      volumes:
      - name: cache
        emptyDir: {}
`

// TestDiffOfEdits compares edits that are not reverted yet: an apply undoes them whole, where a bare apply
// would keep what they added, or be invalid.
func TestDiffOfEdits(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "edits")
	cluster.NewVidraResource(t, "edits", volumes)
	cluster.AwaitReady(t, "edits")
	ok(t, "suspend", "edits")
	cluster.AwaitCondition(t, "edits", metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "edits", Name: "web"}}
	require.NoError(t, cluster.JSONPatch(deployment, `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"renamed"}]`))
	diff := vidra(t, "diff", "edits")
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, `removes spec.template.spec.containers[name="renamed"], which "person" added`)
	require.NoError(t, cluster.JSONPatch(deployment, `[{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":"cache","hostPath":{"path":"/tmp"}}}]`))
	diff = vidra(t, "diff", "edits")
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "an edit is in the way, which is removed first: ")
	require.Contains(t, diff.stdout, `removes spec.template.spec.volumes[name="cache"].hostPath, which "person" added`)
	ok(t, "resume", "edits")
	ok(t, "wait", "edits")
	require.Equal(t, "Dry run: nothing was written.\nVidraResource edits: 1 object is unchanged\n", ok(t, "diff", "edits"))

	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	require.NoError(t, admin.SubResource("scale").Patch(t.Context(), deployment.DeepCopy(), scale, client.FieldOwner("kubectl")))
	require.Contains(t, ok(t, "why", "deployment/web", "-n", "edits"), "spec.replicas is 3, and the API server has not recorded who set it")
}

// writeFile writes a file for a test.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	return writeIn(t, t.TempDir())("manifest.yaml", text)
}

// writeIn returns the function that writes a file below a folder, and returns its path.
func writeIn(t *testing.T, folder string) func(name, text string) (path string) {
	return func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
}
