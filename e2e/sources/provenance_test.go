package sources

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// operatorConfig returns a file with the settings of the operator.
func operatorConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\nartifactHosts: [127.0.0.1]\n"), 0o600))
	return path
}

// command returns the command line of Vidra, which requires an exit code and returns what it prints.
func command(t *testing.T) func(code int, args ...string) string {
	t.Helper()
	program, err := testenv.BuildCLI(t.Context(), os.Stderr, suite.Race)
	require.NoError(t, err)
	home := t.TempDir()
	return func(code int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigPath, "HOME="+home)
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // the exit code counts
		require.Equal(t, code, cmd.ProcessState.ExitCode(), out.String())
		require.NotContains(t, out.String(), "hunter2")
		return out.String()
	}
}

// TestProvenance: Events, why, blame, tree, history, keep and the status name the source, the revision, the path and the line of an object of an
// artifact, also of one that a kustomization has renamed and patched, and also while a newer revision is broken.
func TestProvenance(t *testing.T) {
	const base = `# the page
apiVersion: v1
kind: ConfigMap
metadata:
  name: one
data:
  colour: blue
  greeting: hello # for visitors
---
apiVersion: v1
kind: Secret
metadata:
  name: login
stringData:
  password: hunter2
`
	vidra, config := command(t), operatorConfig(t)
	p := newProducer(t)
	for kind, path := range map[string]string{"GitRepository": "./prod", "OCIRepository": "base"} {
		t.Run(kind, func(t *testing.T) {
			define(t, kind)
			ns := cluster.NewNamespace(t)
			name, built := "one", path == "./prod"
			files := map[string]string{"base/all.yaml": base}
			if built {
				name = "p-one"
				files["base/kustomization.yaml"] = "resources: [all.yaml]\n"
				files["prod/kustomization.yaml"] = "resources: [../base]\nnamePrefix: p-\npatches: [{path: patch.yaml}]\n"
				files["prod/patch.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {colour: red}\n"
			}
			u := newSource(t, kind, ns, "app")
			p.publish(t, u, "main@sha1:1", files)
			cluster.NewVidraResource(t, ns, "", from(kind, "app", path))
			v := cluster.AwaitReadyFor(t, patience, ns)
			one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			require.NoError(t, cluster.Edit(one, mergePatchType, `{"data":{"greeting":"bye"}}`, client.FieldOwner("kubectl-edit")))
			event := cluster.AwaitEvent(t, v, corev1.EventTypeNormal, events.ReasonDriftCorrected, "", "data.greeting")
			suite.AwaitFor(t, patience, func(c *assertT) { require.NotEmpty(c, cluster.GetVidraResource(c, ns).Status.History) })

			at := kind + " " + ns + "/app, revision main@sha1:1, "
			file := at + "file base/all.yaml (spec.manifestFrom[0])"
			require.Contains(t, event.Note, file+", document 1, line 2")
			object := []string{"cm/" + name, "-n", ns, "--operator-config", config}
			why := vidra(0, append([]string{"why"}, object...)...)
			require.Contains(t, why, "defined in  "+file+", document 1, line 2")
			require.Contains(t, why, file+", document 1, line 8  (data.greeting)")
			blame := vidra(0, append([]string{"blame"}, object...)...)
			require.Contains(t, blame, "# "+ns+": "+file)
			require.Regexp(t, `document 1, line 8 +│   greeting: hello  # .*"kubectl-edit" had set it to "bye"`, blame)
			colour := `document 1, line 7 +│   colour: blue`
			if built {
				colour = `document 1, line 7 \(overridden\) +│   colour: red`
			}
			require.Regexp(t, colour, blame)
			path = strings.TrimPrefix(path, "./")
			require.Contains(t, vidra(0, "tree", ns), "Source: "+at+"path ")
			require.Contains(t, vidra(0, "status", ns), at+"path ")
			require.Contains(t, vidra(0, "history", ns), at+"path ")
			applied := cluster.GetVidraResource(t, ns).Status.Source
			require.Len(t, applied, 1)
			require.Equal(t, []string{kind, ns, "app", "main@sha1:1"}, []string{applied[0].Kind, applied[0].Namespace, applied[0].Name, applied[0].Revision})
			require.Equal(t, path, strings.TrimPrefix(applied[0].Path, "./"))
			require.Regexp(t, "^sha256:[0-9a-f]{64}$", applied[0].Digest)

			// The patch of the edit is one for the file in the repository.
			keep := vidra(0, append([]string{"keep"}, object...)...)
			for _, text := range []string{"line 8 of base/all.yaml", "--- a/base/all.yaml", "-  greeting: hello # for visitors", "+  greeting: bye # for visitors", kind + " " + ns + "/app has the file: commit the patch where it comes from"} {
				require.Contains(t, keep, text)
			}
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "base"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "base", "all.yaml"), []byte(base), 0o600))
			patch := filepath.Join(dir, "edit.patch")
			require.NoError(t, os.WriteFile(patch, []byte(keep), 0o600))
			git(t, dir, "apply", patch)
			written, err := os.ReadFile(filepath.Join(dir, "base", "all.yaml"))
			require.NoError(t, err)
			require.Equal(t, strings.Replace(base, "hello", "bye", 1), string(written))

			// A field that a patch sets is not changed in the file that it overrides.
			require.NoError(t, cluster.Edit(one, mergePatchType, `{"data":{"colour":"green"}}`, client.FieldOwner("kubectl-edit")))
			suite.AwaitFor(t, patience, func(c *assertT) {
				require.Contains(c, cluster.GetVidraResource(c, ns).Status.History[0].Fields, "data.colour")
			})
			keep = vidra(0, append([]string{"keep"}, object...)...)
			if built {
				require.Contains(t, keep, "base/all.yaml does not have the value of data.colour, which a patch, a setting or a variable of the kustomization sets: change that")
				require.NotContains(t, keep, "+++")
			} else {
				require.Contains(t, keep, "+  colour: green")
			}

			// A newer revision that is broken is not the one of the objects.
			files["base/all.yaml"] = "kind: [\n"
			p.publish(t, u, "main@sha1:2", files)
			cluster.AwaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "revision main@sha1:2", "base/all.yaml")
			require.NoError(t, cluster.Edit(one, mergePatchType, `{"data":{"greeting":"again"}}`, client.FieldOwner("kubectl-edit")))
			event = cluster.AwaitEvent(t, v, corev1.EventTypeNormal, events.ReasonDriftCorrected, "", `had set it to "again"`)
			require.Contains(t, event.Note, file)
			for _, command := range []string{"tree", "status", "history"} {
				require.Contains(t, vidra(codeOf(command), command, ns), at+"path ")
			}
			for _, command := range []string{"why", "blame"} {
				out := vidra(0, append([]string{command}, object...)...)
				require.NotContains(t, out, "defined in", "the manifest of the objects is not the one that is broken")
				require.NotContains(t, out, "# "+ns+": ")
				require.Contains(t, out, "main@sha1:2", "which cannot be read")
			}
		})
	}
}

// codeOf is the exit code of a command for a VidraResource that is not in order.
func codeOf(command string) int {
	if command == "status" {
		return 1
	}
	return 0
}
