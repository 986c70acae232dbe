package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// large is a ConfigMap with a text that is too long for spec.manifest.
func large(name, text string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s # why\ndata:\n  text: %s\n", name, strings.Repeat(text, 500_000/len(text)))
}

// loginSecret is a Secret.
func loginSecret(password string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: " + password + "}\n"
}

// create runs `vidra create` for a namespace, and returns the first word of its output.
func create(t *testing.T, code int, ns, file string, more ...string) answer {
	t.Helper()
	a := vidra(t, append([]string{"create", ns, "-n", ns, "-f", file}, more...)...)
	require.Equal(t, code, a.code, a.stdout+a.stderr)
	return a
}

// partsOf are the ConfigMaps and Secrets of a namespace with the label of parts.
func partsOf(t require.TestingT, ns string) (all []client.Object) {
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}} {
		require.NoError(t, admin.List(context.Background(), list, client.InNamespace(ns), client.HasLabels{v1alpha1.PartOfLabel}))
		switch list := list.(type) {
		case *corev1.ConfigMapList:
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
		case *corev1.SecretList:
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
		}
	}
	return all
}

// requireParts requires that the VidraResource names all parts of its namespace, and that each is owned by it.
func requireParts(t require.TestingT, ns string, configMaps, secrets int) {
	vr := cluster.GetVidraResource(t, ns)
	named, counts := map[string]bool{}, map[string]int{}
	for _, from := range vr.Spec.ManifestFrom {
		named[from.Name] = true
		counts[from.Kind]++
	}
	require.Equal(t, []int{configMaps, secrets}, []int{counts["ConfigMap"], counts["Secret"]})
	parts := partsOf(t, ns)
	require.Len(t, parts, len(named))
	for _, part := range parts {
		require.True(t, named[part.GetName()], part.GetName())
		require.Len(t, part.GetOwnerReferences(), 1)
		require.Equal(t, vr.UID, part.GetOwnerReferences()[0].UID)
	}
}

// TestCreate creates a VidraResource of a short file, and updates it.
func TestCreate(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "create")
	cluster.RemoveAtEnd(t, "create")
	other := suite.Greeting("other", "hello")
	file := writeFile(t, suite.Manifests("# ours\n"+settings, other))
	preview := create(t, 1, "create", file, "--dry-run=server")
	require.Contains(t, preview.stdout, "+ create ConfigMap create/settings")
	require.Equal(t, 1, vidra(t, "get", "create").code, "a dry run writes nothing")
	golden(t, "create", create(t, 0, "create", file).stdout)
	cluster.AwaitReady(t, "create")
	vr := cluster.GetVidraResource(t, "create")
	require.Contains(t, vr.Spec.Manifest, "# ours\n")
	require.Equal(t, "VidraResource create is unchanged\n", create(t, 0, "create", file).stdout)
	require.Empty(t, create(t, 0, "create", file, "--dry-run=server").stderr)

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(settings, "blue", "red", 1)), 0o600))
	changed := create(t, 1, "create", file)
	golden(t, "create-diff", changed.stdout+changed.stderr)
	require.Equal(t, vr.ResourceVersion, cluster.GetVidraResource(t, "create").ResourceVersion, "without --yes nothing is written")
	// Settings of others, and the namespace without -n, stay.
	require.NoError(t, cluster.MergePatch(vr, `{"spec":{"wait":true}}`))
	updated := vidra(t, "create", "create", "-f", file, "--yes")
	require.Equal(t, 0, updated.code, updated.stderr)
	golden(t, "create-yes", updated.stdout)
	vr = cluster.AwaitReady(t, "create")
	require.True(t, vr.Spec.Wait)
	require.Equal(t, "create", vr.Spec.Destination.Namespace)
	require.Len(t, vr.Status.ManagedResources, 1)
	require.Equal(t, "VidraResource create is unchanged\n", create(t, 0, "create", file).stdout)

	require.NoError(t, os.WriteFile(file, []byte("# a comment\n"+strings.Replace(settings, "blue", "red", 1)), 0o600))
	require.Contains(t, create(t, 1, "create", file).stderr, "the text of the manifest changes, and no object")

	for name, tt := range map[string]struct {
		reason string
		args   []string
		input  string
		want   string
	}{
		"no file":      {"there is nothing to create", []string{"create", "none"}, "", "name a file: `vidra create none -f FILE`"},
		"no object":    {"an empty file is a mistake", []string{"create", "none", "-f", "-"}, "# nothing\n", "-: no object found"},
		"no such":      {"the path is named", []string{"create", "none", "-f", "nowhere.yaml"}, "", "nowhere.yaml: no such file"},
		"name":         {"before anything is written", []string{"create", "None", "-f", "-"}, settings, `"None" is no name of a VidraResource`},
		"-o":           {"a written VidraResource is read with get", []string{"create", "none", "-f", "-", "-o", "yaml"}, settings, "-o prints the objects of --dry-run=client"},
		"client":       {"it prints the objects", []string{"create", "none", "-f", "-", "--dry-run=client"}, settings, "set that, too"},
		"broken":       {"with its place", []string{"create", "none", "-f", "-"}, "apiVersion: v1\nkind: Secret\n", `-, document 1, line 1: Secret: has no "metadata"`},
		"no namespace": {"the parts need one", []string{"create", "none", "-f", "-", "-n", "nowhere-at-all"}, loginSecret("hunter2"), "namespace nowhere-at-all does not exist: create the namespace, or name another one for the parts with --parts-namespace"},
		"itself":       {"the parts would be in a Namespace of the manifest", []string{"create", "none", "-f", "-", "-n", "create"}, suite.Manifests(loginSecret("hunter2"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: create}\n"), "name another namespace for them with --parts-namespace"},
		"others":       {"a manifest of another manager is not overwritten by accident", []string{"create", "create-foreign", "-f", "-", "--yes"}, settings, `its manifest is written by "kubectl-create", which would be overwritten`},
		"account":      {"the API server validates the VidraResource", []string{"create", "none", "-f", "-", "--service-account", "NO"}, settings, "must be the name of a ServiceAccount"},
		"folder":       {"a kustomization is built with -k", []string{"create", "none", "-k", t.TempDir()}, "", "build the kustomization in"},
		"twice":        {"with another content", []string{"create", "none", "-f", "-"}, suite.Manifests(settings, strings.Replace(settings, "blue", "red", 1)), "holds this object twice with different content"},
	} {
		if name == "others" {
			foreign := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "create-foreign"}}
			foreign.Spec.Manifest, foreign.Spec.Destination.Namespace = suite.Greeting("foreign", "hello"), "create"
			require.NoError(t, admin.Create(t.Context(), foreign, client.FieldOwner("kubectl-create")))
			cluster.RemoveAtEnd(t, foreign.Name)
		}
		t.Run(name, func(t *testing.T) {
			got := vidraReading(t, tt.input, tt.args...)
			require.Equal(t, 2, got.code, tt.reason)
			require.Contains(t, got.stderr, tt.want, tt.reason)
			require.NotContains(t, got.stderr, "hunter2")
		})
	}
	forced := vidraReading(t, strings.Replace(settings, "name: settings", "name: taken", 1), "create", "create-foreign", "-f", "-", "--yes", "--force-conflicts")
	require.Equal(t, 0, forced.code, forced.stderr)
	require.Empty(t, partsOf(t, "create"))
}

// TestCreateParts has manifests in several parts, one of them in a Secret. A changed manifest is in new parts; no ConfigMap is removed that
// the command has not written.
func TestCreateParts(t *testing.T) {
	t.Parallel()
	const ns = "create-parts"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	one, two := large("one", "a"), large("two", "b")
	file := writeFile(t, suite.Manifests(one, loginSecret("hunter2"), two, settings))
	require.Contains(t, create(t, 0, ns, file).stdout, "created VidraResource create-parts with 4 objects, in 2 ConfigMaps and 1 Secret")
	cluster.AwaitReady(t, ns)
	requireParts(t, ns, 2, 1)
	vr := cluster.GetVidraResource(t, ns)
	require.Empty(t, vr.Spec.Manifest)
	require.Contains(t, vidra(t, "why", "cm/two", "-n", ns).stdout, "key manifest.yaml")
	require.NotContains(t, fmt.Sprint(vr.Spec.ManifestFrom), "hunter2")
	require.Equal(t, "VidraResource "+ns+" is unchanged\n", create(t, 0, ns, file).stdout)

	// Copies of a part, and a part that another VidraResource names, are not removed.
	first := partsOf(t, ns)[0].(*corev1.ConfigMap)
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "copied", Labels: first.Labels, Annotations: first.Annotations, OwnerReferences: first.OwnerReferences}, Data: first.Data}
	require.NoError(t, admin.Create(t.Context(), copied))
	extended := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "extended", Labels: first.Labels, Annotations: map[string]string{v1alpha1.PartAnnotation: v1alpha1.PartIdentity(ns, ns, "extended")}}, Data: map[string]string{"manifest.yaml": one, "notes": "ours"}}
	require.NoError(t, admin.Create(t.Context(), extended))
	used := vr.Spec.ManifestFrom[0]
	makeNamespace(t, ns+"-user")
	cluster.NewVidraResource(t, ns+"-user", "", func(v *v1alpha1.VidraResource) { v.Spec.ManifestFrom = []v1alpha1.ManifestSource{used} })

	require.NoError(t, os.WriteFile(file, []byte(suite.Manifests(large("one", "c"), loginSecret("hunter3"), two)), 0o600))
	diff := create(t, 1, ns, file)
	require.Contains(t, diff.stdout, "- delete ConfigMap create-parts/settings")
	require.NotContains(t, diff.stdout+diff.stderr, "hunter")
	require.Equal(t, vr.ResourceVersion, cluster.GetVidraResource(t, ns).ResourceVersion)
	updated := create(t, 0, ns, file, "--yes")
	require.Contains(t, updated.stderr, "ConfigMap create-parts/"+used.Name+" stays: VidraResource create-parts-user names it")
	require.Contains(t, updated.stderr, "ConfigMap create-parts/extended stays: it is not as this command wrote it")
	cluster.AwaitReady(t, ns)
	for _, kept := range []client.Object{copied, extended, first} {
		if kept == first && first.Name != used.Name {
			continue
		}
		require.True(t, cluster.Exists(t, kept), kept.GetName())
	}
	require.NoError(t, admin.Delete(t.Context(), copied))
	require.NoError(t, admin.Delete(t.Context(), extended))
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns+"-user"))
	cluster.AwaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns + "-user"}})
	require.Contains(t, create(t, 0, ns, file).stdout, "finished an earlier write of")
	requireParts(t, ns, 2, 1)
	require.Equal(t, "VidraResource "+ns+" is unchanged\n", create(t, 0, ns, file).stdout)

	// A part that a user has deleted or edited is written again.
	part := partsOf(t, ns)[0]
	require.NoError(t, admin.Delete(t.Context(), part))
	create(t, 0, ns, file)
	requireParts(t, ns, 2, 1)
	require.NoError(t, cluster.MergePatch(part, `{"data":{"manifest.yaml":%q}}`, suite.Greeting("edited", "hello")))
	create(t, 0, ns, file, "--yes")
	cluster.AwaitReady(t, ns)
	requireParts(t, ns, 2, 1)

	// The same manifest in few bytes needs no parts, and so no ConfigMap.
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	create(t, 0, ns, file, "--yes")
	cluster.AwaitReady(t, ns)
	requireParts(t, ns, 0, 0)
}

// crashing is an API server for a command that ends at one of its writes: before the API server gets it, or before the command gets the
// answer. after counts the writes that succeed.
func crashing(t *testing.T, after int, answered bool) (kubeconfig string, wrote func() int) {
	t.Helper()
	writes, dead := make(chan int, 1), make(chan struct{})
	writes <- 0
	crash := func(r *http.Request) bool {
		select {
		case <-dead:
			return true
		default:
		}
		if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" || strings.HasSuffix(r.URL.Path, "reviews") {
			return false
		}
		n := <-writes + 1
		writes <- n
		if n > after {
			close(dead)
		}
		return n > after
	}
	forward := reverseProxy(t, nil)
	kubeconfig = serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended := crash(r)
		if ended && answered {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		if ended {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}), "crashing")
	return kubeconfig, func() int { n := <-writes; writes <- n; return n }
}

// TestCreateEndsAnywhere ends the command at each of its writes. The VidraResource names parts that exist, and its objects are those of the
// manifest before or after. The next call finishes.
func TestCreateEndsAnywhere(t *testing.T) {
	t.Parallel()
	const ns = "create-ends"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	for _, answered := range []bool{false, true} {
		for step, done := 0, false; !done; step++ {
			require.Less(t, step, 30)
			file := writeFile(t, suite.Manifests(large("one", fmt.Sprintf("text%t%d", answered, step)), loginSecret(fmt.Sprintf("password%d", step)), settings))
			kubeconfig, writes := crashing(t, step, answered)
			a := vidraAs(t, kubeconfig, "create", ns, "-n", ns, "-f", file, "--yes")
			done = writes() <= step
			require.Equal(t, done, a.code == 0, "after %d of %d writes: %s%s", step, writes(), a.stdout, a.stderr)
			if vr := (&v1alpha1.VidraResource{}); admin.Get(t.Context(), client.ObjectKey{Name: ns}, vr) == nil {
				for _, from := range vr.Spec.ManifestFrom {
					require.True(t, cluster.Exists(t, partObject(ns, from)), "%v after %d writes", from, step)
				}
			}
			create(t, 0, ns, file, "--yes")
			cluster.AwaitReady(t, ns)
			create(t, 0, ns, file, "--yes") // what waited for the operator
			requireParts(t, ns, 1, 1)
			t.Logf("answered %t, ended after %d writes: finished", answered, step)
		}
	}
}

func partObject(ns string, from v1alpha1.ManifestSource) client.Object {
	meta := metav1.ObjectMeta{Namespace: ns, Name: from.Name}
	if from.Kind == "Secret" {
		return &corev1.Secret{ObjectMeta: meta}
	}
	return &corev1.ConfigMap{ObjectMeta: meta}
}

// TestCreateSources reads the manifest from each place, in each form.
func TestCreateSources(t *testing.T) {
	t.Parallel()
	const ns = "create-sources"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/install.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, large("url", "x"))
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	for name, text := range map[string]string{"page.yaml": suite.Greeting("page", "hello"), "kustomization.yaml": "namePrefix: built-\nresources: [page.yaml]\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	item := "- " + strings.ReplaceAll(strings.TrimSpace(settings), "\n", "\n  ") + "\n"
	for name, tt := range map[string]struct {
		reason, input string
		args          []string
		objects       int
		message       string
	}{
		"URL":             {"read by HTTP", "", []string{"-f", server.URL + "/install.yaml"}, 1, ""},
		"kustomization":   {"built", "", []string{"-k", folder}, 1, ""},
		"standard input":  {"as it is piped", suite.Manifests(settings, loginSecret("a")), []string{"-f", "-"}, 2, ""},
		"list":            {"with a Secret", "kind: List\napiVersion: v1\nitems:\n" + item + "- " + strings.ReplaceAll(strings.TrimSpace(loginSecret("b")), "\n", "\n  ") + "\n", []string{"-f", "-"}, 2, ""},
		"CRLF":            {"of an editor on Windows", strings.ReplaceAll(suite.Manifests(settings, loginSecret("c"), large("crlf", "x")), "\n", "\r\n"), []string{"-f", "-"}, 3, ""},
		"JSON":            {"several objects", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, []string{"-f", "-"}, 2, ""},
		"empty documents": {"and comments", "---\n# a\n---\n---\n" + settings + "---\n\n---\n# b\n", []string{"-f", "-"}, 1, ""},
		"twice":           {"with the same content", suite.Manifests(settings, settings), []string{"-f", "-"}, 1, "it counts once"},
		"kind and object": {"the object is before its kind", "apiVersion: create-sources.example.com/v1\nkind: Thing\nmetadata: {name: a}\n---\n" + `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.create-sources.example.com}
spec:
  group: create-sources.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, []string{"-f", "-"}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := vidraReading(t, tt.input, append([]string{"create", ns, "-n", ns, "--yes"}, tt.args...)...)
			require.Equal(t, 0, got.code, "%s: %s%s", tt.reason, got.stdout, got.stderr)
			require.Contains(t, got.stderr, tt.message, tt.reason)
			vr := cluster.AwaitReady(t, ns)
			require.Len(t, vr.Status.ManagedResources, tt.objects, tt.reason)
		})
	}
}

// TestCreateDryRun prints the objects, which kubectl then applies.
func TestCreateDryRun(t *testing.T) {
	t.Parallel()
	const ns = "create-dry"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	file := writeFile(t, suite.Manifests(large("one", "a"), loginSecret("hunter2")))
	withheld := vidraAs(t, "/nonexistent", "create", ns, "-f", file, "-n", ns, "--dry-run=client", "-o", "yaml")
	require.Equal(t, 2, withheld.code)
	require.Contains(t, withheld.stderr, "--with-secrets prints them")
	require.NotContains(t, withheld.stdout+withheld.stderr, "hunter2")
	printed := vidraAs(t, "/nonexistent", "create", ns, "-f", file, "-n", ns, "--dry-run=client", "-o", "yaml", "--with-secrets")
	require.Equal(t, 0, printed.code, printed.stderr)
	again := vidraAs(t, "/nonexistent", "create", ns, "-f", file, "-n", ns, "--dry-run=client", "-o", "yaml", "--with-secrets")
	require.Equal(t, printed.stdout, again.stdout, "a file for Git does not change")
	objects, err := manifest.Parse(printed.stdout, manifest.Options{})
	require.NoError(t, err)
	for _, obj := range objects { // as kubectl apply --server-side
		require.NoError(t, admin.Patch(t.Context(), obj.Unstructured, client.Apply, client.FieldOwner("kubectl"))) //nolint:staticcheck // Client.Apply takes no unstructured object
	}
	cluster.AwaitReady(t, ns)
	require.Equal(t, 0, vidra(t, "diff", ns).code)
	list := vidraAs(t, "/nonexistent", "create", ns, "-f", writeFile(t, settings), "-n", ns, "--dry-run=client", "-o", "json")
	require.Contains(t, list.stdout, `"kind": "VidraResource"`)
	require.Contains(t, list.stdout, `"kind": "List"`)
}

// TestCreateRights: a user needs no rights on Secrets for a manifest without any, and is told which rights are missing.
func TestCreateRights(t *testing.T) {
	t.Parallel()
	const ns = "create-rights"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	kubeconfig := editorOf(t, ns)
	file, secret := writeFile(t, large("one", "a")), writeFile(t, loginSecret("hunter2"))
	suite.Await(t, func(c *assert.CollectT) { // the authorizer learns of the rights
		a := vidraAs(c, kubeconfig, "create", ns, "-n", ns, "-f", file)
		require.Equal(c, 0, a.code, a.stderr)
	})
	lacks := vidraAs(t, kubeconfig, "create", ns, "-n", ns, "-f", secret)
	require.Equal(t, 2, lacks.code)
	require.Contains(t, lacks.stderr, "you may not list Secrets in namespace create-rights")
	require.NotContains(t, lacks.stderr, "hunter2")
	cluster.AwaitReady(t, ns)
}

// editorOf makes a user who may write VidraResources, and ConfigMaps of a namespace.
func editorOf(t *testing.T, ns string) (kubeconfig string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: ns, Name: ns + "-editor"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"vidraresources"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
	}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: meta.Name}},
	}))
	cluster.GrantRule(t, ns, meta.Name, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "patch", "delete"}})
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), ns, meta.Name)
	require.NoError(t, err)
	return kubeconfig
}
