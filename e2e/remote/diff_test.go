package remote

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// cli runs vidra with a kubeconfig.
type cli func(t require.TestingT, kubeconfig string, args ...string) (stdout, stderr string, code int)

// newCLI builds vidra.
func newCLI(t *testing.T) cli {
	t.Helper()
	binary, err := testenv.BuildCLI(t.Context(), os.Stderr, suite.Race)
	require.NoError(t, err)
	return func(t require.TestingT, kubeconfig string, args ...string) (stdout, stderr string, code int) {
		var out, said bytes.Buffer
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = &out, &said
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+filepath.Dir(here.KubeconfigPath))
		if err := cmd.Run(); err != nil {
			require.ErrorAs(t, err, new(*exec.ExitError))
		}
		return out.String(), said.String(), cmd.ProcessState.ExitCode()
	}
}

// TestDiffOfADestination compares objects in another cluster, with the kubeconfig that the operator uses. The
// error for a user who may not read that says so.
func TestDiffOfADestination(t *testing.T) {
	t.Parallel()
	vidra := newCLI(t)
	d, _ := newDestination(t)
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)
	out, said, code := vidra(t, here.KubeconfigPath, "diff", d.name)
	require.Equal(t, "Dry run: nothing was written.\nVidraResource "+d.name+": 1 object is unchanged\n", out, said)
	require.Equal(t, 0, code)
	_, said, code = vidra(t, here.KubeconfigPath, "suspend", d.name)
	require.Equal(t, 0, code, said)
	here.AwaitCondition(t, d.name, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"bye"}}`)
	out, said, code = vidra(t, here.KubeconfigPath, "diff", d.name)
	require.Equal(t, 1, code, said)
	require.Contains(t, out, "~ change ConfigMap "+d.name+"/page")
	require.Contains(t, out, "-  greeting: bye\n    +  greeting: hello\n")
	require.Equal(t, "bye", there.says(t, d.name, "page"), "nothing is written")
	out, said, code = vidra(t, here.KubeconfigPath, "forecast", d.name)
	require.Equal(t, 1, code, said)
	require.Contains(t, out, `field manager "person" writes data.greeting: this will fight`)

	here.MakeNamespace(t, d.name)
	here.newAccount(t, d.name, "reader")
	require.NoError(t, here.Admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-vidraresource-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: d.name, Name: "reader"}},
	}))
	reader, err := here.ServiceAccountKubeconfig(t.Context(), d.name, "reader")
	require.NoError(t, err)
	await(t, func(c *assert.CollectT) { // the API server learns of a ClusterRoleBinding soon
		out, said, code := vidra(c, reader, "diff", d.name)
		require.Equal(c, 2, code)
		require.Empty(c, out)
		require.Contains(c, said, "VidraResource "+d.name+" applies to "+d.url()+": a dry run there is not possible: you may not read its kubeconfig: "+
			"ask for the right to list Secrets in namespace vidra-system")
		for _, measure := range [][]string{{"drill", d.name}, {"expect", "healed", "configmap/page", "-n", d.name}} {
			_, said, code = vidra(c, reader, measure...)
			require.Equal(c, 2, code)
			require.Contains(c, said, "you may not read its kubeconfig")
		}
	})

	_, said, code = vidra(t, here.KubeconfigPath, "diff", d.name, "--kubeconfig-namespace", d.name)
	require.Equal(t, 2, code)
	require.Contains(t, said, "no Secret with the label cluster-kubeconfig in namespace "+d.name+" has a kubeconfig for")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: d.name}}
	here.edit(t, secret, `{"metadata":{"annotations":{"vidraresource.infrahub.operators.com/allowed-vidraresources":"other"}}}`)
	_, said, code = vidra(t, here.KubeconfigPath, "diff", d.name)
	require.Equal(t, 2, code)
	require.Contains(t, said, "allowed-vidraresources")
	here.edit(t, secret, `{"metadata":{"annotations":{"vidraresource.infrahub.operators.com/allowed-vidraresources":null}}}`)
}

// TestDiffOfMovesBetweenURLs: the diff shows a move to a VidraResource at another URL of the same cluster, also while that does not answer. An object
// of the name in the manifest of another cluster is another one.
func TestDiffOfMovesBetweenURLs(t *testing.T) {
	t.Parallel()
	vidra := newCLI(t)
	ns := unique(t)
	there.MakeNamespace(t, ns)
	here.MakeNamespace(t, ns)
	first, _ := anotherURL(t, there)
	second, proxy := anotherURL(t, there)
	one, two, three := ns+"-one", ns+"-two", ns+"-three"
	newVidraResource(t, first, ns, manifests(greeting("stays", "hello"), greeting("page", "hello"), greeting("gone", "hello")), named(one))
	newVidraResource(t, second, ns, greeting("other", "hello"), named(two))
	newVidraResource(t, "", ns, greeting("gone", "hello"), named(three))
	for _, name := range []string{one, two, three} {
		awaitReady(t, name)
	}
	document := func(name, server string, manifest string) string {
		return fmt.Sprintf("apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata:\n  name: %s\nspec:\n  destination:\n    namespace: %s\n    server: %s\n  manifest: %q\n",
			name, ns, server, manifest)
	}
	file := filepath.Join(t.TempDir(), "both.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifests(document(one, first, greeting("stays", "hello")),
		document(two, second, manifests(greeting("other", "hello"), greeting("page", "goodbye"))))), 0o600))
	out, said, code := vidra(t, here.KubeconfigPath, "diff", "-f", file)
	require.Equal(t, 1, code, said)
	require.Contains(t, out, "> move ConfigMap "+ns+"/page\n    to VidraResource "+two+", which has it in its manifest\n")
	require.Contains(t, out, "\n    from VidraResource "+one)
	require.Contains(t, out, "- delete ConfigMap "+ns+"/gone\n")
	require.NotContains(t, out, "delete ConfigMap "+ns+"/page")

	// The status has the identity of a cluster that does not answer.
	require.Equal(t, clusterUID(t, there), getVidraResource(t, two).Status.ClusterUID)
	proxy.Down()
	setManifest(t, two, manifests(greeting("other", "hello"), greeting("page", "goodbye")))
	out, said, _ = vidra(t, here.KubeconfigPath, "diff", one, "-f", file)
	require.Contains(t, out, "> move ConfigMap "+ns+"/page\n    to VidraResource "+two, said)
	require.NoError(t, proxy.Up())
}
