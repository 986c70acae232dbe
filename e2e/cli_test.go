package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsCommand lists and follows with `vidra events` what the operator said.
func TestEventsCommand(t *testing.T) {
	t.Parallel()
	vidra := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "events"}
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		testListEvents(t, vidra)
	})
	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		testWatchEvents(t, vidra)
	})
}

// testListEvents lists what was said of a change and of a broken manifest.
func testListEvents(t *testing.T, vidra commandLine) {
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	awaitEvent(t, awaitReady(t, ns), corev1.EventTypeNormal, "Ready", "Check")
	drift(t, ns, "greeting")
	broken := newVidraResource(t, ns, "kind: nonsense", named(ns+"-broken"))
	awaitEvent(t, broken, corev1.EventTypeWarning, "ManifestInvalid", "Apply")
	stranger := newEvent(ns, "stranger")
	stranger.ReportingController = "another-manager"
	require.NoError(t, admin.Create(t.Context(), stranger))

	t.Run("filters", func(t *testing.T) { testEventFilters(t, vidra, ns) })
	t.Run("rights", func(t *testing.T) { testEventRights(t, vidra, ns) })
	t.Run("outputs", func(t *testing.T) {
		var list struct{ Items []eventsv1.Event }
		require.NoError(t, yaml.Unmarshal([]byte(vidra.events(t, "--vidraresource", ns, "-o", "yaml")), &list))
		require.Equal(t, []string{"Applied", "ChangeReverted", "DriftCorrected", "Ready"}, reasonsOf(list.Items))
		table := vidra.events(t, "-n", ns)
		require.Contains(t, table, "LAST SEEN   COUNT   TYPE")
		require.Contains(t, table, fmt.Sprintf(`ConfigMap %s/page: reverted data.greeting to "hello"; "person" had set it to "changed"`, ns))
		require.NotContains(t, table, "\x1b", "no colours, but on a terminal")
		require.Contains(t, vidra.events(t, "-n", ns, "-o", "wide"), "ACTION")
	})
	t.Run("as a plugin of kubectl", func(t *testing.T) {
		plugin := commandLine{binary: filepath.Join(t.TempDir(), "kubectl-vidra"), kubeconfig: vidra.kubeconfig, name: "events"}
		require.NoError(t, os.Symlink(vidra.binary, plugin.binary))
		require.Contains(t, plugin.events(t, "--help"), "kubectl vidra events [NAME] [flags]")
		require.Contains(t, plugin.events(t, "--vidraresource", ns), "DriftCorrected")
	})
	t.Run("mistakes", func(t *testing.T) {
		_, said, code := vidra.run(t, "--context", "missing")
		require.Equal(t, 1, code)
		require.Contains(t, said, `context "missing" does not exist`)
		_, said, code = vidra.run(t, "--for", "deploymnt/web")
		require.Equal(t, 1, code)
		require.Contains(t, said, `the cluster serves no kind "deploymnt": searching Events for that name`, "perhaps it once did")
		require.Contains(t, said, "did you mean deployment?")
		former := newEvent(newNamespace(t), "former")
		former.Regarding.Kind, former.Regarding.Name = "Deploymnt", "web"
		require.NoError(t, admin.Create(t.Context(), former))
		out, said, code := vidra.run(t, "--for", "deploymnt/web")
		require.Equal(t, 0, code, said)
		require.Contains(t, out, "Deploymnt "+former.Namespace+"/web")
		_, said, code = vidra.run(t, "--for", "secret/page", "-n", ns)
		require.Equal(t, 1, code)
		require.Contains(t, said, "no Events found, and no VidraResource manages Secret "+ns+"/page")
	})
	t.Run("pages", func(t *testing.T) {
		const many = 501 // one more than a page has
		crowded := newNamespace(t)
		each := func(do func(*eventsv1.Event) error) {
			var group errgroup.Group
			group.SetLimit(8)
			for i := range many {
				group.Go(func() error { return do(newEvent(crowded, fmt.Sprintf("event-%d", i))) })
			}
			require.NoError(t, group.Wait())
		}
		t.Cleanup(func() { each(func(e *eventsv1.Event) error { return admin.Delete(context.Background(), e) }) })
		each(func(e *eventsv1.Event) error { return admin.Create(t.Context(), e) })
		require.Len(t, vidra.list(t, "-n", crowded), many)
	})
}

// testEventFilters lists what each filter leaves of what was said in a namespace.
func testEventFilters(t *testing.T, vidra commandLine, ns string) {
	tests := map[string]struct {
		reason string
		args   []string
		want   []string
		// sent is what the API server is asked for; nothing if that is not looked at.
		sent string
	}{
		"VidraResource": {
			reason: "and its objects", args: []string{"--vidraresource", ns},
			want: []string{"Applied", "ChangeReverted", "DriftCorrected", "Ready"}, sent: "reportingController=vidra-operator",
		},
		"for": {
			reason: "what regards an object, and what is told of it elsewhere", args: []string{"--for", "ConfigMap/page", "-n", ns},
			want: []string{"Applied", "ChangeReverted", "DriftCorrected"},
		},
		"for, short": {
			reason: "as kubectl has it", args: []string{"--for", "cm/page", "-n", ns},
			want: []string{"Applied", "ChangeReverted", "DriftCorrected"},
		},
		"for, VidraResource": {
			reason: "it is an object as others", args: []string{"--for", "vidraresources.infrahub.operators.com/" + ns},
			want: []string{"Applied", "ChangeReverted", "DriftCorrected", "Ready"},
		},
		"for another": {reason: "of which only the apply was said", args: []string{"--for", "secret/login", "-n", ns}, want: []string{"Applied"}},
		"namespace": {
			reason: "that of the objects", args: []string{"-n", ns},
			want: []string{"Applied", "ChangeReverted", "DriftCorrected"},
		},
		"reason": {
			reason: "compared by the API server", args: []string{"-n", ns, "--reason", "driftcorrected"},
			want: []string{"DriftCorrected"}, sent: "reportingController=vidra-operator,reason=DriftCorrected",
		},
		"reasons": {
			reason: "compared here", args: []string{"--vidraresource", ns, "--reason", "DriftCorrected,Applied"},
			want: []string{"Applied", "DriftCorrected"}, sent: "reportingController=vidra-operator",
		},
		"type": {
			reason: "compared by the API server", args: []string{"--vidraresource", ns + "-broken", "--type", "warning"},
			want: []string{"ManifestInvalid"}, sent: "reportingController=vidra-operator,type=Warning",
		},
		"other type": {
			reason: "nothing is wrong with this one", args: []string{"--vidraresource", ns, "--type", "Warning"},
		},
		"since": {
			reason: "all of it was said in this hour", args: []string{"-n", ns, "--since", "1h"},
			want: []string{"Applied", "ChangeReverted", "DriftCorrected"},
		},
		"since now": {reason: "nothing is newer", args: []string{"-n", ns, "--since", "1ns"}},
	}
	proxy, err := faultproxy.Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	vidra.kubeconfig = writeKubeconfig(t, proxy.Config())
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			mark := proxy.Mark()
			require.Equal(t, tt.want, reasonsOf(vidra.list(t, tt.args...)), tt.reason)
			lists := proxy.Requests(mark, faultproxy.Match{Verb: "list", Resource: eventResource})
			require.NotEmpty(t, lists)
			if tt.sent != "" {
				require.Equal(t, tt.sent, lists[0].Query.Get("fieldSelector"))
			}
			out, said, code := vidra.run(t, tt.args...)
			require.Equal(t, 0, code)
			require.Equal(t, tt.want == nil, out == "" && said == "No events found.\n", "%s%s", out, said)
		})
	}
}

// testEventRights lists with the rights of a user who may read one namespace.
func testEventRights(t *testing.T, vidra commandLine, ns string) {
	if !testenv.AtLeast(34) {
		t.Skip("the ClusterRole view of Kubernetes 1.33 has no Events of the group events.k8s.io")
	}
	vidra.kubeconfig = bind(t, ns, "reader", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"})
	await(t, func(c *assert.CollectT) { // the API server learns of a RoleBinding soon
		out, said, code := vidra.run(c, "-n", ns)
		require.Equal(c, 0, code, said)
		require.Contains(c, out, "ChangeReverted", "the Event on the object is in its namespace")
		require.NotContains(c, out, "DriftCorrected")
		require.Contains(c, said, "those about VidraResources are left out")
	})
	_, said, code := vidra.run(t)
	require.Equal(t, 1, code)
	require.Contains(t, said, "forbidden")
	require.Contains(t, said, "name a namespace that you may read with -n")

	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "lister"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{eventResource.Group}, Resources: []string{"events"}, Verbs: []string{"list"}}},
	}))
	vidra.kubeconfig = bind(t, ns, "lister", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "lister"})
	await(t, func(c *assert.CollectT) {
		out, said, code := vidra.run(c, "-n", ns, "--watch")
		require.Equal(c, 1, code, said)
		require.Contains(c, out, "ChangeReverted", "what there is")
		require.Contains(c, said, "watch Events: ", "waiting would be in vain")
	})
}

// bind makes a ServiceAccount with a role in a namespace, and a kubeconfig for it.
func bind(t *testing.T, namespace, name string, role rbacv1.RoleRef) string {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: role,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}))
	kubeconfig, err := env.ServiceAccountKubeconfig(t.Context(), namespace, name)
	require.NoError(t, err)
	return kubeconfig
}

// testWatchEvents follows what the operator says, through a proxy that breaks the
// watch in each way that there is. What is printed is in the end what there is,
// and each line is there once.
func testWatchEvents(t *testing.T, vidra commandLine) {
	proxy, err := faultproxy.Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	vidra.kubeconfig = writeKubeconfig(t, proxy.Config())
	watches := faultproxy.Match{Verb: "watch", Resource: eventResource}
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	awaitReady(t, ns)
	drift(t, ns, "greeting")

	lines := vidra.start(t, "--vidraresource", ns, "--watch", "-o", "json")
	table := vidra.start(t, "--vidraresource", ns, "--watch", "--reason", "DriftCorrected")
	lines.awaitReasons(t, map[string]int{"Applied": 1, "Ready": 1, "DriftCorrected": 1, "ChangeReverted": 1})
	await(t, func(c *assert.CollectT) { require.Equal(c, 2, proxy.Streams(watches)) })

	drift(t, ns, "greeting") // the second time is the first of a series
	lines.awaitReasons(t, map[string]int{"Applied": 1, "Ready": 1, "DriftCorrected": 2, "ChangeReverted": 2})
	drift(t, ns, "greeting") // which the operator sends to the API server some seconds later
	lines.awaitReasons(t, map[string]int{"Applied": 1, "Ready": 1, "DriftCorrected": 3, "ChangeReverted": 3})
	require.Equal(t, []int32{1, 2, 3}, lines.counts(t, "DriftCorrected"))
	await(t, func(c *assert.CollectT) {
		require.Len(c, strings.Split(strings.TrimSpace(table.stdout.String()), "\n"), 4)
	})
	rows := strings.Split(strings.TrimSpace(table.stdout.String()), "\n")
	require.True(t, strings.HasPrefix(rows[0], "LAST SEEN   COUNT   TYPE"), rows[0])
	for i, row := range rows[1:] {
		require.Equal(t, fmt.Sprint(i+1), strings.Fields(row)[1], row)
		require.Equal(t, strings.Index(rows[0], "NOTE"), strings.Index(row, "ConfigMap "+ns), "columns stand still")
	}

	stranger := newEvent(ns, "stranger")
	stranger.ReportingController, stranger.Related = "another-manager", &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: ns,
	}
	require.NoError(t, admin.Create(t.Context(), stranger), "what others say of the objects is not printed")
	require.Equal(t, 2, proxy.CutStreams(watches))
	drift(t, ns, "farewell")
	lines.awaitReasons(t, map[string]int{"Applied": 1, "Ready": 1, "DriftCorrected": 4, "ChangeReverted": 4})

	await(t, func(c *assert.CollectT) { require.Equal(c, 2, proxy.Streams(watches)) })
	require.Equal(t, 2, proxy.ErrorStreams(watches, apierrors.NewResourceExpired("too old")))
	setManifest(t, ns, web+"---\n"+configMap("second", "hello"))
	lines.awaitReasons(t, map[string]int{"Applied": 2, "Ready": 1, "DriftCorrected": 4, "ChangeReverted": 4})

	proxy.Down()
	setManifest(t, ns, web)
	awaitEvent(t, getVidraResource(t, ns), corev1.EventTypeNormal, "Pruned", "Prune")
	await(t, func(c *assert.CollectT) {
		require.Contains(c, lines.stderr.String(), "the watch failed and is retried")
	})
	require.NoError(t, proxy.Up())
	lines.awaitReasons(t, map[string]int{"Applied": 2, "Ready": 1, "DriftCorrected": 4, "ChangeReverted": 4, "Pruned": 1})
	require.Equal(t, 1, strings.Count(lines.stderr.String(), "the watch failed"), "it is told once: %s", lines.stderr.String())
	await(t, func(c *assert.CollectT) { require.Contains(c, lines.stderr.String(), "the watch works again") })

	want := states(vidra.list(t, "--vidraresource", ns))
	require.Equal(t, want, states(lines.events(t)), "what was printed last of each Event is what there is")
	require.Equal(t, 0, lines.interrupt(t))
	require.Equal(t, 0, table.interrupt(t))
}

// eventResource is where Events are.
var eventResource = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// drift has a person change a value of the ConfigMap page, and waits until that
// was reverted and reported.
func drift(t *testing.T, owner, key string) {
	t.Helper()
	page := declaredObject(t, owner, web, "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{%q:"changed"}}`, key))
	awaitInOrder(t, owner, page)
	awaitEvent(t, getVidraResource(t, owner), corev1.EventTypeNormal, "DriftCorrected", "Restore", "data."+key)
	awaitEvent(t, page, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data."+key)
}

// newEvent is an Event as Vidra writes it, about the ConfigMap page.
func newEvent(namespace, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		EventTime:  metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "ChangeReverted", Action: "Restore", Note: name,
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "page"},
		ReportingController: "vidra-operator", ReportingInstance: "vidra-operator-test",
	}
}

// reasonsOf are the reasons of Events, sorted.
func reasonsOf(all []eventsv1.Event) []string {
	var reasons []string
	for _, e := range all {
		reasons = append(reasons, e.Reason)
	}
	slices.Sort(reasons)
	return reasons
}

// states are the last counts of Events.
func states(all []eventsv1.Event) map[string]int32 {
	counts := map[string]int32{}
	for _, e := range all {
		counts[e.Namespace+"/"+e.Name] = countOf(e)
	}
	return counts
}

func countOf(e eventsv1.Event) int32 {
	if e.Series == nil {
		return 1
	}
	return e.Series.Count
}
