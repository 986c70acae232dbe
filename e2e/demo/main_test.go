package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// demoEnv makes this test binary run the demo, with the arguments that it gets.
const demoEnv = "VIDRA_DEMO"

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if os.Getenv(demoEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDemo runs the demo with --keep as a person does, and further tours on the
// one control plane that it starts.
func TestDemo(t *testing.T) {
	demo := start(t, "--keep")
	demo.await("Ctrl-C ends it.")
	demo.says("All objects are applied (4)", "reverted after", "Vlan default/office", "it was not restarted",
		"DriftCorrected", "ChangeReverted", "All it applied (4) is gone", "All of it happened")
	kubeconfig := demo.find(`export KUBECONFIG=(\S+)`)
	operator, err := strconv.Atoi(demo.find(`The operator is process (\d+), with the rights`))
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)

	t.Run("nothing that exists is taken", func(t *testing.T) {
		second := start(t, "--kubeconfig", kubeconfig)
		require.Equal(t, 1, second.wait())
		second.says("exists already, and the tour would remove it")
	})
	here, err := newTour(options{Config: config, Samples: samples, Patience: 3 * time.Second})
	require.NoError(t, err)
	here.applied, here.defined = []*sample{here.web, here.first, here.custom}, true
	require.NoError(t, here.Leave(t.Context()), "what --keep had applied")
	requireAsFound(t, here)

	t.Run("on a cluster that runs Vidra", func(t *testing.T) {
		second := start(t, "--kubeconfig", kubeconfig)
		require.Equal(t, 0, second.wait(), second)
		second.says("All of it happened")
		requireAsFound(t, here)
	})
	t.Run("ctrl-C leaves nothing behind", func(t *testing.T) {
		second := start(t, "--kubeconfig", kubeconfig)
		second.await("2. Four edits")
		require.NoError(t, second.cmd.Process.Signal(os.Interrupt))
		require.Equal(t, 130, second.wait(), second)
		second.says("demo: interrupted")
		requireAsFound(t, here)
	})
	t.Run("an operator that does nothing", func(t *testing.T) {
		require.NoError(t, syscall.Kill(operator, syscall.SIGSTOP))
		defer func() { require.NoError(t, syscall.Kill(operator, syscall.SIGCONT)) }()
		err := here.Run(t.Context())
		require.ErrorContains(t, err, "no operator is at work")
		require.ErrorContains(t, err, "Deployment vidra-system/vidra-operator are available", "and what to look at")
		require.NoError(t, here.Leave(t.Context()))
		requireAsFound(t, here)
	})
	t.Run("a cluster without Vidra", func(t *testing.T) {
		crd := definitionOf(v1alpha1.GroupVersion.Group, "vidraresources")
		require.NoError(t, here.cluster.delete(t.Context(), crd))
		require.NoError(t, here.cluster.awaitAbsent(t.Context(), crd))
		second := start(t, "--kubeconfig", kubeconfig)
		require.Equal(t, 1, second.wait())
		second.says("does not serve VidraResources: install Vidra first")
	})

	require.NoError(t, demo.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 0, demo.wait(), "ctrl-C is how --keep ends: %s", demo)
	require.NoDirExists(t, filepath.Dir(kubeconfig))
	require.ErrorIs(t, syscall.Kill(operator, 0), syscall.ESRCH, "the operator is gone")
}

// requireAsFound checks that nothing of the tour is left.
func requireAsFound(t *testing.T, given *tour) {
	t.Helper()
	require.NoError(t, given.check(t.Context()))
}

func definitionOf(group, plural string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(plural + "." + group)
	return crd
}

// process is a demo that runs.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	// done is closed when it has ended.
	done chan struct{}

	// mu guards out.
	mu  sync.Mutex
	out bytes.Buffer
}

// start starts the demo. It is killed when the test ends before it.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), demoEnv+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p, p
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // wait returns the exit code
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// String is what it has printed.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// await waits until it prints text. The first run builds what is missing.
func (p *process) await(text string) {
	p.t.Helper()
	const patience = 15 * time.Minute
	timeout := time.After(patience)
	for !strings.Contains(p.String(), text) {
		select {
		case <-p.done:
			require.Contains(p.t, p.String(), text, "it has ended")
			return
		case <-timeout:
			require.Contains(p.t, p.String(), text, "after %s", patience)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// says checks that it has printed texts.
func (p *process) says(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		require.Contains(p.t, p.String(), text)
	}
}

// find is the group of a regular expression in what it has printed.
func (p *process) find(expression string) string {
	p.t.Helper()
	found := regexp.MustCompile(expression).FindStringSubmatch(p.String())
	require.Len(p.t, found, 2, "%s in %s", expression, p)
	return found[1]
}

// wait waits for its end and returns the exit code.
func (p *process) wait() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}
