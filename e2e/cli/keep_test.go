package cli

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDiffOfEditsThatStay: diff and forecast decide about edits as the operator does, with its settings: an edit that is not reverted is no
// difference, unless the manifest changes.
func TestDiffOfEditsThatStay(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "stays")
	cluster.NewVidraResource(t, "stays", settings)
	vr := cluster.AwaitReady(t, "stays")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stays", Name: "settings"}}
	added := client.RawPatch(types.MergePatchType, []byte(`{"data":{"extra":"more"}}`))
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), added, client.FieldOwner("kubectl-edit")))

	// The settings of the operator: an addition stays by default.
	require.Equal(t, 0, vidra(t, "diff", "stays").code)
	config := writeFile(t, "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\ndriftAdditions: Revert\npeopleTools: [kubectl-edit]\n")
	a := vidra(t, "diff", "stays", "--operator-config", config)
	require.Equal(t, 1, a.code, a.stderr)
	require.Contains(t, a.stdout, `removes data.extra, which "kubectl-edit" added`)

	// Break-glass.
	ok(t, "skip", "configmap/settings", "-n", "stays", "--for", "1h", "--reason", "test")
	edit := client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"bye"}}`))
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), edit, client.FieldOwner("kubectl-edit")))
	a = vidra(t, "diff", "stays")
	require.Equal(t, 0, a.code, a.stdout)
	require.Contains(t, a.stdout, "= keep ConfigMap stays/settings")
	require.Contains(t, a.stdout, "it is not reverted: its annotations exempt it until")
	config = writeFile(t, "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\nmaxBreakGlass: 0s\n")
	require.Equal(t, 1, vidra(t, "diff", "stays", "--operator-config", config).code, "this operator accepts no break-glass")

	// The mode, before the edit would be reverted, and a changed manifest, which nothing holds back.
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: vr.Name}}, `{"spec":{"drift":{"mode":"Warn"}}}`))
	suite.Await(t, func(c *assert.CollectT) {
		latest := &v1alpha1.VidraResource{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(vr), latest))
		require.Equal(c, latest.Generation, latest.Status.ObservedGeneration)
	})
	ok(t, "skip", "configmap/settings", "-n", "stays", "--end")
	a = vidra(t, "diff", "stays")
	require.Equal(t, 0, a.code, a.stdout)
	require.Contains(t, a.stdout, "it is not reverted: spec.drift.mode is Warn")
	require.Contains(t, vidra(t, "diff", "stays", "-o", "json").stdout, `"stays": true`)
	require.Equal(t, 1, vidra(t, "diff", "stays", "-f", writeFile(t, settings+"  other: new\n")).code, "the manifest changes")
	require.Contains(t, vidra(t, "diff", "stays", "--operator-config", "/nonexistent").stderr, "--operator-config: ")
}

// TestDiffOfDeletedObjects: an edit of an object whose deletion has begun is not reverted, and the object is created again when it is gone.
func TestDiffOfDeletedObjects(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "ending")
	cluster.NewVidraResource(t, "ending", settings)
	cluster.AwaitReady(t, "ending")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "settings"}}
	require.NoError(t, cluster.MergePatch(cm.DeepCopy(), `{"metadata":{"finalizers":["example.com/backup"]}}`))
	end := func() error { return cluster.MergePatch(cm.DeepCopy(), `{"metadata":{"finalizers":null}}`) }
	t.Cleanup(func() { _ = end() }) // after a failure
	require.NoError(t, admin.Delete(t.Context(), cm.DeepCopy()))
	require.NoError(t, cluster.MergePatch(cm.DeepCopy(), `{"data":{"greeting":"bye"}}`))

	a := vidra(t, "diff", "ending")
	require.Equal(t, 1, a.code, a.stdout+a.stderr)
	require.Contains(t, a.stdout, "its deletion has begun, and waits for its finalizers (example.com/backup): it is created again when it is gone")
	live := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(cm), live))
	require.Equal(t, "bye", live.Data["greeting"], "the operator reverts nothing of it")

	require.NoError(t, end())
	suite.Await(t, func(c *assert.CollectT) {
		again := &corev1.ConfigMap{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(cm), again))
		require.NotEqual(c, live.UID, again.UID)
	})
	require.Equal(t, 0, vidra(t, "diff", "ending").code)
}

// TestDiffOfRemovals: diff decides about an object that leaves the manifest as the operator does, which then does what diff has shown.
func TestDiffOfRemovals(t *testing.T) {
	t.Parallel()
	const lease = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-node-lease}\n"
	makeNamespace(t, "leaves")
	page := suite.Greeting("page", "hello")
	whole := suite.Manifests(page, suite.Greeting("exempt", "hello"), suite.Greeting("forged", "hello"), lease)
	always := func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways }
	cluster.NewVidraResource(t, "leaves", whole, always)
	cluster.AwaitReady(t, "leaves")
	of := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "leaves", Name: name}}
	}
	ok(t, "skip", "configmap/exempt", "-n", "leaves", "--for", "1h", "--reason", "test")
	applyAs(t, "vidra/ghost", of("forged"), `{"data":{"extra":"more"}}`)

	diff := vidra(t, "diff", "leaves", "-f", writeFile(t, page))
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "- delete ConfigMap leaves/exempt\n    it is no longer in the manifest. This waits for the end of its break-glass: its annotations exempt it until ")
	require.Contains(t, diff.stdout, "- delete ConfigMap leaves/forged\n    it is no longer in the manifest\n", "no VidraResource ghost keeps it")
	require.Contains(t, diff.stdout, "- release Namespace kube-node-lease\n    it is no longer in the manifest, and the API server never deletes it: it stays, unmanaged\n")

	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "leaves"}}, `{"spec":{"manifest":%q}}`, page))
	cluster.AwaitGone(t, of("forged"))
	awaitText(t, "is to be removed, and is not before its break-glass ends", "status", "leaves")
	require.True(t, cluster.Exists(t, of("exempt")))
	suite.Await(t, func(c *assert.CollectT) {
		namespace := &corev1.Namespace{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKey{Name: "kube-node-lease"}, namespace))
		require.NotContains(c, namespace.Labels, v1alpha1.ManagedByLabel)
	})
	ok(t, "skip", "configmap/exempt", "-n", "leaves", "--end")
}

// TestDiffOfOwners: diff refuses fields of other VidraResources by the rule of the operator: a field manager that only has the name of
// one proves nothing.
func TestDiffOfOwners(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "taken")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "taken", Name: "page"}}
	require.NoError(t, admin.Create(t.Context(), cm.DeepCopy()))
	applyAs(t, "vidra/ghost", cm, `{"data":{"greeting":"theirs"}}`)
	file := func(adopt string) string {
		return writeFile(t, documentOf("taken", "taken", suite.Greeting("page", "ours"), "adopt: "+adopt))
	}
	identical := vidra(t, "diff", "-f", file("IfIdentical"))
	require.Equal(t, 2, identical.code, identical.stdout)
	require.Contains(t, identical.stdout, "it exists and Vidra does not manage it")
	always := vidra(t, "diff", "-f", file("Always"))
	require.Equal(t, 1, always.code, always.stdout)
	require.Contains(t, always.stdout, "~ adopt ConfigMap taken/page")

	cluster.NewVidraResource(t, "taken", suite.Greeting("page", "ours"))
	cluster.AwaitNotReady(t, "taken", v1alpha1.ReasonAdoptionRefused)
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}, `{"spec":{"adopt":"Always"}}`))
	cluster.AwaitReady(t, "taken")
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "ours", greetingOf(c, cm)) })
}

// TestDiffOfReplacements: with spec.force, diff decides as the operator does whether an object is deleted and created again.
func TestDiffOfReplacements(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "forced")
	manifest := func(value string) string {
		return suite.Manifests("immutable: true\n"+suite.Greeting("kept", value), "immutable: true\n"+suite.Greeting("plain", value))
	}
	cluster.NewVidraResource(t, "forced", manifest("hello"), func(v *v1alpha1.VidraResource) { v.Spec.Force = true })
	cluster.AwaitReady(t, "forced")
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "forced", Name: "kept"}}
	require.NoError(t, cluster.MergePatch(kept, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))

	diff := vidra(t, "diff", "forced", "-f", writeFile(t, manifest("bye")))
	require.Equal(t, 2, diff.code, diff.stdout)
	const blocked = "It is not deleted and created again: it has the annotation " + v1alpha1.KeepAnnotation
	require.Regexp(t, `(?m)^x refuse ConfigMap forced/kept .*\n    .*`+regexp.QuoteMeta(blocked), diff.stdout)
	require.Regexp(t, `(?m)^! replace ConfigMap forced/plain .*\n    spec.force: deleted and created again, because of `, diff.stdout)

	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "forced"}}, `{"spec":{"manifest":%q}}`, manifest("bye")))
	awaitText(t, blocked, "status", "forced")
	suite.Await(t, func(c *assert.CollectT) {
		require.Equal(c, "bye", greetingOf(c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "forced", Name: "plain"}}))
	})
}

// TestDiffOfLimits: diff refuses a VidraResource to which the operator applies nothing: one that is too large, and those that the settings
// of the operator exclude.
func TestDiffOfLimits(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "limits")
	var large []string
	for _, name := range []string{"a", "b", "c"} {
		large = append(large, suite.Greeting(name, strings.Repeat("x", 450_000)))
	}
	const tooLarge = "bytes with the status of its 3 objects, and the limit is 1400000"
	diff := vidra(t, "diff", "-n", "limits", "-f", writeFile(t, suite.Manifests(large...)))
	require.Equal(t, 2, diff.code, diff.stdout)
	require.Contains(t, diff.stderr, tooLarge)
	cluster.NewVidraResource(t, "limits-large", suite.Manifests(large...), func(v *v1alpha1.VidraResource) { v.Spec.Destination.Namespace = "limits" })
	awaitText(t, tooLarge, "status", "limits-large")

	cluster.NewVidraResource(t, "limits", suite.Greeting("page", "hello"))
	cluster.AwaitReady(t, "limits")
	const config = "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\n"
	for name, tt := range map[string]struct{ setting, refused string }{
		"account":    {"requireServiceAccount: true\n", "applies and deletes objects only as a ServiceAccount"},
		"namespaces": {"namespaces: [other]\n", "does nothing in the namespace limits"},
	} {
		for _, question := range []string{"diff", "forecast"} {
			a := vidra(t, question, "limits", "--operator-config", writeFile(t, config+tt.setting))
			require.Equal(t, 2, a.code, "%s: %s", name, a.stdout)
			require.Contains(t, a.stdout+a.stderr, tt.refused)
		}
	}
	require.Equal(t, 2, vidra(t, "diff", "limits", "--operator-config", writeFile(t, config+"driftAdditions: Always\n")).code)
}

// TestForecastOfSettings: forecast decides by the tools of users and the break-glass that the operator has.
func TestForecastOfSettings(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "tools")
	cluster.NewVidraResource(t, "tools", suite.Greeting("page", "hello"))
	cluster.AwaitReady(t, "tools")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: "page"}}
	ok(t, "skip", "configmap/page", "-n", "tools", "--for", "1h", "--reason", "test")
	edit := client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"bye"}}`))
	require.NoError(t, admin.Patch(t.Context(), cm, edit, client.FieldOwner("greeter")))
	fights := vidra(t, "forecast", "tools")
	require.Equal(t, 1, fights.code, fights.stderr)
	require.Contains(t, fights.stdout, `field manager "greeter" writes data.greeting: this will fight when its break-glass ends, at `)
	config := writeFile(t, "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\npeopleTools: [greeter]\n")
	require.Contains(t, ok(t, "forecast", "tools", "--operator-config", config), "VidraResource tools: 0 fields will fight, 1 taken once\n")
	ok(t, "skip", "configmap/page", "-n", "tools", "--end")
}

// TestSimilarNames: diff and forecast propose the VidraResource that a mistyped name may mean.
func TestSimilarNames(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "similar-names")
	cluster.NewVidraResource(t, "similar-names", suite.Greeting("page", "hello"))
	for _, args := range [][]string{{"diff", "similar-name"}, {"forecast", "similar-name"}, {"diff", "similar-name", "-f", writeFile(t, suite.Greeting("page", "hello"))}} {
		a := vidra(t, args...)
		require.Equal(t, 2, a.code, a.stdout)
		require.Contains(t, a.stderr, "VidraResource similar-name does not exist; `vidra get` lists those that do; did you mean similar-names?")
	}
}

// applyAs applies fields of an object under the name of a field manager.
func applyAs(t *testing.T, manager string, cm *corev1.ConfigMap, fields string) {
	t.Helper()
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + cm.Name + `","namespace":"` + cm.Namespace + `"},` + strings.TrimPrefix(fields, "{")
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner(manager), client.ForceOwnership))
}
