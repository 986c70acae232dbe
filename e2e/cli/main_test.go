package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

var (
	// cluster is the control plane of all tests, with an operator.
	cluster = &suite.Cluster{}
	admin   client.Client
	// binary is the command line.
	binary string
)

func TestMain(m *testing.M) {
	if patch := os.Getenv(patchVariable); patch != "" {
		os.Exit(patchSettings(patch))
	}
	if suite.Deployed() {
		os.Exit(0) // the names of objects are those in testdata, and those of a cluster may be other ones
	}
	suite.Main(m, setUp, cluster.Stop)
}

// setUp starts what the tests share.
func setUp(ctx context.Context) (err error) {
	binary, err = cluster.StartWithCLI(ctx)
	admin = cluster.Admin
	return err
}

// makeNamespace makes a namespace of a name that is in testdata.
func makeNamespace(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// answer is what a command printed, and its exit code.
type answer struct {
	stdout, stderr string
	code           int
}

// vidra runs the command line as the administrator.
func vidra(t require.TestingT, args ...string) answer {
	return vidraAs(t, cluster.KubeconfigPath, args...)
}

// vidraAs runs the command line with a kubeconfig.
func vidraAs(t require.TestingT, kubeconfig string, args ...string) answer {
	return run(t, binary, kubeconfig, args...)
}

// vidraReading runs the command line as the administrator, with a text as its standard input.
func vidraReading(t require.TestingT, input string, args ...string) answer {
	return runReading(t, input, binary, cluster.KubeconfigPath, args...)
}

// run runs an executable of the command line.
func run(t require.TestingT, executable, kubeconfig string, args ...string) answer {
	return runReading(t, "", executable, kubeconfig, args...)
}

func runReading(t require.TestingT, input, executable, kubeconfig string, args ...string) answer {
	var out, said bytes.Buffer
	cmd := exec.Command(executable, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "KUBECONFIG="+kubeconfig, "HOME="+home())
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return answer{out.String(), said.String(), cmd.ProcessState.ExitCode()}
}

// home is where the command line caches what it discovers: in the folder of the control plane.
func home() string { return filepath.Dir(cluster.KubeconfigPath) }

// ok runs the command line, which must succeed and warn of nothing.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	a := vidra(t, args...)
	require.Equal(t, 0, a.code, a.stderr)
	require.Empty(t, a.stderr)
	return a.stdout
}

var (
	// ages and times depend on when a test runs; blanks on how long they are.
	ages   = regexp.MustCompile(`\b(\d+[smhd])+\b|<unknown>`)
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	blanks = regexp.MustCompile(` {3,}`)
	// pods are the names that controllers make up for what they create.
	pods = regexp.MustCompile(`\bweb-[0-9a-f]{8,10}(-[0-9a-z]{5})?\b`)
	// unread are remarks about VidraResources of other tests that are not Ready.
	unread = regexp.MustCompile(`\. It stays if VidraResource [^\n]*?, which is not known[^\n]*?(\. It is |\n)`)
)

// stable is an output without what another run prints otherwise.
func stable(output string) string {
	output = times.ReplaceAllString(output, "TIME")
	output = ages.ReplaceAllString(output, "AGE")
	output = pods.ReplaceAllString(output, "web-HASH")
	output = unread.ReplaceAllString(output, "${1}")
	lines := strings.Split(output, "\n")
	for i, line := range lines { // indentation counts
		indent := len(line) - len(strings.TrimLeft(line, " "))
		lines[i] = line[:indent] + blanks.ReplaceAllString(line[indent:], "   ")
	}
	return strings.Join(lines, "\n")
}

// golden requires that an output is the one in a file of testdata.
func golden(t require.TestingT, name, output string) {
	path := filepath.Join("testdata", name+".txt")
	if os.Getenv("VIDRA_GENERATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(stable(output)), 0o600))
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a file of this package
	require.NoError(t, err)
	require.Equal(t, string(want), stable(output), "%s: VIDRA_GENERATE=1 writes it anew", path)
}

// awaitText waits until a command prints a text.
func awaitText(t *testing.T, text string, args ...string) {
	t.Helper()
	suite.Await(t, func(c *assert.CollectT) {
		a := vidra(c, args...)
		require.Contains(c, a.stdout, text, a.stderr)
	})
}
