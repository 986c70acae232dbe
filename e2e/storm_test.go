package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// stormLasts is for how long TestF22StatusStorm writes; see stormDuration.
	stormLasts = 4 * time.Second
	// stormRate is how many updates a second it tries to send. The API server takes
	// most of the machine, so it lasts longer until it has sent stormLeast of them.
	stormRate  = 2000
	stormLeast = 1000
	// stormObjects is how many objects it writes to, and stormClients how many
	// clients write.
	stormObjects = 20
	stormClients = 16
)

// TestF22StatusStorm has controllers that write the status of managed objects all
// the time. It costs Vidra no request at all, and not a single pass.
//
// It is not parallel: it counts all that the operator does, in an operator of its
// own that is built without the race detector, so that the processor time that the
// test logs is that of a real one.
func TestF22StatusStorm(t *testing.T) {
	lasts := stormDuration(t, stormLasts)
	stopOperator(t)
	plain := startPlainOperator(t)
	ns := newNamespace(t)
	var documents []string
	for i := range stormObjects {
		documents = append(documents, editedObject("Ingress", fmt.Sprintf("storm-%d", i), ""))
	}
	newVidraResource(t, ns, manifests(documents...))
	awaitReady(t, ns)
	objs := declared(t, ns, manifests(documents...))
	awaitSilence(t)

	mark, passes := auditMark(t), metric(t, plain, passesMetric)
	seen, used := metric(t, plain, stormMetric), processorTime(t, plain.PID)
	start := time.Now()
	sent := storm(t, ns, lasts)
	took := time.Since(start)
	await(t, func(c *assert.CollectT) {
		require.GreaterOrEqual(c, metric(c, plain, stormMetric)-seen, sent)
	}, "the watch delivers all updates")
	used = processorTime(t, plain.PID) - used
	seen = metric(t, plain, stormMetric) - seen
	rate := float64(sent) / took.Seconds()
	t.Logf("%d updates of %d objects in %s, %.0f/s of %d/s: Vidra saw %d events with %.2f s of processor time (%.1f %% of one), %d us an event",
		sent, stormObjects, took.Round(time.Millisecond), rate, stormRate, seen, used.Seconds(),
		100*used.Seconds()/took.Seconds(), used.Microseconds()/int64(max(1, seen)))

	all := operatorSince(t, mark)
	require.Empty(t, all.Writes(), "%s", all)
	require.Empty(t, all.Only(verbIs("get")), "%s", all)
	require.Empty(t, all.Only(verbIs("list")), "%s", all)
	require.Equal(t, passes, metric(t, plain, passesMetric), "passes over VidraResources")

	// The watch is as awake as before.
	mark = auditMark(t)
	require.NoError(t, mergePatch(objs[0], `{"spec":{"ingressClassName":"changed"}}`))
	awaitInOrder(t, ns, objs[0])
	requireCount(t, 1, func() requests { return operatorSince(t, mark).ObjectsIn(ns) })
}

// stormDuration is how long a storm lasts: what the environment variable VIDRA_STORM holds,
// such as 10m, or else a minute in long tests, and otherwise what the test says.
func stormDuration(t *testing.T, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("VIDRA_STORM")
	switch {
	case text != "":
	case suite.Long():
		return time.Minute
	default:
		return otherwise
	}
	lasts, err := time.ParseDuration(text)
	require.NoError(t, err)
	return lasts
}

// plainOperator builds an operator without the race detector, once.
var plainOperator = sync.OnceValues(func() (string, error) {
	if suite.Deployed() {
		return "", nil // it is deployed as it is built
	}
	return testenv.BuildOperator(context.Background(), os.Stderr, false)
})

// startPlainOperator starts an operator that is built without the race detector, with
// additions to its environment such as "MEMORY_LIMIT=1". It ends with the test.
func startPlainOperator(t *testing.T, environment ...string) *testenv.Operator {
	t.Helper()
	binary, err := plainOperator()
	require.NoError(t, err)
	started, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: binary, Env: environment})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, started.Stop(stopTimeout)) })
	return started
}

// storm updates the status of the Ingresses for a while, and counts the updates.
// Each client has a connection of its own, and writes its share of the updates to
// one object after the other.
func storm(t *testing.T, ns string, lasts time.Duration) int {
	t.Helper()
	ingresses := &networkingv1.IngressList{}
	require.NoError(t, admin.List(t.Context(), ingresses, client.InNamespace(ns)))
	require.Len(t, ingresses.Items, stormObjects)
	var sent atomic.Int64
	start := time.Now()
	var group errgroup.Group
	for worker := range stormClients {
		writer := stormClient(t).NetworkingV1().Ingresses(ns)
		group.Go(func() error {
			ticker := time.NewTicker(stormClients * time.Second / stormRate)
			defer ticker.Stop()
			for i := worker; time.Since(start) < lasts || sent.Load() < stormLeast; i += stormClients {
				<-ticker.C
				update := stormUpdate(&ingresses.Items[i%stormObjects], i)
				if _, err := writer.UpdateStatus(t.Context(), update, metav1.UpdateOptions{FieldManager: person}); err != nil {
					return err
				}
				sent.Add(1)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return int(sent.Load())
}

// stormClient is a client with a connection of its own.
func stormClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.Dial = (&net.Dialer{}).DialContext // those that have their own share no connection
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: transport})
	require.NoError(t, err)
	return clients
}

// stormUpdate is the update with a number. It overwrites whatever the status is,
// and carries the object as its controller read it once.
func stormUpdate(read *networkingv1.Ingress, i int) *networkingv1.Ingress {
	update := read.DeepCopy()
	update.ResourceVersion, update.ManagedFields = "", nil
	update.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{
		{Hostname: fmt.Sprintf("n%d.example.com", i)},
	}
	return update
}

const (
	// passesMetric and stormMetric are how the series begin that count the passes
	// over VidraResources and the updates of Ingresses.
	passesMetric = `controller_runtime_reconcile_total{controller="vidraresource"`
	stormMetric  = `vidra_watch_events_total{destination="",group="networking.k8s.io",resource="ingresses",type="MODIFIED"`
)

// processorTime is how much processor time a process has taken.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	// The fields that follow the name, which is in parentheses: utime and stime are
	// the twelfth and thirteenth of them, in hundredths of a second; see proc(5).
	const user, system, tick = 11, 12, 10 * time.Millisecond
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	require.Greater(t, len(fields), system)
	var total time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.Atoi(field)
		require.NoError(t, err)
		total += time.Duration(ticks) * tick
	}
	return total
}
