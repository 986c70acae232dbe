package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// heldObjects is how many objects TestHeldHeals edits, and heldText the size of the text
	// that a tenant adds to each of them: together more than Vidra keeps (maxHeld in
	// pkg/trigger). In long tests there are heldObjectsLong, which take about as much memory
	// as there is.
	heldObjects, heldObjectsLong = 54, 400
	heldText                     = 1_000_000
	// heldRounds, or heldRoundsLong in long tests, is how often each of them is edited. Only in
	// long tests there is too little memory for an operator that keeps what each edit made.
	heldRounds, heldRoundsLong = 1, 2
	// unkeptMetric counts the changed objects that were not kept.
	unkeptMetric = "vidra_trigger_objects_not_kept_total"
)

// TestHeldHeals has a tenant edit many large objects again and again while the API server
// refuses their heals. The operator keeps a bounded part of them in memory, and heals the
// objects of another VidraResource meanwhile. When the heals are accepted, each object is
// healed and its Event names the field, also where the object was not kept and has to be
// read again.
//
// It is not parallel: it measures memory, with an operator of its own that is built without
// the race detector.
func TestHeldHeals(t *testing.T) {
	stopOperator(t)
	limited := startPlainOperator(t, "MEMORY_LIMIT="+strconv.Itoa(hostileMemory))
	many, rounds := suite.Size(heldObjects, heldObjectsLong), suite.Size(heldRounds, heldRoundsLong)

	other, ns := newNamespace(t), newNamespace(t)
	newVidraResource(t, other, configMap("neighbour", "hello"))
	newVidraResource(t, ns, pages(many))
	awaitReady(t, other)
	v := awaitReady(t, ns)
	neighbour, objs := declared(t, other, configMap("neighbour", "hello"))[0], declared(t, ns, pages(many))
	editEach(t, objs, `{"data":{"text":"`+strings.Repeat("x", heldText)+`"}}`) // no edit of what is ours
	var alone, meanwhile []time.Duration
	for i := range 10 {
		alone = append(alone, healTime(t, neighbour, i))
	}

	deny := denyHeals(t, ns)
	for round := range rounds {
		editEach(t, objs, fmt.Sprintf(`{"data":{"greeting":"mine %d"}}`, round))
		for range 3 {
			meanwhile = append(meanwhile, healTime(t, neighbour, 100+len(meanwhile)))
		}
	}
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "nothing is healed here")
	unkept := metric(t, limited, unkeptMetric)
	require.Positive(t, unkept, "they are more than are kept")
	for _, obj := range objs {
		greeting, _, _ := unstructured.NestedString(get(t, obj).Object, "data", "greeting")
		require.Equal(t, fmt.Sprintf("mine %d", rounds-1), greeting, "%s is not healed", obj.GetName())
	}

	mark, start := auditMark(t), time.Now()
	require.NoError(t, admin.Delete(t.Context(), deny))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		healed := map[string]bool{}
		for _, e := range withReason(eventsAbout(c, v), "DriftCorrected") {
			require.Contains(c, e.Note, "data.greeting")
			healed[e.Related.Name] = true
		}
		require.Len(c, healed, len(objs))
	}, 4*patience, 500*time.Millisecond, "each of them is healed and an Event names the field")
	awaitInOrder(t, ns, objs...)
	awaitReady(t, ns)
	read := operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("get"))
	t.Logf("%d changed objects were not kept, and %d read; healed in %s; %s of memory at most; the heal of another object: median %s, %s before, longest %s",
		unkept, len(read), time.Since(start).Round(time.Millisecond), memoryOf(t, limited.PID), median(meanwhile), median(alone), slices.Max(meanwhile))
	require.NotEmpty(t, read, "what was not kept is read again")
	requireBounded(t, limited, alone, meanwhile)
}

// editEach sends the same merge patch to each object, as several users do.
func editEach(t *testing.T, objs []*unstructured.Unstructured, patch string) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(driftStormWriters)
	for _, obj := range objs {
		group.Go(func() error { return edit(obj, types.MergePatchType, patch) })
	}
	require.NoError(t, group.Wait())
}

// denyHeals forbids the operator to change ConfigMaps in a namespace, until what it returns
// is deleted.
func denyHeals(t *testing.T, ns string) *admissionv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	deny := denyRequests(t, ns, admissionv1.Update, fmt.Sprintf("request.userInfo.username != %q", operatorUser), "nothing is healed here")
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	operator, err := client.New(config, client.Options{})
	require.NoError(t, err)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page-0"}}
	await(t, func(c *assert.CollectT) {
		err := operator.Patch(context.Background(), probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"probe":"a"}}`)), client.DryRunAll)
		require.ErrorContains(c, err, "nothing is healed here")
	}, "the policy is in force")
	return deny
}
