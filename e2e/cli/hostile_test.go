package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// hostile is what a hostile cluster puts into names and messages: it sets the title of a terminal, writes to the
// clipboard, colours, reverses the direction of writing, returns to the begin of the line, and begins a line of its own.
const hostile = "evil\x1b]0;pwned\x07\x1b]52;c;aGk=\x07\x1b[31m\u009b31m\u202e\u2066\u200b\x7f\rx\nFAKED"

// hostileName is the same without the characters that no applied configuration may have, because the API server reads it as YAML.
var hostileName = strings.NewReplacer("\u009b", "", "\x7f", "").Replace(hostile)

// hostileCommands are the arguments of each command. Commands without any print nothing of a cluster.
var hostileCommands = map[string][][]string{
	"status":     {{}, {"hostile"}, {"-o", "json"}, {"hostile", "-o", "yaml"}, {"-o", "name"}},
	"why":        {{"configmap/settings", "-n", "hostile"}, {"clusterrole/" + hostileName}, {"configmap/settings", "-n", "hostile", "-o", "wide"}, {"configmap/settings", "-n", "hostile", "-o", "yaml"}, {"configmap/settings", "-n", "hostile", "-o", "name"}},
	"blame":      {{"configmap/settings", "-n", "hostile"}, {"clusterrole/" + hostileName}, {"configmap/settings", "-n", "hostile", "--foreign"}, {"configmap/settings", "-n", "hostile", "-o", "json"}, {"configmap/settings", "-n", "hostile", "-o", "yaml"}},
	"history":    {{}, {"hostile", "-o", "wide"}, {"clusterrole/" + hostileName}, {"hostile", "-o", "yaml"}, {"hostile", "-o", "name"}},
	"events":     {{"-A"}, {"-A", "-o", "wide"}, {"-A", "-o", "json"}, {"-A", "-o", "yaml"}, {"-n", "hostile"}},
	"get":        {{}, {"hostile", "-o", "wide"}, {"hostile", "-o", "json"}, {"hostile", "-o", "yaml"}, {"-o", "name"}},
	"tree":       {{"hostile"}, {"hostile", "-o", "wide"}, {"hostile", "-o", "json"}, {"hostile", "-o", "yaml"}, {"hostile", "-o", "name"}},
	"diff":       {{"hostile"}, {"hostile", "-o", "markdown"}, {"hostile", "-o", "json"}, {"hostile", "-o", "yaml"}, {"hostile", "-o", "name"}},
	"forecast":   {{"hostile"}, {"hostile", "-o", "json"}, {"hostile", "-o", "yaml"}},
	"create":     {{"hostile", "-f", "../../config/samples/web", "--dry-run=server"}, {"hostile", "-f", "../../config/samples/web", "--dry-run=server", "--force-conflicts"}},
	"export":     {{"hostile"}, {"hostile", "-o", "json"}, {"-n", "hostile", "-l", "app=hostile"}},
	"keep":       {{"configmap/settings", "-n", "hostile"}, {"configmap/settings", "-n", "hostile", "-o", "yaml"}, {"clusterrole/" + hostileName}},
	"migrate":    {{"kubectl", "-l", "app=hostile", "-n", "hostile"}, {"kubectl", "-l", "app=hostile", "-n", "hostile", "-o", "json"}, {"flux", "hostile", "-n", "hostile"}, {"helm", "hostile", "-n", "hostile"}},
	"adopt":      {{"hostile", "--timeout", "1s"}},
	"skip":       {{"configmap/settings", "-n", "hostile", "--for", "1h", "--reason", "test", "--timeout", "1s"}, {"configmap/settings", "-n", "hostile", "--end"}},
	"orphan":     {{"configmap/settings", "-n", "hostile"}, {"clusterrole/" + hostileName}},
	"suspend":    {{"hostile"}},
	"resume":     {{"hostile"}},
	"revisions":  {{"hostile"}, {"hostile", "-o", "json"}, {"hostile", "-o", "yaml"}},
	"rollback":   {{"hostile"}, {"hostile", "--to", "7"}, {"hostile", "--release"}, {"hostile", "--release", "-o", "yaml"}},
	"reconcile":  {{"hostile", "--timeout", "1s"}},
	"wait":       {{"hostile", "--timeout", "1s"}},
	"expect":     {{"healed", "configmap/settings", "-n", "hostile", "--within", "1s"}, {"healed", "clusterrole/" + hostileName, "--within", "1s"}, {"healed", "configmap/settings", "-n", "hostile", "--within", "1s", "--", "printf", strings.ReplaceAll(hostile, "\n", "")}},
	"drill":      {{"hostile", "--within", "1s"}},
	"ui":         nil, // e2e/ui has a hostile cluster
	"dev":        nil, // it runs until it is interrupted: TestDevFaults has a hostile cluster
	"lint":       nil,
	"version":    nil,
	"completion": nil,
	"help":       nil,
	"infrahub":   {{"sync", "list"}, {"sync", "list", "-o", "json"}, {"sync", "get", "hostile"}, {"sync", "get", "hostile", "-o", "yaml"}, {"sync", "request", "hostile"}, {"credentials", "list"}, {"cluster", "list"}},
	"mcp":        nil, // the tools are asked below
}

// TestHostileNames runs every command against a cluster with objects, values and annotations whose names and texts have
// control characters, and through a server that puts them into every message, manager, cell and name that it answers. No
// command prints one, nor a line that the cluster began.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	newHostile(t)
	registered := map[string]bool{}
	for line := range strings.Lines(vidra(t, "__complete", "").stdout) {
		if name, _, found := strings.Cut(line, "\t"); found {
			registered[name] = true
			_, listed := hostileCommands[name]
			require.True(t, listed, "hostileCommands has no arguments for `vidra %s`", name)
		}
	}
	require.Len(t, registered, len(hostileCommands), "the table has commands that exist: %v", registered)
	plain := cluster.KubeconfigPath
	servers := map[string]string{
		"cluster":  plain,
		"messages": hostileServer(t, func(r *http.Response) error { return rewriteTexts(r, ofTexts) }),
		"names":    hostileServer(t, func(r *http.Response) error { return rewriteTexts(r, ofNames) }),
		"values":   hostileServer(t, func(r *http.Response) error { return rewriteTexts(r, ofValues) }),
		"refusals": hostileServer(t, func(r *http.Response) error {
			if strings.HasPrefix(r.Request.URL.Path, "/api") && !strings.Contains(r.Request.URL.Path, "/namespaces/") && strings.Count(r.Request.URL.Path, "/") < 4 {
				return nil // discovery
			}
			return replaceBody(r, http.StatusForbidden, &metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden, Message: hostile, Details: &metav1.StatusDetails{Name: hostile, Kind: hostile, Causes: []metav1.StatusCause{{Message: hostile, Field: hostile}}},
			})
		}),
		"garbage": hostileServer(t, func(r *http.Response) error {
			r.Header.Set("Content-Type", "text/plain")
			return replaceText(r, http.StatusInternalServerError, []byte(hostile))
		}),
	}
	var running errgroup.Group
	running.SetLimit(4)
	var mu sync.Mutex
	shown := map[string]bool{}
	for name, lines := range hostileCommands {
		for _, args := range lines {
			for server, kubeconfig := range servers {
				if (server == "refusals" || server == "garbage") && slices.Contains(args, "-o") {
					continue
				}
				running.Go(func() error {
					a := vidraAs(t, kubeconfig, append([]string{name}, args...)...)
					mu.Lock()
					defer mu.Unlock()
					shown[server] = shown[server] || strings.Contains(a.stdout+a.stderr, "pwned")
					requireGraphic(t, fmt.Sprintf("vidra %s %q (%s)", name, args, server), a.stdout+a.stderr)
					return nil
				})
			}
		}
	}
	require.NoError(t, running.Wait())
	for server, kubeconfig := range servers {
		if server == "garbage" { // no tool can find a kind
			continue
		}
		session := assistant(t, kubeconfig)
		for tool, arguments := range toolsAbout("hostile", "configmap", "hostile", "settings") {
			text, _ := asked(t, session, tool, arguments)
			requireGraphic(t, "the tool "+tool+" ("+server+")", text)
		}
	}
	for server := range servers {
		require.True(t, shown[server], "%s: something of it was printed", server)
	}
	for _, args := range [][]string{{"why", ""}, {"status", ""}, {"get", ""}, {"wait", ""}, {"history", ""}} {
		requireGraphic(t, fmt.Sprintf("completion of %s", args[0]), vidraAs(t, servers["names"], append([]string{"__complete"}, args...)...).stdout)
		requireGraphic(t, fmt.Sprintf("completion of %s", args[0]), vidra(t, append([]string{"__complete"}, args...)...).stdout)
	}
	failing := vidraAs(t, hostileServer(t, func(*http.Response) error { return nil }), "status", "--context", "none"+hostile)
	requireGraphic(t, "a context", failing.stderr)
}

// TestHostileFiles reads files and kustomizations of a repository whose names, and names and values in them, have control characters.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), hostile)
	write := writeIn(t, folder)
	named := strconv.QuoteToASCII(hostileName)
	good := write("good"+hostile+".yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: files, namespace: default}\ndata: {a: %s}\n", named))
	role := write("role.yaml", fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %[1]s, labels: {a: %[1]s}}\nrules: []\n", named))
	unknown := write("unknown.yaml", fmt.Sprintf("apiVersion: %[1]s/v1\nkind: %[1]s\nmetadata: {name: %[1]s, namespace: %[1]s}\n%[1]s: 1\n", named))
	vidraResource := write("vr.yaml", fmt.Sprintf("apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: files, annotations: {a: %[1]s}}\n"+
		"spec: {destination: {namespace: %[1]s}, manifest: %[1]s, %[1]s: 1, ignoreDifferences: [{kind: %[1]s, paths: [%[1]s]}]}\n", named))
	write("kustomization/kustomization.yaml", fmt.Sprintf("resources: [%[1]s]\nnamePrefix: %[1]s\n", named))
	write("built/kustomization.yaml", "resources: [a.yaml]\n")
	write("built/a.yaml", fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\nrules: []\n", named))
	broken := write("broken.yaml", "kind: "+hostile+"\n\x1b: [\n")
	var running errgroup.Group
	running.SetLimit(4)
	for _, files := range [][]string{
		{"-f", good}, {"-f", role}, {"-f", unknown}, {"-f", vidraResource}, {"-f", broken}, {"-f", folder}, {"-f", folder, "-R"}, {"-f", filepath.Join(folder, "none")},
		{"-k", filepath.Join(folder, "kustomization")}, {"-k", filepath.Join(folder, "built")}, {"-k", folder}, {"-f", "https://" + hostile}, {"-f", good, "-f", good},
	} {
		for _, command := range [][]string{{"lint"}, {"diff"}, {"diff", "-o", "markdown"}, {"forecast"}, {"create", "files", "--dry-run=client", "-o", "yaml"}, {"create", "files", "--dry-run=server"}} {
			running.Go(func() error {
				a := vidra(t, append(command, files...)...)
				requireGraphic(t, fmt.Sprintf("vidra %s %q", command, files), a.stdout+a.stderr)
				return nil
			})
		}
	}
	require.NoError(t, running.Wait())
	for _, args := range [][]string{
		{hostile}, {"status", "--" + hostile}, {"status", "-o", hostile}, {"why", hostile}, {"why", "configmap/" + hostile, "-n", hostile}, {"status", hostile}, {"get", hostile}, {"diff", hostile},
		{"history", hostile}, {"events", "--for", hostile}, {"wait", hostile, "--timeout", "1s"}, {"skip", "configmap/a", "--for", hostile, "--reason", hostile}, {"suspend", hostile}, {"keep", "configmap/" + hostile},
		{"status", "--kubeconfig", folder + "/none"}, {"status", "--server", "http://" + hostile}, {"infrahub", "sync", "get", hostile}, {"status", "--as", hostile},
	} {
		a := vidra(t, args...)
		requireGraphic(t, fmt.Sprintf("vidra %q", args), a.stdout+a.stderr)
	}
}

// requireGraphic requires that an output has graphic characters, tabs and lines of the command only.
func requireGraphic(t *testing.T, command, output string) {
	t.Helper()
	at := strings.IndexFunc(output, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
	if at >= 0 {
		t.Errorf("%s prints a control character: %q", command, output[max(0, at-60):min(len(output), at+60)])
	}
	if strings.HasPrefix(output, "FAKED") || strings.Contains(output, "\nFAKED") {
		at := strings.Index(output, "\nFAKED")
		t.Errorf("%s prints a line of the cluster: %q", command, output[max(0, at-100):min(len(output), at+20)])
	}
}

// newHostile makes an InfrahubSync, and a VidraResource whose objects have hostile names and texts, and edits of them.
func newHostile(t *testing.T) {
	t.Helper()
	makeNamespace(t, "hostile")
	quoted := func(text string) string {
		encoded, err := json.Marshal(text)
		require.NoError(t, err)
		return string(encoded)
	}
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {example.com/note: %[1]s}}
data: {color: blue, text: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: hostile}
rules: []
`, strconv.QuoteToASCII(hostileName))
	v := cluster.NewVidraResource(t, "hostile", manifest)
	cluster.AwaitReady(t, v.Name)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: "settings"}}
	require.NoError(t, cluster.MergePatch(settings, `{"metadata":{"annotations":{"foreign":%q}},"data":{"text":%s}}`, "mine", quoted("other"+hostile)))
	cluster.AwaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.text")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: hostileName}}
	require.NoError(t, cluster.MergePatch(role, `{"rules":[{"apiGroups":[""],"resources":[%s],"verbs":["get"]}]}`, quoted(hostile)))
	cluster.AwaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "rules")
	live := cluster.Get(t, settings)
	child := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hostile", Name: "child" + hostile,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "settings", UID: live.GetUID()}},
	}}
	require.NoError(t, admin.Create(t.Context(), child))
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}}, `{"spec":{"drift":{"mode":"Warn"}}}`))
	cluster.AwaitReady(t, v.Name)
	require.NoError(t, cluster.MergePatch(settings, `{"data":{"text":%s}}`, quoted("third\t"+hostile)))
	cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonDriftDetected, "data.text")
	require.NoError(t, admin.Create(t.Context(), &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}, Spec: v1alpha1.InfrahubSyncSpec{
		Source:      v1alpha1.InfrahubSyncSource{InfrahubAPIURL: "http://infrahub.invalid:8000", TargetBranch: "main" + hostile, ArtifactName: hostile},
		Destination: v1alpha1.InfrahubSyncDestination{Namespace: "hostile"},
	}}))
}

// hostileServer serves the API of the cluster with answers that rewrite changes, and returns a kubeconfig for it.
func hostileServer(t *testing.T, rewrite func(*http.Response) error) string {
	t.Helper()
	return serveKubeconfig(t, reverseProxy(t, rewrite), hostile)
}

// reverseProxy forwards requests to the API server with the rights of the administrator, and returns its answers as rewrite, which may be
// nil, changes them.
func reverseProxy(t *testing.T, rewrite func(*http.Response) error) http.Handler {
	t.Helper()
	transport, err := rest.TransportFor(cluster.Config)
	require.NoError(t, err)
	target, err := url.Parse(cluster.Config.Host)
	require.NoError(t, err)
	return &httputil.ReverseProxy{
		Transport: transport, ModifyResponse: rewrite,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding")
			r.Out.Header.Set("Accept", strings.ReplaceAll(r.Out.Header.Get("Accept"), "application/vnd.kubernetes.protobuf,", ""))
		},
	}
}

// serveKubeconfig starts a server, and returns a kubeconfig for it with a context of a name.
func serveKubeconfig(t *testing.T, handler http.Handler, name string) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	path, context := filepath.Join(t.TempDir(), "kubeconfig"), strconv.QuoteToASCII(name)
	require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: %[1]s, "+
		"clusters: [{name: hostile, cluster: {server: %[2]q}}], contexts: [{name: %[1]s, context: {cluster: hostile}}]}", context, server.URL)), 0o600))
	return path
}

// texts are the fields of objects that hold text for users, and names those that also name something.
var (
	texts = []string{"message", "note", "reason", "manager", "user", "state", "health", "object", "cells", "fields", "lastError", "deployState", "subresource"}
	names = []string{"name", "namespace", "kind", "resource", "type", "action", "reportingInstance"}
)

// ofTexts, ofNames and ofValues choose the fields of statuses and Events that get hostile text: texts for users, names, too, or all fields
// but those without which no client can read an answer. For the last one, all other parts of an object count, too.
func ofTexts(key, _ string) bool { return slices.Contains(texts, key) }
func ofNames(key, _ string) bool {
	return slices.Contains(texts, key) || slices.Contains(names, key) && key != "kind" && key != "type"
}
func ofValues(key, value string) bool {
	_, err := time.Parse(time.RFC3339, value)
	return err != nil && !slices.Contains([]string{"name", "namespace", "kind", "apiVersion", "type", "status", "uid", "resourceVersion", "manifest", "group", "version", "operation", "server"}, key)
}

// rewriteTexts adds hostile text to the fields of answers that chosen returns true for.
func rewriteTexts(r *http.Response, chosen func(key, value string) bool) error {
	watches := r.Request.URL.Query().Get("watch") != ""
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || watches ||
		!strings.Contains(r.Request.URL.Path, "vidraresources") && !strings.Contains(r.Request.URL.Path, "infrahubsyncs") && !strings.Contains(r.Request.URL.Path, "events") && !strings.Contains(r.Request.URL.Path, "/hostile/") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var document any
	if json.Unmarshal(body, &document) != nil {
		return replaceText(r, r.StatusCode, body)
	}
	return replaceBody(r, r.StatusCode, addHostile(document, chosen("spec.path", ""), chosen))
}

// addHostile adds hostile text to the texts in a value. inside reports that the value is in a status or an Event.
func addHostile(value any, inside bool, chosen func(key, value string) bool) any {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			text, isText := child.(string)
			within := inside || key == "status" || key == "regarding" || key == "related" || key == "managedFields" || v["kind"] == "Event" || v["kind"] == "Status" || v["kind"] == "Table"
			switch {
			case isText && (within || key == "note") && chosen(key, text):
				v[key] = text + hostile
			case key == "cells" || key == "fields":
				if list, isList := child.([]any); isList {
					for i := range list {
						if text, isText := list[i].(string); isText {
							list[i] = text + hostile
						}
					}
				}
			default:
				v[key] = addHostile(child, within && key != "fieldsV1", chosen)
			}
		}
	case []any:
		for i := range v {
			if text, isText := v[i].(string); isText && inside && chosen("spec.path", text) {
				v[i] = text + hostile
				continue
			}
			v[i] = addHostile(v[i], inside, chosen)
		}
	}
	return value
}

func replaceBody(r *http.Response, code int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	return replaceText(r, code, body)
}

func replaceText(r *http.Response, code int, body []byte) error {
	r.StatusCode, r.Status = code, fmt.Sprintf("%d %s", code, http.StatusText(code))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}
