package uninstall

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestDocsOfADeletedDefinition runs the commands of docs/operations.md after a deletion of the CustomResourceDefinition by mistake, while the operator runs
// and after it was deleted, too: each object has its uid, and is managed.
func TestDocsOfADeletedDefinition(t *testing.T) {
	_, recipe, found := strings.Cut(operations(t), "If the CustomResourceDefinition is deleted by mistake")
	require.True(t, found)
	_, recipe, _ = strings.Cut(recipe, "```\n")
	recipe, _, _ = strings.Cut(recipe, "```")
	shell := newShell(t)
	start := func() *testenv.Operator {
		operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary})
		require.NoError(t, err)
		t.Cleanup(func() { _ = operator.Stop(10 * time.Second) })
		return operator
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: testenv.OperatorDeployment}}
	for name, gone := range map[string]bool{"the operator runs": false, "the operator is gone": true} {
		t.Run(name, func(t *testing.T) {
			suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) { // a test before may have removed it
				require.NoError(c, env.Install(context.Background()))
			})
			operator := start()
			namespaces := []string{cluster.NewNamespace(t), cluster.NewNamespace(t)}
			uids := map[string]types.UID{}
			for _, ns := range namespaces {
				suite.Await(t, func(c *assert.CollectT) { require.NoError(c, admin.Create(context.Background(), vidraResource(ns))) })
				cluster.AwaitReady(t, ns)
				uids[ns] = cluster.Get(t, page(ns)).GetUID()
			}
			if gone {
				require.NoError(t, operator.Stop(10*time.Second))
				out, err := shell("kubectl delete -k config/default --wait=false")
				require.Error(t, err, "it is denied: %s", out)
				cluster.AwaitGone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testenv.OperatorNamespace}})
			} else {
				withoutPolicy(t, "vidra-definition-deletion", definition())
			}
			suite.Await(t, func(c *assert.CollectT) { // the API server forgets the policy a little later
				out, err := shell("kubectl delete --ignore-not-found --wait=false -k config/crd")
				require.NoError(c, err, out)
			})
			done := make(chan error, 1)
			go func() {
				out, err := shell("set -x\n" + recipe)
				t.Log(out)
				done <- err
			}()
			if gone {
				suite.Await(t, func(c *assert.CollectT) { require.True(c, cluster.Exists(c, deployment)) }, "the kubelet starts it then")
				start()
			}
			require.NoError(t, <-done)
			for _, ns := range namespaces {
				cluster.AwaitReady(t, ns)
				require.Equal(t, uids[ns], cluster.Get(t, page(ns)).GetUID())
			}
			for _, ns := range namespaces {
				require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
				cluster.AwaitGone(t, page(ns))
				cluster.AwaitGone(t, vidraResource(ns))
			}
		})
	}
}

// operations is the text of docs/operations.md.
func operations(t *testing.T) string {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	return string(text)
}

// newShell returns a function that runs commands of the docs, in a folder with config, and returns what they print.
func newShell(t *testing.T) func(script string) (string, error) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	bin, work := t.TempDir(), t.TempDir()
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{})
	require.NoError(t, err)
	require.NoError(t, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	require.NoError(t, os.Symlink(filepath.Join(root, "config"), filepath.Join(work, "config")))
	return func(script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script) //nolint:gosec // commands of the docs
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+env.KubeconfigPath, "KUBECACHEDIR="+bin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// TestSamplesAreRemoved runs the commands of docs/operations.md that apply the samples and remove them.
func TestSamplesAreRemoved(t *testing.T) {
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) { // a test before may have removed it
		require.NoError(c, env.Install(t.Context()))
	})
	operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary})
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Stop(10 * time.Second) })
	_, text, found := strings.Cut(operations(t), "To try it, apply the samples")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "### ")
	shell := newShell(t)
	for line := range strings.Lines(text) {
		command, is := strings.CutPrefix(line, "    ")
		if !is {
			continue
		}
		suite.Await(t, func(c *assert.CollectT) { // the API server may serve the kind a moment later
			out, err := shell("timeout 60 " + command)
			require.NoError(c, err, out)
			require.NotContains(c, out, "Warning")
		})
		if strings.HasPrefix(command, "kubectl apply ") {
			for _, name := range []string{"first-operator", "parts", "policies", "tenant", "web"} {
				cluster.AwaitReady(t, name)
			}
		}
	}
	left, err := shell("kubectl get vidraresources,configmaps,deployments,services --all-namespaces --selector managed-by=vidra --no-headers")
	require.NoError(t, err)
	require.Equal(t, "No resources found\n", left)
}
