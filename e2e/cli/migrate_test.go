package cli

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// moving is a manifest of several kinds, with fields that the API server defaults and assigns.
const moving = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: login, labels: {app: web}}
stringData: {password: hunter2}
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 80}], resources: {limits: {cpu: 1000m}}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, labels: {app: web}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: web, labels: {app: web}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`

// movingKinds are the kinds of moving.
var movingKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Service"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "PersistentVolumeClaim"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
}

// moved returns the objects of moving in a namespace, by kind.
func moved(t require.TestingT, ns string) map[string]*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	for _, gvk := range movingKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		require.NoError(t, admin.List(context.Background(), list, client.InNamespace(ns)))
		for i := range list.Items {
			if u := &list.Items[i]; u.GetLabels()["app"] == "web" {
				all[u.GetKind()] = u
			}
		}
	}
	require.Len(t, all, len(movingKinds))
	return all
}

// requireUnmoved requires that the objects are the same ones, of which only metadata and the status have changed.
func requireUnmoved(t require.TestingT, before, after map[string]*unstructured.Unstructured) {
	for kind, was := range before {
		is := after[kind].DeepCopy()
		require.Equal(t, was.GetUID(), is.GetUID(), kind)
		if kind != "Deployment" { // whose generation counts its annotations, too
			require.Equal(t, was.GetGeneration(), is.GetGeneration(), kind)
		}
		was := was.DeepCopy()
		for _, u := range []*unstructured.Unstructured{was, is} {
			delete(u.Object, "metadata")
			delete(u.Object, "status")
		}
		require.Equal(t, was.Object, is.Object, kind)
	}
}

// requireUntouched requires that a command has written nothing. Controllers write meanwhile: a status, a finalizer, a revision.
func requireUntouched(t require.TestingT, before, after map[string]*unstructured.Unstructured) {
	requireUnmoved(t, before, after)
	for kind, was := range before {
		is := after[kind]
		require.Equal(t, was.GetLabels(), is.GetLabels(), kind)
		require.Equal(t, was.GetAnnotations()[corev1.LastAppliedConfigAnnotation], is.GetAnnotations()[corev1.LastAppliedConfigAnnotation], kind)
		require.Empty(t, v1alpha1.Owners(is.GetAnnotations()), kind)
		for _, e := range is.GetManagedFields() {
			require.NotContains(t, e.Manager, "vidra", kind)
		}
		for _, e := range was.GetManagedFields() {
			require.True(t, hasEntry(is, e.Manager, e.Operation), "%s: %s", kind, e.Manager)
		}
	}
}

// hasEntry reports whether a field manager has an entry of an operation.
func hasEntry(u *unstructured.Unstructured, manager string, operation metav1.ManagedFieldsOperationType) bool {
	return slices.ContainsFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager && e.Operation == operation })
}

// requireReleased requires that the objects have no traces of a tool.
func requireReleased(t require.TestingT, all map[string]*unstructured.Unstructured, managers, keys []string) {
	for kind, u := range all {
		require.Equal(t, "vidra", u.GetLabels()[v1alpha1.ManagedByLabel], kind)
		for _, e := range u.GetManagedFields() {
			require.NotContains(t, managers, e.Manager, kind)
		}
		for _, key := range keys {
			require.NotContains(t, u.GetAnnotations(), key, kind)
			require.NotContains(t, u.GetLabels(), key, kind)
		}
	}
}

// requireBack requires that the objects have no traces of Vidra.
func requireBack(t require.TestingT, ns string, all map[string]*unstructured.Unstructured) {
	require.True(t, apierrors.IsNotFound(admin.Get(context.Background(), client.ObjectKey{Name: ns}, &v1alpha1.VidraResource{})))
	for kind, u := range all {
		require.NotContains(t, u.GetLabels(), v1alpha1.ManagedByLabel, kind)
		require.Empty(t, v1alpha1.Owners(u.GetAnnotations()), kind)
		for _, e := range u.GetManagedFields() {
			require.NotContains(t, e.Manager, "vidra/", kind)
		}
	}
}

// tool runs a program with the kubeconfig of the administrator.
func tool(t *testing.T, code int, program string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigPath, "HOME="+home(), "KUBECTL_APPLYSET=true")
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the exit code counts
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s %q: %s", program, args, out.String())
	return out.String()
}

// TestMigrateKubectl moves objects of kubectl apply to a VidraResource and back.
func TestMigrateKubectl(t *testing.T) {
	t.Parallel()
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	file := writeFile(t, moving)
	for name, tt := range map[string]struct {
		reason string
		// apply are the arguments of kubectl apply, and prune those of one that prunes. drift is the finding about an edit.
		apply, prune []string
		drift        string
	}{
		"client": {"with the annotation that has what was applied", nil, []string{"--prune", "-l", "app=web"}, `image is "web:2", and kubectl applied "web:1"`},
		"server": {"which has it in managedFields", []string{"--server-side"}, []string{"--prune", "-l", "app=web"}, `/web: fields written by "kubectl-patch" are in the manifest`},
		"set": {
			"in an ApplySet, whose label is in what was applied", []string{"--prune", "--applyset=web"}, []string{"--prune", "--applyset=web"},
			`image is "web:2", and kubectl applied "web:1"`,
		},
		"set-server": {
			"in an ApplySet, whose label is in managedFields", []string{"--server-side", "--prune", "--applyset=web"}, []string{"--prune", "--applyset=web"},
			`/web: fields written by "kubectl-patch" are in the manifest`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "migrate-kubectl-" + name
			makeNamespace(t, ns)
			cluster.RemoveAtEnd(t, ns)
			serverSide := slices.Contains(tt.apply, "--server-side")
			apply := func(file string, more ...string) {
				tool(t, 0, kubectl, append([]string{"apply", "-n", ns, "-f", file}, more...)...)
			}
			apply(file, tt.apply...)
			require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other", Labels: map[string]string{"app": "web-other"}}}))
			args := []string{"migrate", "kubectl", "-n", ns, "-l", "app=web"}
			before := moved(t, ns)
			plan := vidra(t, args...)
			require.Equal(t, 0, plan.code, plan.stdout+plan.stderr)
			require.Contains(t, plan.stdout, "which adopts 6 objects unchanged")
			require.NotContains(t, plan.stdout+plan.stderr, "hunter2")
			requireUntouched(t, before, moved(t, ns))

			// A user has scaled it: the manifest gets the present value, if that is accepted.
			tool(t, 0, kubectl, "-n", ns, "patch", "deployment", "web", "-p", `{"spec":{"minReadySeconds":7,"replicas":0,"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
			before = moved(t, ns)
			refused := vidra(t, append(args, "--apply")...)
			require.Equal(t, 1, refused.code, refused.stdout+refused.stderr)
			require.Contains(t, refused.stdout, tt.drift)
			require.Contains(t, refused.stderr, "--apply --accept drift")
			requireUntouched(t, before, moved(t, ns))

			applied := vidra(t, append(args, "--apply", "--accept", "drift")...)
			require.Equal(t, 0, applied.code, applied.stdout+applied.stderr)
			require.Contains(t, applied.stdout, "manages 6 objects, of which 6 are unchanged; released 6 objects")
			require.Contains(t, applied.stderr, "accepted: drift: Deployment "+ns+"/web: ")
			if name == "client" {
				golden(t, "migrate", applied.stdout)
			}
			after := moved(t, ns)
			requireUnmoved(t, before, after)
			requireReleased(t, after, []string{"kubectl-client-side-apply", "kubectl"}, []string{corev1.LastAppliedConfigAnnotation, "applyset.kubernetes.io/part-of"})
			vr := cluster.AwaitReady(t, ns)
			require.Len(t, vr.Status.ManagedResources, 6)
			require.NotContains(t, vr.Spec.Manifest, "hunter2")
			again := vidra(t, append(args, "--apply")...)
			require.Equal(t, 0, again.code, again.stderr)
			require.Contains(t, again.stdout, "released 0 objects")
			require.Contains(t, vidra(t, args...).stdout, "step 2 (done)")

			// kubectl apply --prune of other objects with the labels, or in the ApplySet, removes none of them.
			apply(writeFile(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, labels: {app: web}}\n"), tt.prune...)
			require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}))
			requireUnmoved(t, before, moved(t, ns))

			// Vidra heals what it adopted.
			require.NoError(t, cluster.MergePatch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}}, `{"data":{"colour":"red"}}`))
			suite.Await(t, func(c *assert.CollectT) {
				colour, _, _ := unstructured.NestedString(moved(c, ns)["ConfigMap"].Object, "data", "colour")
				require.Equal(c, "blue", colour)
			})

			other := vidra(t, append(args, "--undo", "--name", ns+"-other")...)
			require.Equal(t, 2, other.code)
			require.Contains(t, other.stderr, "moved to VidraResource "+ns+" already: use --name "+ns)
			undone := vidra(t, append(args, "--undo")...)
			require.Equal(t, 0, undone.code, undone.stderr)
			require.Equal(t, "went back: 6 objects stay, without VidraResource\n", undone.stdout)
			back := moved(t, ns)
			requireUnmoved(t, before, back)
			requireBack(t, ns, back)
			for kind, u := range back {
				_, text := u.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
				require.Equal(t, !serverSide, text, kind)
				require.Equal(t, !serverSide, hasEntry(u, "kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate), kind)
				require.Equal(t, serverSide, hasEntry(u, "kubectl", metav1.ManagedFieldsOperationApply), kind)
			}
			suite.AwaitFor(t, time.Minute, func(c *assert.CollectT) { require.Empty(c, partsOf(c, ns)) }) // by the garbage collector
			require.Equal(t, 2, vidra(t, append(args, "--undo")...).code, "there is nothing to undo")
			// kubectl removes what its next file lacks.
			apply(writeFile(t, strings.Replace(moving, "data: {colour: blue}", "data: {size: large}", 1)), append(slices.Clone(tt.apply), "--force-conflicts="+strconv.FormatBool(serverSide))...)
			data, _, _ := unstructured.NestedStringMap(moved(t, ns)["ConfigMap"].Object, "data")
			require.Equal(t, map[string]string{"size": "large"}, data)
		})
	}
}

// records returns the records of the release of a namespace, the oldest one first.
func records(t *testing.T, ns string) (all []*corev1.Secret) {
	t.Helper()
	list := &corev1.SecretList{}
	require.NoError(t, admin.List(t.Context(), list, client.InNamespace(ns), client.MatchingLabels{"name": ns}))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	slices.SortFunc(all, func(a, b *corev1.Secret) int { return strings.Compare(a.Labels["version"], b.Labels["version"]) })
	require.Len(t, all, 2)
	return all
}

// TestMigrateHelm moves a release of Helm to a VidraResource and back. Helm can neither upgrade nor uninstall it meanwhile.
func TestMigrateHelm(t *testing.T) {
	t.Parallel()
	helm, err := testenv.Helm(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	chart := t.TempDir()
	write := writeIn(t, chart)
	write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	write("values.yaml", "colour: blue\n")
	write("templates/all.yaml", strings.Replace(moving, "colour: blue", "colour: {{ .Values.colour }}", 1))
	write("templates/hook.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: post-install}}\n")
	write("templates/kept.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n")
	for name, tt := range map[string]struct {
		reason string
		flag   string
	}{
		"server": {"the default of Helm 4", "--server-side=true"},
		"client": {"as Helm 3", "--server-side=false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "migrate-helm-" + name
			makeNamespace(t, ns)
			cluster.RemoveAtEnd(t, ns)
			tool(t, 0, helm, "install", ns, chart, "-n", ns, tt.flag)
			upgraded := []string{"upgrade", ns, chart, "-n", ns, "--set", "colour=green"}
			tool(t, 0, helm, upgraded...)
			args := []string{"migrate", "helm", ns, "-n", ns}
			before := moved(t, ns)
			plan := vidra(t, args...)
			require.Equal(t, 1, plan.code, plan.stdout+plan.stderr)
			require.Contains(t, plan.stdout, "accept: hooks: ConfigMap hook is a hook for post-install")
			require.NotContains(t, plan.stdout+plan.stderr, "hunter2")
			requireUntouched(t, before, moved(t, ns))
			require.Equal(t, 2, vidra(t, "migrate", "helm", "none", "-n", ns).code)

			// The newest revision has failed.
			revisions := records(t, ns)
			require.NoError(t, cluster.MergePatch(revisions[1], `{"metadata":{"labels":{"status":"failed"}}}`))
			failed := vidra(t, append(args, "--apply", "--accept", "hooks")...)
			require.Equal(t, 2, failed.code)
			require.Contains(t, failed.stderr, "its newest revision 2 is failed")
			require.NoError(t, cluster.MergePatch(revisions[1], `{"metadata":{"labels":{"status":"deployed"}}}`))
			// It ends while it hides the records: Helm sees the newest one, or none. It ends while it shows them: the same.
			for _, end := range []struct {
				writes int
				arg    string
				owners []string
			}{
				{1, "--apply", []string{"vidra-migrate", "helm"}}, {9, "--undo", []string{"helm", "helm"}},
				{2, "--apply", []string{"vidra-migrate", "vidra-migrate"}}, {1, "--undo", []string{"vidra-migrate", "helm"}}, {9, "--undo", []string{"helm", "helm"}},
			} {
				kubeconfig, _ := crashing(t, end.writes, false)
				a := vidraAs(t, kubeconfig, append(args, end.arg, "--accept", "hooks")...)
				require.Equal(t, end.writes == 9, a.code == 0, "%+v: %s", end, a.stdout+a.stderr)
				var owners []string
				for _, record := range records(t, ns) {
					owners = append(owners, record.Labels["owner"])
				}
				require.Equal(t, end.owners, owners, "%+v", end)
			}
			requireUntouched(t, before, moved(t, ns))

			applied := vidra(t, append(args, "--apply", "--accept", "hooks")...)
			require.Equal(t, 0, applied.code, applied.stdout+applied.stderr)
			require.Contains(t, applied.stdout, "manages 7 objects, of which 7 are unchanged; released 7 objects")
			require.Contains(t, applied.stderr, "note: values: the manifest is the one that Helm rendered last")
			after := moved(t, ns)
			requireUnmoved(t, before, after)
			requireReleased(t, after, []string{"helm"}, []string{"meta.helm.sh/release-name", "meta.helm.sh/release-namespace", "app.kubernetes.io/managed-by"})
			cluster.AwaitReady(t, ns)
			kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kept"}}
			require.Equal(t, "true", cluster.Get(t, kept).GetAnnotations()[v1alpha1.KeepAnnotation], "Helm keeps it, so Vidra does")

			require.Contains(t, tool(t, 1, helm, "uninstall", ns, "-n", ns), "not found")
			tool(t, 1, helm, upgraded...)
			tool(t, 1, helm, "install", ns, chart, "-n", ns)
			requireUnmoved(t, before, moved(t, ns))

			// There is no way back without the records.
			revisions = records(t, ns)
			for _, record := range revisions {
				require.NoError(t, admin.Delete(t.Context(), record))
			}
			gone := vidra(t, append(args, "--undo")...)
			require.Equal(t, 2, gone.code, gone.stdout)
			require.Contains(t, gone.stderr, "they stay with VidraResource "+ns)
			require.Equal(t, "vidra", moved(t, ns)["Service"].GetLabels()[v1alpha1.ManagedByLabel])
			for _, record := range revisions {
				record.ResourceVersion, record.UID = "", ""
				require.NoError(t, admin.Create(t.Context(), record))
			}

			undone := vidra(t, append(args, "--undo")...)
			require.Equal(t, 0, undone.code, undone.stderr)
			back := moved(t, ns)
			requireUnmoved(t, before, back)
			requireBack(t, ns, back)
			require.NotContains(t, cluster.Get(t, kept).GetAnnotations(), v1alpha1.KeepAnnotation)
			require.Equal(t, ns, back["Role"].GetAnnotations()["meta.helm.sh/release-name"])
			upgraded[len(upgraded)-1] = "colour=red"
			tool(t, 0, helm, upgraded...)
			colour, _, _ := unstructured.NestedString(moved(t, ns)["ConfigMap"].Object, "data", "colour")
			require.Equal(t, "red", colour)
			tool(t, 0, helm, "uninstall", ns, "-n", ns)
			require.False(t, cluster.Exists(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}}), "Helm manages it again")
		})
	}
}

// TestMigrateEndsAnywhere ends a migration, and the way back, at each of their writes. The next run finishes it, in either direction, and no object is
// changed.
func TestMigrateEndsAnywhere(t *testing.T) {
	t.Parallel()
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	helm, err := testenv.Helm(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	chart := t.TempDir()
	write := writeIn(t, chart)
	write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	write("templates/all.yaml", moving)
	for name, tt := range map[string]struct {
		apply    func(t *testing.T, ns string)
		from     func(ns string) []string
		managers []string
		keys     []string
	}{
		"kubectl": {
			func(t *testing.T, ns string) { tool(t, 0, kubectl, "apply", "-n", ns, "-f", writeFile(t, moving)) },
			func(ns string) []string { return []string{"kubectl", "-n", ns, "-l", "app=web"} },
			[]string{"kubectl-client-side-apply"}, []string{corev1.LastAppliedConfigAnnotation},
		},
		"helm": {
			func(t *testing.T, ns string) {
				for range 2 { // two revisions
					tool(t, 0, helm, "upgrade", "--install", ns, chart, "-n", ns)
				}
			},
			func(ns string) []string { return []string{"helm", ns, "-n", ns} },
			[]string{"helm"}, []string{"meta.helm.sh/release-name", "app.kubernetes.io/managed-by"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "migrate-ends-" + name
			makeNamespace(t, ns)
			cluster.RemoveAtEnd(t, ns)
			tt.apply(t, ns)
			before, args := moved(t, ns), append([]string{"migrate"}, tt.from(ns)...)
			apply := func() {
				a := vidra(t, append(args, "--apply")...)
				require.Equal(t, 0, a.code, a.stdout+a.stderr)
				requireReleased(t, moved(t, ns), tt.managers, tt.keys)
				require.Equal(t, v1alpha1.DeletionDelete, cluster.GetVidraResource(t, ns).Spec.DeletionPolicy)
			}
			// again is a user who ends the way back, and wants the migration after all.
			for i := 0; i < 4; i += suite.Size(3, 1) {
				answered, again, back := i%2 == 1, i > 1, 0
				for step, done := 0, false; !done; step += suite.Size(3, 1) {
					require.Less(t, step, 60)
					kubeconfig, writes := crashing(t, step, answered)
					a := vidraAs(t, kubeconfig, append(args, "--apply")...)
					done = writes() <= step
					require.Equal(t, done, a.code == 0, a.stderr)
					requireUnmoved(t, before, moved(t, ns))
					if again || step%2 == 0 {
						apply()
					}
					t.Logf("answered %t, again %t, ended after %d writes and %d writes back: finished", answered, again, step, back)
					kubeconfig, _ = crashing(t, back, answered)
					vidraAs(t, kubeconfig, append(args, "--undo")...)
					requireUnmoved(t, before, moved(t, ns))
					if again {
						apply()
					}
					vidra(t, append(args, "--undo")...) // fails if there is nothing to undo
					after := moved(t, ns)
					requireUnmoved(t, before, after)
					requireBack(t, ns, after)
					for _, key := range tt.keys {
						_, annotated := after["Role"].GetAnnotations()[key]
						_, labelled := after["Role"].GetLabels()[key]
						require.True(t, annotated || labelled, key)
					}
					back += suite.Size(3, 1)
				}
			}
		})
	}
}

// TestMigrateHelmWhile: a revision that Helm makes while its records are hidden ends the migration, and the undo returns all labels of a VidraResource that
// removes additions of users, and of a suspended one.
func TestMigrateHelmWhile(t *testing.T) {
	t.Parallel()
	helm, err := testenv.Helm(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	chart := t.TempDir()
	write := writeIn(t, chart)
	write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	write("values.yaml", "colour: blue\n")
	write("templates/all.yaml", strings.Replace(moving, "colour: blue", "colour: {{ .Values.colour }}", 1))
	for name, spec := range map[string]string{"additions": `{"drift":{"additions":"Revert"}}`, "suspended": `{"suspend":true}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "migrate-while-" + name
			makeNamespace(t, ns)
			cluster.RemoveAtEnd(t, ns)
			tool(t, 0, helm, "install", ns, chart, "-n", ns)
			args := []string{"migrate", "helm", ns, "-n", ns}

			forward, upgrade := reverseProxy(t, nil), sync.OnceFunc(func() { tool(t, 0, helm, "upgrade", ns, chart, "-n", ns, "--set", "colour=green") })
			kubeconfig := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/secrets/sh.helm.release") {
					upgrade()
				}
				forward.ServeHTTP(w, r)
			}), "upgraded")
			a := vidraAs(t, kubeconfig, append(args, "--apply")...)
			require.Equal(t, 2, a.code, a.stdout)
			require.Contains(t, a.stderr, "was upgraded meanwhile: run the command again")
			require.Error(t, admin.Get(t.Context(), client.ObjectKey{Name: ns}, &v1alpha1.VidraResource{}))
			a = vidra(t, append(args, "--apply")...)
			require.Equal(t, 0, a.code, a.stdout+a.stderr)
			require.Contains(t, cluster.GetVidraResource(t, ns).Spec.Manifest, "colour: green")

			before := moved(t, ns)
			require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}}, `{"spec":%s}`, spec))
			suite.Await(t, func(c *assert.CollectT) {
				vr := cluster.GetVidraResource(c, ns)
				require.Equal(c, vr.Generation, vr.Status.ObservedGeneration)
			})
			kubeconfig, _ = crashing(t, len(before), false) // all objects have their marks again, and the VidraResource exists
			require.Equal(t, 2, vidraAs(t, kubeconfig, append(args, "--undo")...).code)
			marked := func(t require.TestingT) {
				for kind, u := range moved(t, ns) {
					require.Equal(t, "Helm", u.GetLabels()["app.kubernetes.io/managed-by"], kind)
					require.Equal(t, ns, u.GetAnnotations()["meta.helm.sh/release-name"], kind)
				}
			}
			if name == "additions" { // each of its objects is compared
				require.Equal(t, 0, vidra(t, "reconcile", ns, "--wait").code)
				marked(t)
			}
			a = vidra(t, append(args, "--undo")...)
			require.Equal(t, 0, a.code, a.stderr)
			marked(t)
			requireBack(t, ns, moved(t, ns))
			requireUnmoved(t, before, moved(t, ns))
			tool(t, 0, helm, "upgrade", ns, chart, "-n", ns)
		})
	}
}
