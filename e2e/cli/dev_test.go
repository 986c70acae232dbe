package cli

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// session is a `vidra dev` that runs.
type session struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	output bytes.Buffer
}

func (s *session) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(text)
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// develop starts `vidra dev` for a namespace of the same name.
func develop(t *testing.T, kubeconfig, ns string, args ...string) *session {
	t.Helper()
	s := &session{cmd: exec.Command(binary, append([]string{"dev", ns, "-n", ns}, args...)...)}
	s.cmd.Stdout, s.cmd.Stderr = s, s
	s.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "KUBECONFIG="+kubeconfig, "HOME="+home())
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill() // the test has failed
			_ = s.cmd.Wait()
		}
		if t.Failed() {
			t.Log(s.text())
		}
	})
	return s
}

// await waits until a line of a kind has a text, and returns all lines before it to look for later ones.
func (s *session) await(t *testing.T, after int, kind, text string) (end int) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d ` + kind + ` .*` + regexp.QuoteMeta(text))
	suite.Await(t, func(c *assert.CollectT) {
		found := line.FindStringIndex(s.text()[after:])
		require.NotNil(c, found, "no line %q with %q in:\n%s", kind, text, s.text()[after:])
		end = after + found[1]
	})
	return end
}

// interrupt ends the command as ctrl-C does.
func (s *session) interrupt(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, s.cmd.Wait(), "the exit code is 0")
}

// awaitGreeting waits for the greeting of a live ConfigMap.
func awaitGreeting(t *testing.T, ns, name, greeting string) {
	t.Helper()
	suite.Await(t, func(c *assert.CollectT) {
		cm := &corev1.ConfigMap{}
		require.NoError(c, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, cm))
		require.Equal(c, greeting, cm.Data["greeting"])
	})
}

var (
	clockTimes = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)
	durations  = regexp.MustCompile(`\d+ ms`)
)

// devLines are the lines of `vidra dev` about saves, without what another run prints otherwise.
func devLines(output string) string {
	output = durations.ReplaceAllString(clockTimes.ReplaceAllString(output, ""), "N ms")
	var lines strings.Builder
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "saved ") || strings.HasPrefix(line, "applied ") || strings.HasPrefix(line, " ") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// TestDev saves files in the ways of editors while `vidra dev` runs.
func TestDev(t *testing.T) {
	t.Parallel()
	const ns = "dev"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	folder := filepath.Join(t.TempDir(), "manifests")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	file := filepath.Join(folder, "greeting.yaml")
	save := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	save(file, suite.Greeting("greeting", "one"))
	dev := develop(t, cluster.KubeconfigPath, ns, "-f", folder, "-R")
	at := dev.await(t, 0, "applied  ", "generation 1, 1 object")

	// A save, measured until the VidraResource has it.
	begin := time.Now()
	save(file, suite.Greeting("greeting", "two"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Contains(c, cluster.GetVidraResource(c, ns).Spec.Manifest, "two")
	}, 10*time.Second, 5*time.Millisecond)
	t.Logf("from the save to the VidraResource: %s", time.Since(begin))
	awaitGreeting(t, ns, "greeting", "two")
	at = dev.await(t, at, "saved    ", "generation 2 with 1 object (0 added, 1 changed, 0 removed), written")
	at = dev.await(t, at, "applied  ", "generation 2")
	golden(t, "dev", devLines(dev.text()))

	// A broken file, and its correction by a rename.
	save(file, suite.Greeting("greeting", "two")+"broken: [\n")
	at = dev.await(t, at, "broken   ", "greeting.yaml, document 1, line ")
	at = dev.await(t, at, "broken   ", "nothing is changed")
	save(file+"~", suite.Greeting("greeting", "three"))
	require.NoError(t, os.Rename(file+"~", file))
	awaitGreeting(t, ns, "greeting", "three")
	at = dev.await(t, at, "applied  ", "generation 3")

	// A file in a new folder, with a Secret; then it is empty for a moment, and gone.
	inner := filepath.Join(folder, "inner", "more.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(inner), 0o700))
	save(inner, suite.Manifests(suite.Greeting("more", "one"), loginSecret(hidden)))
	awaitGreeting(t, ns, "more", "one")
	at = dev.await(t, at, "applied  ", "3 objects")
	save(inner, "")
	at = dev.await(t, at, "broken   ", "more.yaml is empty, and its objects stay")
	require.NoError(t, os.Remove(inner))
	at = dev.await(t, at, "waiting  ", "2 objects would be removed")
	cluster.AwaitGone(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "more"}})
	at = dev.await(t, at, "applied  ", "1 object")

	// The folder is replaced.
	require.NoError(t, os.RemoveAll(folder))
	at = dev.await(t, at, "broken   ", "no such file")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	save(file, suite.Greeting("greeting", "four"))
	awaitGreeting(t, ns, "greeting", "four")
	at = dev.await(t, at, "applied  ", "1 object")

	// An edit is reverted, and an object refused.
	edited := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "greeting"}}
	require.NoError(t, admin.Patch(t.Context(), edited, client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"bye"}}`)), client.FieldOwner("kubectl-edit")))
	at = dev.await(t, at, "reverted ", "data.greeting")
	require.NoError(t, os.Mkdir(filepath.Dir(inner), 0o700))
	save(inner, suite.Greeting("Not-A-Name", "one")+"---\n"+loginSecret(hidden))
	at = dev.await(t, at, "refused  ", "Not-A-Name")
	save(inner, "# nothing\n")
	at = dev.await(t, at, "over     ", "Not-A-Name")
	at = dev.await(t, at, "applied  ", "1 object")

	dev.interrupt(t)
	dev.await(t, at, "ended    ", "`kubectl delete vidraresource dev` removes it")
	require.True(t, cluster.Exists(t, edited))
	t.Log(dev.text())
	requireHidden(t, "vidra dev", dev.text())
	requireGraphic(t, "vidra dev", dev.text())
}

// TestDevFaults saves while the API server does not answer, refuses, and sends hostile texts.
func TestDevFaults(t *testing.T) {
	t.Parallel()
	const ns = "dev-faults"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	var broken, hostileTexts atomic.Bool
	kubeconfig := hostileServer(t, func(r *http.Response) error {
		switch {
		case broken.Load():
			return replaceText(r, http.StatusServiceUnavailable, []byte(hostile))
		case hostileTexts.Load():
			return rewriteTexts(r, ofTexts)
		}
		return nil
	})
	file := writeFile(t, suite.Manifests(large("one", "a"), loginSecret(hidden)))
	dev := develop(t, kubeconfig, ns, "-f", file)
	at := dev.await(t, 0, "applied  ", "generation 1, 2 objects")
	requireParts(t, ns, 1, 1)
	broken.Store(true)
	require.NoError(t, os.WriteFile(file, []byte(suite.Manifests(large("one", "b"), loginSecret(hidden+"-new"))), 0o600))
	at = dev.await(t, at, "failed   ", "this is tried again")
	broken.Store(false)
	at = dev.await(t, at, "applied  ", "generation 2, 2 objects")
	suite.Await(t, func(c *assert.CollectT) { requireParts(c, ns, 1, 1) }) // the former ones are gone
	cm := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "one"}, cm))
	require.True(t, strings.HasPrefix(cm.Data["text"], "b"))

	hostileTexts.Store(true)
	require.NoError(t, cluster.MergePatch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "login"}}, `{"stringData":{"password":"%s-theirs"}}`, hidden))
	cluster.AwaitEvent(t, cluster.GetVidraResource(t, ns), corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.password")
	dev.await(t, at, "reverted ", "")
	hostileTexts.Store(false)

	require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
	cluster.AwaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	at = dev.await(t, at, "remark   ", "was deleted")
	require.NoError(t, os.WriteFile(file, []byte(suite.Greeting("greeting", "again")), 0o600))
	awaitGreeting(t, ns, "greeting", "again")
	dev.await(t, at, "applied  ", "generation 1, 1 object")
	dev.interrupt(t)
	requireHidden(t, "vidra dev", dev.text())
	requireGraphic(t, "vidra dev", dev.text())

	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no file": {nil, "name a file: `vidra dev dev-faults -f FILE`"},
		"missing": {[]string{"-f", "nowhere.yaml"}, "nowhere.yaml: no such file"},
		"URL":     {[]string{"-f", "https://example.com/a.yaml"}, "cannot be watched"},
		"stdin":   {[]string{"-f", "-"}, "cannot be watched"},
	} {
		a := vidra(t, append([]string{"dev", ns}, tt.args...)...)
		require.Equal(t, 1, a.code, name)
		require.Contains(t, a.stderr, tt.want)
	}
}

// TestDevKustomization saves the files of a kustomization and of its base while `vidra dev -k` runs. A kustomization that cannot be built, and one
// whose files are saved one after the other, removes nothing.
func TestDevKustomization(t *testing.T) {
	t.Parallel()
	const ns = "dev-kustomization"
	makeNamespace(t, ns)
	cluster.RemoveAtEnd(t, ns)
	folder := t.TempDir()
	save := writeIn(t, folder)
	save("base/kustomization.yaml", "resources: [one.yaml, two.yaml]\n")
	save("base/one.yaml", suite.Greeting("one", "first"))
	save("base/two.yaml", suite.Greeting("two", "first"))
	save("overlay/kustomization.yaml", "resources: [../base]\npatches: [{path: patch.yaml}]\n")
	save("overlay/patch.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {stage: dev}\n")
	dev := develop(t, cluster.KubeconfigPath, ns, "-k", filepath.Join(folder, "overlay"))
	at := dev.await(t, 0, "applied  ", "generation 1, 2 objects")
	two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "two"}}
	uid := cluster.Get(t, two).GetUID()
	kept := func() {
		t.Helper()
		require.Equal(t, uid, cluster.Get(t, two).GetUID())
		require.Contains(t, cluster.GetVidraResource(t, ns).Spec.Manifest, "name: two")
	}

	// A file of the base, and a patch of the overlay.
	save("base/one.yaml", suite.Greeting("one", "second"))
	awaitGreeting(t, ns, "one", "second")
	at = dev.await(t, at, "applied  ", "generation 2, 2 objects")
	save("overlay/patch.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {stage: dev, greeting: patched}\n")
	awaitGreeting(t, ns, "one", "patched")
	at = dev.await(t, at, "applied  ", "generation 3, 2 objects")

	// Broken in each of its files; the texts are not quoted.
	for name, text := range map[string]string{
		"base/two.yaml":              suite.Greeting("two", hidden) + "broken: [\n",
		"base/kustomization.yaml":    "resources: [one.yaml, none.yaml]\n",
		"overlay/kustomization.yaml": "resources: [../base]\npatches: [{path: none.yaml}]\n",
	} {
		before, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		save(name, text)
		at = dev.await(t, at, "broken   ", "kustomization in ")
		kept()
		save(name, string(before))
		at = dev.await(t, at, "saved    ", "")
		kept()
	}

	// A file is empty for a moment.
	save("base/two.yaml", "")
	at = dev.await(t, at, "broken   ", "two.yaml")
	kept()
	save("base/two.yaml", suite.Greeting("two", "third"))
	awaitGreeting(t, ns, "two", "third")
	at = dev.await(t, at, "applied  ", "2 objects")
	kept()

	// A file is removed, and then its name from the kustomization.
	require.NoError(t, os.Remove(filepath.Join(folder, "base", "two.yaml")))
	at = dev.await(t, at, "broken   ", "kustomization in ")
	kept()
	save("base/kustomization.yaml", "resources: [one.yaml]\n")
	at = dev.await(t, at, "waiting  ", "1 object would be removed")
	cluster.AwaitGone(t, two)
	dev.await(t, at, "applied  ", "1 object")
	dev.interrupt(t)
	requireHidden(t, "vidra dev -k", dev.text())
}
