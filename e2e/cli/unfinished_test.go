package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// interruptedAt runs the command line and sends it a signal at a write, which gets no answer: the one for which hangs is true. A creation is carried out.
func interruptedAt(t *testing.T, hangs func(r *http.Request) bool, args ...string) answer {
	t.Helper()
	reached, forward := make(chan struct{}, 1), reverseProxy(t, nil)
	kubeconfig := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" && hangs(r) {
			if r.Method == http.MethodPost {
				forward.ServeHTTP(httptest.NewRecorder(), r)
			}
			_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the connection only then
			reached <- struct{}{}
			<-r.Context().Done()
			return
		}
		forward.ServeHTTP(w, r)
	}), "hanging")
	var out, said bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "KUBECONFIG="+kubeconfig, "HOME="+home())
	require.NoError(t, cmd.Start())
	<-reached
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.ErrorAs(t, cmd.Wait(), new(*exec.ExitError))
	return answer{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: said.String()}
}

// TestCreateInterrupted: an interrupted create deletes parts without a VidraResource, also after the signal, and names the objects that it leaves.
func TestCreateInterrupted(t *testing.T) {
	t.Parallel()
	const ns = "create-interrupted"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	file := writeFile(t, suite.Manifests(large("one", "text"), loginSecret("password"), settings))
	at := func(method, path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, path) }
	}
	args := []string{"create", ns, "-n", ns, "-f", file}

	a := interruptedAt(t, at(http.MethodPost, "/secrets"), args...)
	require.Equal(t, 130, a.code)
	secrets := &corev1.SecretList{}
	require.NoError(t, admin.List(t.Context(), secrets, client.InNamespace(ns), client.HasLabels{v1alpha1.PartOfLabel}))
	require.Equal(t, 1, len(secrets.Items)) //nolint:testifylint // their texts are long
	require.Contains(t, a.stderr, "vidra: interrupted: create Secret create-interrupted/")
	require.Contains(t, a.stderr, ": Secret create-interrupted/"+secrets.Items[0].Name+" may be written: run the command again to finish\n")
	configMaps := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(t.Context(), configMaps, client.InNamespace(ns), client.HasLabels{v1alpha1.PartOfLabel}))
	require.Zero(t, len(configMaps.Items)) //nolint:testifylint // their texts are long

	a = interruptedAt(t, at(http.MethodPatch, "/vidraresources"), args...)
	require.Equal(t, 130, a.code)
	require.Contains(t, a.stderr, "vidra: interrupted: patch VidraResource create-interrupted: ")
	require.Contains(t, a.stderr, ": VidraResource create-interrupted and its parts may be written: run the command again to finish\n")

	a = interruptedAt(t, at(http.MethodPatch, "/secrets"), args...)
	require.Equal(t, 130, a.code)
	require.Contains(t, a.stderr, ": VidraResource create-interrupted is written, and owns not all its parts: run the command again to finish\n")

	create(t, 0, ns, file)
	cluster.AwaitReady(t, ns)
	requireParts(t, ns, 1, 1)
}

// TestFailuresNameTheObject: an answer that is none of the API server, such as the page of a proxy, names the object of the request.
func TestFailuresNameTheObject(t *testing.T) {
	t.Parallel()
	const ns = "failures-name"
	makeNamespace(t, ns)
	cluster.NewVidraResource(t, ns, settings)
	cluster.AwaitReady(t, ns)
	forward := reverseProxy(t, nil)
	failing := func(method, path string) string {
		return serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == method && strings.Contains(r.URL.Path, path) {
				http.Error(w, "<html>Bad Gateway</html>", http.StatusBadGateway)
				return
			}
			forward.ServeHTTP(w, r)
		}), "failing")
	}
	file := writeFile(t, loginSecret("password"))
	for _, test := range []struct {
		method, path, want string
		args               []string
	}{
		{http.MethodGet, "/vidraresources", "vidra: get VidraResource failures-name: an error on the server", []string{"status", ns}},
		{http.MethodGet, "/vidraresources", "vidra: get VidraResource failures-name: an error on the server", []string{"get", ns}},
		{http.MethodGet, "/vidraresources", "vidra: list VidraResources: an error on the server", []string{"status"}},
		{http.MethodPatch, "/vidraresources", "vidra: patch VidraResource failures-name: an error on the server", []string{"suspend", ns}},
		{http.MethodPatch, "/vidraresources", "vidra: patch VidraResource failures-name: an error on the server", []string{"reconcile", ns}},
		{http.MethodGet, "/secrets", "vidra: list Secrets in namespace failures-name: ", []string{"create", ns + "-new", "-n", ns, "-f", file}},
		{http.MethodGet, "/infrahubsyncs", "vidra: list InfrahubSyncs: an error on the server", []string{"infrahub", "sync", "list"}},
		{http.MethodGet, "/infrahubsyncs", "vidra: get InfrahubSync sync: an error on the server", []string{"infrahub", "sync", "get", "sync"}},
	} {
		a := vidraAs(t, failing(test.method, test.path), test.args...)
		require.NotZero(t, a.code, "%v", test.args)
		require.True(t, strings.HasPrefix(a.stderr, test.want), "%v: %s", test.args, a.stderr)
	}
	kubeconfig := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(statusOf(http.StatusForbidden, metav1.StatusReasonForbidden, `vidraresources is forbidden: User "jane" cannot watch them`)))
			return
		}
		forward.ServeHTTP(w, r)
	}), "watchless")
	a := vidraAs(t, kubeconfig, "reconcile", ns, "--wait")
	require.Equal(t, 1, a.code)
	require.Contains(t, a.stderr, "you may not watch VidraResources")
	require.NotContains(t, a.stderr, "check that the operator runs")
}
