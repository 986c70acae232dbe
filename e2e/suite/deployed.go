package suite

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// The environment variables by which tests run against an operator that is deployed in a
// cluster. Only the first one is required.
const (
	// KubeconfigVariable is the path of the kubeconfig of an administrator.
	KubeconfigVariable = "VIDRA_E2E_KUBECONFIG"
	// AuditLogVariable is the path of the audit log of the cluster's API server.
	AuditLogVariable = "VIDRA_E2E_AUDIT_LOG"
	// NodeShellVariable is the command that runs commands on nodes, such as "docker exec".
	NodeShellVariable = "VIDRA_E2E_NODE_SHELL"
	// AddressVariable is the address of this machine for the cluster.
	AddressVariable = "VIDRA_E2E_ADDRESS"
	// SkippedVariable is the path of a file to which the skipped tests are added.
	SkippedVariable = "VIDRA_E2E_SKIPPED"
)

// Deployed reports whether the tests run against an operator that is deployed in a cluster.
func Deployed() bool { return os.Getenv(KubeconfigVariable) != "" }

// connect returns the cluster that the environment names.
func connect(ctx context.Context) (*testenv.Env, error) {
	return testenv.Connect(ctx, testenv.ConnectOptions{
		Kubeconfig: os.Getenv(KubeconfigVariable),
		AuditLog:   os.Getenv(AuditLogVariable),
		NodeShell:  strings.Fields(os.Getenv(NodeShellVariable)),
	})
}

// BuildOperator builds the operator that tests start, with the race detector if the tests are.
// It builds none, and returns an empty path, where the operator is deployed.
func BuildOperator(ctx context.Context) (string, error) {
	if Deployed() {
		return "", nil
	}
	return testenv.BuildOperator(ctx, os.Stderr, Race)
}

// NeedsOwnControlPlane skips a test where the operator is deployed. why is what the test does
// that needs a control plane and operators as processes of this machine.
func NeedsOwnControlPlane(t *testing.T, why string) {
	t.Helper()
	if Deployed() {
		Skip(t, why)
	}
}

// NeedsNodes skips a test that runs commands on nodes where that is not possible.
func (c *Cluster) NeedsNodes(t *testing.T) {
	t.Helper()
	if Deployed() && !c.CanReachNodes() {
		Skip(t, "it runs commands on nodes, and "+NodeShellVariable+" is not set")
	}
}

// NeedsAuditLog skips a test that reads the audit log where that is not possible. A test calls it first if what
// it makes could not be deleted when it is skipped later.
func (c *Cluster) NeedsAuditLog(t *testing.T) {
	t.Helper()
	if c.AuditLog == "" {
		Skip(t, "it reads the audit log, and "+AuditLogVariable+" is not set")
	}
}

// AuditMark returns the end of the audit log as it is now. It skips the test where the audit
// log cannot be read.
func (c *Cluster) AuditMark(t *testing.T) testenv.AuditMark {
	t.Helper()
	c.NeedsAuditLog(t)
	return c.Env.AuditMark()
}

// skipped are the tests that were skipped, with why.
var skipped struct {
	sync.Mutex
	all []string
}

// Skip skips a test because of the cluster in which the operator is deployed.
func Skip(t *testing.T, why string) {
	t.Helper()
	skipped.Lock()
	skipped.all = append(skipped.all, t.Name()+": "+why)
	skipped.Unlock()
	t.Skip("skipped where the operator is deployed: " + why)
}

// RunTests does what testenv.RunTests does, and lists the tests that were skipped because the
// operator is deployed.
func RunTests(m *testing.M, setUp func(context.Context) error, stop func() error) int {
	code := testenv.RunTests(m, setUp, stop)
	if err := listSkipped(); err != nil {
		fmt.Fprintln(os.Stderr, "listing the skipped tests:", err)
		return 1
	}
	return code
}

// listSkipped prints the skipped tests, and adds them to the file that SkippedVariable names.
func listSkipped() error {
	skipped.Lock()
	defer skipped.Unlock()
	if len(skipped.all) == 0 {
		return nil
	}
	slices.Sort(skipped.all)
	lines := strings.Join(skipped.all, "\n") + "\n"
	fmt.Fprintf(os.Stderr, "%d tests were skipped, because the operator is deployed:\n%s", len(skipped.all), lines)
	path := os.Getenv(SkippedVariable)
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(lines)
	return cmp.Or(err, file.Close())
}
