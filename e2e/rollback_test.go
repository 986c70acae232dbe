package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// applyRevisions applies manifests one after the other, and waits until each is a revision.
func applyRevisions(t *testing.T, name string, texts ...string) {
	t.Helper()
	for i, text := range texts {
		if i > 0 || getVidraResource(t, name).Spec.Manifest != text {
			setManifest(t, name, text)
		}
		awaitReady(t, name)
		awaitAppliedRevision(t, name, int64(i+1))
	}
}

// revisionOf returns status.revision.
func revisionOf(t require.TestingT, name string) v1alpha1.RevisionStatus {
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(vr), vr))
	if vr.Status.Revision == nil {
		return v1alpha1.RevisionStatus{}
	}
	return *vr.Status.Revision
}

func awaitAppliedRevision(t *testing.T, name string, number int64) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.Equal(c, number, revisionOf(c, name).Applied) })
}

// contentsOf returns the Secrets with the revisions of a VidraResource.
func contentsOf(t require.TestingT, name string) []corev1.Secret {
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(vr), vr))
	var all corev1.SecretList
	require.NoError(t, admin.List(context.Background(), &all, client.MatchingLabels{"vidraresource.infrahub.operators.com/manifest-of": string(vr.UID)}))
	return all.Items
}

func rollback(t *testing.T, name string, to int64) {
	t.Helper()
	changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) { spec.Revision = &v1alpha1.RevisionPolicy{Hold: true, To: to} })
}

// TestRollback: an earlier revision is applied and held, with all guards of removals, also after a restart, and the manifest of the spec
// after a release. It is not parallel: it stops the operator.
func TestRollback(t *testing.T) {
	ns := newNamespace(t)
	kept := strings.Replace(configMap("kept", "three"), "metadata:\n", "metadata:\n  annotations: {vidraresource.infrahub.operators.com/keep: \"true\"}\n", 1)
	require.Contains(t, kept, "/keep")
	one, two := manifests(configMap("page", "one"), configMap("old", "one")), manifests(configMap("page", "two"), configMap("new", "two"), kept)
	newVidraResource(t, ns, one)
	applyRevisions(t, ns, one, two)
	awaitGone(t, pageOf(t, ns, "old"))
	vidra := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "diff"}
	command := func(name string) commandLine { c := vidra; c.name = name; return c }

	out, said, code := command("rollback").run(t, ns)
	require.Equal(t, 0, code, said)
	require.Contains(t, out, "rolled back to revision 1, which is held: `vidra rollback "+ns+" --release`")
	awaitAppliedRevision(t, ns, 1)
	awaitReady(t, ns)
	awaitGone(t, pageOf(t, ns, "new"))
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "page")))
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "old")))
	require.Equal(t, "three", greeting(t, pageOf(t, ns, "kept")), "the annotation keep is heeded")
	requireRevertedTo(t, ns, "page", "one")

	out, said, code = command("revisions").run(t, ns, "-o", "json")
	require.Equal(t, 0, code, said)
	var listed struct {
		Applied, To int64
		Held        bool
		HeldBy      string
		Kept        []v1alpha1.AppliedRevision
	}
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Equal(t, int64(1), listed.Applied)
	require.Equal(t, int64(1), listed.To)
	require.True(t, listed.Held)
	require.Equal(t, "kubectl-vidra", listed.HeldBy)
	require.Len(t, listed.Kept, 2)
	require.Equal(t, int64(2), listed.Kept[0].Number)
	out, said, code = command("revisions").run(t, ns)
	require.Equal(t, 0, code, said)
	require.Contains(t, out, "Held: revision 1 is applied instead of the manifest")
	out, _, code = command("diff").run(t, ns)
	require.Equal(t, 1, code)
	require.Contains(t, out, "+  greeting: two")

	setManifest(t, ns, configMap("page", "three")) // it waits
	reconcileNow(t, ns)
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "page")))
	killOperator(t)
	require.NoError(t, mergePatch(pageOf(t, ns, "page"), `{"data":{"greeting":"mine"}}`))
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "page"))) })
	awaitAppliedRevision(t, ns, 1)

	out, said, code = command("rollback").run(t, ns, "--release")
	require.Equal(t, 0, code, said)
	require.Contains(t, out, "released")
	awaitAppliedRevision(t, ns, 3)
	awaitReady(t, ns)
	require.Equal(t, "three", greeting(t, pageOf(t, ns, "page")))
	awaitGone(t, pageOf(t, ns, "old"))
	require.NotNil(t, get(t, pageOf(t, ns, "kept")))
	_, said, code = command("rollback").run(t, ns, "--to", "9")
	require.Equal(t, 1, code)
	require.Contains(t, said, "revision 9 of VidraResource "+ns+" is not kept: kept are 3, 2, 1, and applied is 3. Choose one with --to")
}

// TestRollbackThatIsRefused: a revision that is unknown, gone, changed, or of another VidraResource changes nothing, and edits are reverted
// to the applied one.
func TestRollbackThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, ns string)
		to    int64
		want  string
	}{
		"unknown": {func(*testing.T, string) {}, 7, "revision 7 cannot be applied, and nothing changes: it is not kept"},
		"gone": {func(t *testing.T, ns string) {
			for _, s := range contentsOf(t, ns) {
				require.NoError(t, admin.Delete(t.Context(), &s))
			}
		}, 1, "its content is gone, or differs from its digest"},
		"forged content": {func(t *testing.T, ns string) {
			for _, s := range contentsOf(t, ns) {
				other := contentsOf(t, ns+"-other")[0]
				forged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, Labels: s.Labels, Annotations: s.Annotations}, Data: other.Data}
				require.NoError(t, admin.Delete(t.Context(), &s))
				require.NoError(t, admin.Create(t.Context(), forged))
			}
		}, 1, "its content is gone, or differs from its digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, configMap("other", "other"), named(ns+"-other"))
			awaitAppliedRevision(t, ns+"-other", 1)
			one, two := manifests(configMap("page", "one"), configMap("old", "one")), manifests(configMap("page", "two"), configMap("new", "two"))
			newVidraResource(t, ns, one)
			applyRevisions(t, ns, one, two)
			awaitGone(t, pageOf(t, ns, "old"))
			tt.spoil(t, ns)
			rollback(t, ns, tt.to)
			awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld, tt.want)
			requireRevertedTo(t, ns, "page", "two")
			requireRevertedTo(t, ns, "new", "two")
			requireAbsent(t, pageOf(t, ns, "old"))
			reconcileNow(t, ns)
			awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld, tt.want)
			require.Equal(t, int64(2), revisionOf(t, ns).Applied)
			hold(t, ns, false)
			awaitReady(t, ns)
			require.Equal(t, "two", greeting(t, pageOf(t, ns, "page")))
		})
	}
}

// TestForgedRevisionInTheStatus: an entry of status.revision that another client wrote while no operator ran, with the digest of a
// manifest of another VidraResource, is not applied. It is not parallel: it stops the operator.
func TestForgedRevisionInTheStatus(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "one"))
	newVidraResource(t, ns, configMap("secret", "theirs"), named(ns+"-other"))
	awaitAppliedRevision(t, ns, 1)
	awaitAppliedRevision(t, ns+"-other", 1)
	killOperator(t)
	vr, other := getVidraResource(t, ns), revisionOf(t, ns+"-other")
	vr.Status.Revision.Kept = append([]v1alpha1.AppliedRevision{{Number: 9, Digest: other.Kept[0].Digest, Source: "generation 9", Time: metav1.Now()}}, vr.Status.Revision.Kept...)
	require.NoError(t, admin.Status().Update(t.Context(), vr))
	rollback(t, ns, 9)
	startOperator(t)
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld, "revision 9 cannot be applied")
	requireRevertedTo(t, ns, "page", "one")
	requireRevertedTo(t, ns, "secret", "theirs")
}

// TestRevisionHistoryLimit: the applied revision and the last former ones are kept with their contents, and no others.
func TestRevisionHistoryLimit(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	limit := func(n int32) {
		changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.RevisionHistoryLimit = &n })
	}
	newVidraResource(t, ns, configMap("page", "v1"))
	applyRevisions(t, ns, configMap("page", "v1"), configMap("page", "v2"), configMap("page", "v3"), configMap("page", "v4"))
	requireKept := func(numbers ...int64) {
		t.Helper()
		await(t, func(c *assert.CollectT) {
			kept := []int64{}
			for _, k := range revisionOf(c, ns).Kept {
				kept = append(kept, k.Number)
			}
			require.Equal(c, append([]int64{}, numbers...), kept)
			require.Len(c, contentsOf(c, ns), len(numbers))
		})
	}
	requireKept(4, 3, 2, 1)
	limit(1)
	requireKept(4, 3)
	rollback(t, ns, 3)
	awaitAppliedRevision(t, ns, 3)
	requireKept(4, 3)
	hold(t, ns, false)
	awaitAppliedRevision(t, ns, 4)
	setManifest(t, ns, configMap("page", "v5"))
	requireKept(5, 4)
	setManifest(t, ns, configMap("page", "v4")) // the content of revision 4
	awaitAppliedRevision(t, ns, 4)
	requireKept(5, 4)
	limit(0)
	requireKept()
	setManifest(t, ns, configMap("page", "v6"))
	await(t, func(c *assert.CollectT) { require.Equal(c, "v6", greeting(c, pageOf(t, ns, "page"))) })
	requireKept()
	for _, refused := range []string{`{"spec":{"revisionHistoryLimit":21}}`, `{"spec":{"revisionHistoryLimit":-1}}`, `{"spec":{"revision":{"to":1}}}`, `{"spec":{"revision":{"hold":true,"to":0}}}`} {
		require.Error(t, mergePatch(getVidraResource(t, ns), refused), refused)
	}
}

// TestRollbackOfAMovedObject: an object that moved to another VidraResource since stays there.
func TestRollbackOfAMovedObject(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	newVidraResource(t, ns, manifests(configMap("page", "one"), configMap("a", "one")), named(one))
	newVidraResource(t, ns, configMap("b", "two"), named(two))
	awaitAppliedRevision(t, one, 1)
	awaitAppliedRevision(t, two, 1)
	page := get(t, pageOf(t, ns, "page"))
	setManifest(t, two, manifests(configMap("page", "two"), configMap("b", "two")))
	setManifest(t, one, configMap("a", "one"))
	awaitAppliedRevision(t, one, 2)
	awaitReady(t, two)
	await(t, func(c *assert.CollectT) { require.Equal(c, "two", greeting(c, pageOf(t, ns, "page"))) })
	rollback(t, one, 1)
	awaitNotReadyAnyGeneration(t, one, v1alpha1.ReasonOwnershipConflict)
	now := get(t, pageOf(t, ns, "page"))
	require.Equal(t, page.GetUID(), now.GetUID())
	require.Equal(t, "two", greeting(t, now))
	rollback(t, two, 1) // gives it back
	await(t, func(c *assert.CollectT) {
		now := get(t, pageOf(t, ns, "page"))
		require.Equal(c, page.GetUID(), now.GetUID())
		require.Equal(c, "one", greeting(c, now))
	})
	awaitReady(t, one)
	awaitReady(t, two)
}

// TestSecretsInRevisions: the values of Secrets are in the contents alone, and a digest is another one for the same manifest elsewhere.
func TestSecretsInRevisions(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	text := "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2}\n"
	newVidraResource(t, ns, text, named(ns+"-a"))
	awaitAppliedRevision(t, ns+"-a", 1)
	setManifest(t, ns+"-a", configMap("a", "one"))
	awaitAppliedRevision(t, ns+"-a", 2)
	newVidraResource(t, ns, text, named(ns+"-b"))
	awaitAppliedRevision(t, ns+"-b", 1)
	a, b := revisionOf(t, ns+"-a"), revisionOf(t, ns+"-b")
	require.NotEqual(t, a.Kept[1].Digest, b.Kept[0].Digest)
	status, err := json.Marshal(getVidraResource(t, ns+"-a").Status)
	require.NoError(t, err)
	require.NotContains(t, string(status), "hunter2")
}

// TestRollbackNamesItsObjects: an object that leaves another VidraResource stays for the one whose earlier revision has it, although the manifest
// of its spec lacks it, and its source has changed since.
func TestRollbackNamesItsObjects(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	parts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "parts", Namespace: ns}, Data: map[string]string{"all": manifests(configMap("page", "one"), configMap("a", "one"))}}
	require.NoError(t, admin.Create(t.Context(), parts))
	newVidraResource(t, ns, "", named(one), func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Namespace: ns, Key: "all"}}
	})
	newVidraResource(t, ns, configMap("b", "two"), named(two))
	awaitAppliedRevision(t, one, 1)
	awaitAppliedRevision(t, two, 1)
	page := get(t, pageOf(t, ns, "page"))
	setManifest(t, two, manifests(configMap("page", "two"), configMap("b", "two")))
	require.NoError(t, mergePatch(parts, `{"data":{"all":%q}}`, configMap("a", "one")))
	awaitAppliedRevision(t, one, 2)
	awaitReady(t, two)
	rollback(t, one, 1)
	awaitNotReadyAnyGeneration(t, one, v1alpha1.ReasonOwnershipConflict)
	require.NoError(t, mergePatch(parts, `{"data":{"all":%q}}`, configMap("a", "changed")))
	setManifest(t, two, configMap("b", "two"))
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "page"))) })
	require.Equal(t, page.GetUID(), get(t, pageOf(t, ns, "page")).GetUID())
	awaitReady(t, one)
	awaitReady(t, two)
}

// TestRollbackAsAnotherAccount: parts that were read for another namespace or as another account are not applied again.
func TestRollbackAsAnotherAccount(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	parts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "parts", Namespace: ns}, Data: map[string]string{"all": configMap("page", "one")}}
	require.NoError(t, admin.Create(t.Context(), parts))
	newVidraResource(t, ns, "", func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Namespace: ns, Key: "all"}}
	})
	awaitAppliedRevision(t, ns, 1)
	require.NoError(t, mergePatch(parts, `{"data":{"all":%q}}`, configMap("page", "two")))
	awaitAppliedRevision(t, ns, 2)
	other := newNamespace(t)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) {
		spec.Destination.Namespace = other
		spec.Revision = &v1alpha1.RevisionPolicy{Hold: true, To: 1}
	})
	awaitMessage := func(c *assert.CollectT) {
		vr := getVidraResource(t, ns)
		ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(c, ready)
		require.Equal(c, v1alpha1.ReasonRevisionHeld, ready.Reason)
		require.Contains(c, ready.Message, "read for another spec.destination.namespace")
	}
	await(t, awaitMessage)
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "page")))
	require.True(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "page"}, &corev1.ConfigMap{})))
}

// TestRevisionIsSavedLater: a revision whose content the API server refuses to save, as by a quota or for want of a right, is saved by the next
// reconcile of all objects after that. It is not parallel: it refuses all Secrets of the operator.
func TestRevisionIsSavedLater(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "one"))
	applyRevisions(t, ns, configMap("page", "one"))
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "no-secrets"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}},
	}
	require.NoError(t, admin.Create(t.Context(), quota))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), quota.DeepCopy())))
	})
	probe := func() error {
		return admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "probe"}}, client.DryRunAll)
	}
	await(t, func(c *assert.CollectT) { require.ErrorContains(c, probe(), "exceeded quota") })

	setManifest(t, ns, configMap("page", "two"))
	awaitReady(t, ns)
	awaitAppliedRevision(t, ns, 0)
	require.NoError(t, admin.Delete(t.Context(), quota.DeepCopy()))
	await(t, func(c *assert.CollectT) { require.NoError(c, probe()) })
	reconcileNow(t, ns)
	awaitAppliedRevision(t, ns, 2)

	setManifest(t, ns, configMap("page", "three"))
	awaitAppliedRevision(t, ns, 3)
	rollback(t, ns, 2)
	awaitAppliedRevision(t, ns, 2)
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "page")))
}
