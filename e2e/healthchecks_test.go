package e2e

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// checksOf are the checks of a kind whose controller reports Available and Broken, which kstatus does not know.
func checksOf(crd *apiextensionsv1.CustomResourceDefinition) []v1alpha1.HealthCheck {
	return []v1alpha1.HealthCheck{{
		APIVersion: crd.Spec.Group + "/v1", Kind: "Thing",
		Current: "status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
		Failed:  "status.?conditions.orValue([]).exists(c, c.type == 'Broken' && c.status == 'True')",
	}}
}

func setChecks(t *testing.T, name string, checks []v1alpha1.HealthCheck) {
	t.Helper()
	changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) { spec.HealthChecks = checks })
}

func isHealthy(is metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: is, Reason: reason}
}

// TestHealthChecks: the expressions decide about Healthy, Ready, dependents and the tree, also about objects that no event shows again.
func TestHealthChecks(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	thing, dependent := thingIn(crd, ns), ns+"-dependent"
	newVidraResource(t, ns, manifests(configMap("c", "hello"), manifest), waiting, func(v *v1alpha1.VidraResource) { v.Spec.HealthChecks = checksOf(crd) })
	newVidraResource(t, ns, configMap("d", "hello"), named(dependent), dependingOn(ns))
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonProgressing), "Thing "+ns+"/thing", "healthChecks.failed has no result", "status")
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing)
	awaitNotReadyAnyGeneration(t, dependent, v1alpha1.ReasonDependencyNotReady)

	setConditionOf(t, thing, "Available", metav1.ConditionTrue, "")
	awaitReady(t, ns)
	awaitReady(t, dependent)
	mark := auditMark(t)
	setConditionOf(t, thing, "Broken", metav1.ConditionTrue, "")
	v := awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy), "healthChecks.failed is true")
	awaitNotReady(t, ns, v1alpha1.ReasonUnhealthy)
	awaitEvent(t, v, "Warning", "Unhealthy", "Check", "Thing "+ns+"/thing")
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns), "events show it")
	tree := func() string {
		said, _, code := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "tree"}.run(t, ns)
		require.Equal(t, 0, code, said)
		return said
	}
	require.Contains(t, tree(), "Failed")

	setChecks(t, ns, nil) // kstatus knows no condition of it
	awaitReady(t, ns)
	require.NotContains(t, tree(), "Failed")
	setChecks(t, ns, checksOf(crd))
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy), "healthChecks.failed is true")

	wrong := checksOf(crd)
	wrong[0].Failed = "status.conditions ==== 1"
	setChecks(t, ns, wrong)
	awaitNotReady(t, ns, v1alpha1.ReasonHealthCheckInvalid, "spec.healthChecks[0]", "failed: character", "Correct the expression")
	awaitEvent(t, v, "Warning", "HealthCheckInvalid", "Check", "spec.healthChecks[0]")
	wrong[0].Failed = "[?status.conditions].size() > 0"
	setChecks(t, ns, wrong)
	awaitNotReady(t, ns, v1alpha1.ReasonHealthCheckInvalid, "failed: the expression cannot be compiled")
	setChecks(t, ns, checksOf(crd))
	awaitNotReady(t, ns, v1alpha1.ReasonUnhealthy)
	setConditionOf(t, thing, "Available", metav1.ConditionTrue, "")
	awaitReady(t, ns)
	mark = auditMark(t)
	reconcileNow(t, ns)
	awaitReady(t, ns)
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns), "an evaluated object is not read again")
}

// TestHealthChecksOfOthers: each owner of an object has its own checks.
func TestHealthChecksOfOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	other := ns + "-other"
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	newVidraResource(t, ns, manifest, named(other), func(v *v1alpha1.VidraResource) { v.Spec.HealthChecks = checksOf(crd) })
	awaitCondition(t, other, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonProgressing))
	awaitCondition(t, ns, isHealthy(metav1.ConditionTrue, v1alpha1.ReasonHealthy))
	setConditionOf(t, thingIn(crd, ns), "Available", metav1.ConditionTrue, "")
	awaitCondition(t, other, isHealthy(metav1.ConditionTrue, v1alpha1.ReasonHealthy))
	setConditionOf(t, thingIn(crd, ns), "Ready", metav1.ConditionFalse, "")
	awaitCondition(t, other, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonProgressing), "healthChecks.current is false")
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonProgressing))
}

// TestHealthChecksWithoutEvents: an object that no watch shows is read when its check is new.
func TestHealthChecksWithoutEvents(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	newVidraResource(t, ns, manifest, withoutEvents)
	awaitReady(t, ns)
	setConditionOf(t, thingIn(crd, ns), "Broken", metav1.ConditionTrue, "")
	setChecks(t, ns, checksOf(crd))
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy), "healthChecks.failed is true")
	setChecks(t, ns, nil)
	awaitCondition(t, ns, isHealthy(metav1.ConditionTrue, v1alpha1.ReasonHealthy))
}

// TestHealthChecksAfterARestart: what a check found stands, and changes are noticed. It is not parallel: it stops the operator.
func TestHealthChecksAfterARestart(t *testing.T) {
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	thing, other := thingIn(crd, ns), ns+"-other"
	newVidraResource(t, ns, manifest, named(other))
	newVidraResource(t, ns, manifest, waiting, func(v *v1alpha1.VidraResource) { v.Spec.HealthChecks = checksOf(crd) })
	setLater := func(kind string) { setConditionOf(t, thing, kind, metav1.ConditionTrue, "") }
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonProgressing))
	setLater("Broken")
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy))
	before := getVidraResource(t, ns)
	killOperator(t)
	startOperator(t)
	awaitRestarted(t, other)
	require.Equal(t, before.Status.Conditions, getVidraResource(t, ns).Status.Conditions, "a restart writes nothing")
	setLater("Available")
	awaitReady(t, ns)
	killOperator(t)
	setLater("Broken")
	startOperator(t)
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, metav1.ConditionTrue, condition(c, getVidraResource(c, other), v1alpha1.ConditionHealthy).Status)
	})
}

// TestHealthChecksAfterAFailedRead: a read that failed is repeated. It is not parallel: it stops the operator.
func TestHealthChecksAfterAFailedRead(t *testing.T) {
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	setConditionOf(t, thingIn(crd, ns), "Broken", metav1.ConditionTrue, "")
	stopOperator(t)
	proxy, _ := startProxied(t)
	awaitRestarted(t, ns)
	reads := faultproxy.Match{Verb: "get", Resource: schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v1", Resource: crd.Spec.Names.Plural}}
	fault := proxy.Inject(reads, faultproxy.Status(apierrors.NewInternalError(errors.New("no answer"))))
	setChecks(t, ns, checksOf(crd))
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy), "spec.healthChecks cannot read it", "no answer")
	fault.Remove()
	awaitCondition(t, ns, isHealthy(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy), "healthChecks.failed is true")
}

// awaitRestarted waits until a started operator has reconciled a VidraResource.
func awaitRestarted(t *testing.T, name string) {
	t.Helper()
	reconcileNow(t, name)
	awaitReady(t, name)
}
