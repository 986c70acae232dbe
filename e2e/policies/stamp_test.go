package policies

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// needsStamps skips a test where the API server does not serve MutatingAdmissionPolicies in v1.
func needsStamps(t *testing.T) {
	t.Helper()
	if !stamps() {
		t.Skip("MutatingAdmissionPolicy v1 needs Kubernetes 1.36")
	}
}

// page is a VidraResource with one ConfigMap, in a namespace of its own.
type page struct{ namespace string }

// newPage makes a page.
func newPage(t *testing.T, options ...func(*v1alpha1.VidraResource)) page {
	t.Helper()
	p := page{namespace: cluster.NewNamespace(t)}
	v := cluster.NewVidraResource(t, p.namespace, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {a: a, b: b}", options...)
	cluster.AwaitReady(t, v.Name)
	return p
}

// keeping has Vidra report edits and revert none.
func keeping(v *v1alpha1.VidraResource) {
	v.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}
}

// awaitStamped waits until the API server has noticed the policy.
func (p page) awaitStamped(t *testing.T) {
	t.Helper()
	d, _ := as(t, alice)
	suite.Await(t, func(c *assert.CollectT) {
		answer, err := d.Resource(configMaps).Namespace(p.namespace).Patch(context.Background(), "page", types.MergePatchType, []byte(`{"data":{"a":"x"}}`), metav1.PatchOptions{DryRun: dry})
		require.NoError(c, err)
		require.Equal(c, alice, answer.GetAnnotations()[ownership.EditedByAnnotation])
	})
}

// object names the ConfigMap.
func (p page) object() *unstructured.Unstructured {
	return named("v1", "ConfigMap", p.namespace, "page")
}

// write sends a merge patch of kubectl as a user, and returns the annotation that the answer has.
func (p page) write(t *testing.T, user, body string, subresources ...string) string {
	t.Helper()
	return p.patch(t, user, types.MergePatchType, body, "kubectl-edit", subresources...)
}

func (p page) patch(t *testing.T, user string, how types.PatchType, body, manager string, subresources ...string) string {
	t.Helper()
	d, _ := as(t, user)
	options := metav1.PatchOptions{FieldManager: manager}
	if how == types.ApplyPatchType {
		options.Force = ptr.To(true)
	}
	answer, err := d.Resource(configMaps).Namespace(p.namespace).Patch(t.Context(), "page", how, []byte(body), options, subresources...)
	require.NoError(t, err)
	return answer.GetAnnotations()[ownership.EditedByAnnotation]
}

// awaitHealed waits until both fields and the annotation are as Vidra left them.
func (p page) awaitHealed(t *testing.T) {
	t.Helper()
	cluster.AwaitObject(t, suite.Patience, p.object(), func(c *assert.CollectT) {
		live := cluster.Get(c, p.object())
		require.Equal(c, map[string]any{"a": "a", "b": "b"}, live.Object["data"])
		require.NotContains(c, live.GetAnnotations(), ownership.EditedByAnnotation)
		require.Equal(c, v1alpha1.ManagedByValue, live.GetLabels()[v1alpha1.ManagedByLabel])
	})
}

// forged is the annotation as a user writes it.
var forged = fmt.Sprintf(`"metadata":{"annotations":{%q:%q}}`, ownership.EditedByAnnotation, bob)

// TestStamp edits what a VidraResource owns: the answer has the name of the user, Events have it with the tool, and the
// heal removes it with one PATCH. A user cannot write another name.
func TestStamp(t *testing.T) {
	needsStamps(t)
	edits := map[string]struct {
		reason, body string
		how          types.PatchType
		told         string
	}{
		"changed":  {"the value was the user's", `{"data":{"a":"x"}}`, types.MergePatchType, `reverted data.a to "a"; alice@example.com (kubectl-edit) had set it to "x"`},
		"removed":  {"the API server records no author", `[{"op":"remove","path":"/data/a"}]`, types.JSONPatchType, `restored data.a to "a"; alice@example.com had removed it`},
		"applied":  {"server-side apply by another manager", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"},"data":{"a":"x"}}`, types.ApplyPatchType, `alice@example.com (kubectl-edit) had set it to "x"`},
		"forged":   {"the user sends another name", `{"data":{"a":"x"},` + forged + `}`, types.MergePatchType, `alice@example.com (kubectl-edit) had set it to "x"`},
		"stripped": {"all annotations go, that of the owner, too", `{"data":{"a":"x"},"metadata":{"annotations":null}}`, types.MergePatchType, `alice@example.com (kubectl-edit) had set it to "x"`},
	}
	for name, tc := range edits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPage(t)
			p.awaitStamped(t)
			mark := cluster.AuditMark(t)
			require.Equal(t, alice, p.patch(t, alice, tc.how, tc.body, "kubectl-edit"), tc.reason)
			p.awaitHealed(t)
			cluster.AwaitEvent(t, p.object(), "Normal", "ChangeReverted", "", tc.told)
			suite.RequireCount(t, 1, func() suite.Requests {
				return cluster.ByOperator(t, mark).On("configmaps", p.namespace, "page").Writes()
			})
		})
	}
}

// TestStampAndTheRest: what is not an edit of an owned field leaves no annotation, and nothing but such an edit changes one.
func TestStampAndTheRest(t *testing.T) {
	needsStamps(t)
	p := newPage(t, keeping)
	p.awaitStamped(t)
	require.Empty(t, p.write(t, alice, `{"data":{"other":"x"}}`), "an addition")
	require.Empty(t, p.write(t, alice, `{`+forged+`}`), "a name that the user sends, where nothing is edited")
	require.Equal(t, alice, p.write(t, alice, `{"data":{"a":"x"}}`))
	cluster.AwaitEvent(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, "Warning", "DriftDetected", "",
		`data.a is "x" and should be "a", set by alice@example.com (kubectl-edit)`)
	require.Equal(t, alice, p.write(t, "system:kube-controller-manager", `{"metadata":{"annotations":{"note":"x"}}}`), "a controller that edits nothing of it")
	require.Equal(t, alice, p.write(t, alice, `{`+forged+`}`))
	require.Equal(t, alice+" and others", p.write(t, bob, `{"data":{"a":"y"}}`), "the field was taken before")
	require.Equal(t, bob+" and others", p.write(t, bob, `{"data":{"b":"y"}}`))
	require.Equal(t, alice+" and others", p.write(t, alice, `{"metadata":{"annotations":null}}`), "that of the owner is owned, and this one is not removed")
	p.write(t, alice, `{"metadata":{"labels":{"managed-by":null}}}`)
	require.Equal(t, bob, p.write(t, alice, `{`+forged+`}`), "without the label the policy does not select the object")
	require.Empty(t, p.write(t, alice, `{"metadata":{"labels":{"managed-by":"vidra"}}}`), "what stood there then is not believed")
}

// TestStampWithoutALabel: an object that lost its label is reverted without a user, because any user may have written the name.
func TestStampWithoutALabel(t *testing.T) {
	needsStamps(t)
	p := newPage(t)
	suspend := func(value bool) {
		require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, `{"spec":{"suspend":%t}}`, value))
	}
	suspend(true)
	cluster.AwaitCondition(t, p.namespace, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	p.write(t, alice, `{"metadata":{"labels":{"managed-by":null}}}`)
	p.write(t, alice, `{"data":{"a":"x"},`+forged+`}`)
	suspend(false)
	event := cluster.AwaitEvent(t, p.object(), "Normal", "ChangeReverted", "", `reverted data.a to "a"`)
	require.NotContains(t, event.Note, bob+" (", "it is a field that was added, and no user")
}

// TestStampOfSubresources: the subresource scale carries no annotation, that of the status changes none, and a deletion has
// no object to carry it: Events name the field manager, or none.
func TestStampOfSubresources(t *testing.T) {
	needsStamps(t)
	namespace := cluster.NewNamespace(t)
	v := cluster.NewVidraResource(t, namespace, workload("Deployment", "web", "  replicas: 0"))
	cluster.AwaitReady(t, v.Name)
	d, _ := as(t, alice)
	client := d.Resource(deployments).Namespace(namespace)
	send := func(body string, subresources ...string) *unstructured.Unstructured {
		answer, err := client.Patch(t.Context(), "web", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubectl"}, subresources...)
		require.NoError(t, err)
		return answer
	}
	require.NotContains(t, send(`{`+forged+`,"status":{"observedGeneration":1}}`, "status").GetAnnotations(), ownership.EditedByAnnotation)
	require.Contains(t, send(`{"metadata":{"annotations":{"note":"x"}}}`, "status").GetAnnotations(), "note", "annotations can be written through the status")
	send(`{"spec":{"replicas":1}}`, "scale")
	web := deployment(namespace, "web")
	event := cluster.AwaitEvent(t, web, "Normal", "ChangeReverted", "", `"kubectl" had set it to 1 through scale`)
	require.NotContains(t, event.Note, alice)
	require.NoError(t, client.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	event = cluster.AwaitEvent(t, web, "Normal", "ChangeReverted", "", "created it again")
	require.NotContains(t, event.Note, alice)
}

// TestStampOfCreatedObjects: a user who creates an object with the label gives it no name.
func TestStampOfCreatedObjects(t *testing.T) {
	needsStamps(t)
	namespace := cluster.NewNamespace(t)
	created := named("v1", "ConfigMap", namespace, "copied")
	created.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
	created.SetAnnotations(map[string]string{ownership.EditedByAnnotation: bob})
	d, _ := as(t, alice)
	answer, err := d.Resource(configMaps).Namespace(namespace).Create(t.Context(), created, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NotContains(t, answer.GetAnnotations(), ownership.EditedByAnnotation)
}

// TestStampIsNotTrusted: without --user-stamps, and so where the policy is not installed, no name is believed that stands in the
// annotation, on creation or on an edit.
func TestStampIsNotTrusted(t *testing.T) {
	needsStamps(t)
	require.NoError(t, admin.Delete(t.Context(), named("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "", "vidra-stamp")))
	t.Cleanup(func() {
		objs, err := overlay("stamp")
		require.NoError(t, err)
		require.NoError(t, testenv.Apply(context.Background(), env.Config, objs))
	})
	operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: binary, Args: []string{"--installation=plain"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, operator.Stop(20*time.Second)) })
	p := newPage(t, func(v *v1alpha1.VidraResource) { v.Labels = map[string]string{v1alpha1.InstallationLabel: "plain"} })
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, bob, p.write(t, alice, `{`+forged+`}`)) }, "the policy is gone")
	require.Equal(t, bob, p.write(t, alice, `{"data":{"a":"x"}}`))
	event := cluster.AwaitEvent(t, p.object(), "Normal", "ChangeReverted", "", `"kubectl-edit" had set it to "x"`)
	require.NotContains(t, event.Note, bob)
}
