package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// buildVidra builds the command line, with the race detector if the tests are.
func buildVidra(t *testing.T) string {
	t.Helper()
	binary, err := testenv.BuildCLI(t.Context(), os.Stderr, suite.Race)
	require.NoError(t, err)
	return binary
}

// writeKubeconfig writes a kubeconfig for a proxy, which asks for no credentials.
func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	k := api.NewConfig()
	k.Clusters["proxy"] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.Contexts["proxy"] = &api.Context{Cluster: "proxy"}
	k.CurrentContext = "proxy"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*k, path))
	return path
}

// commandLine runs a command of `vidra`.
type commandLine struct{ binary, kubeconfig, name string }

func (v commandLine) command(args []string) *exec.Cmd {
	cmd := exec.Command(v.binary, append([]string{v.name, "--kubeconfig", v.kubeconfig}, args...)...)
	// The race detector is slow to end otherwise. What the command line discovers is cached beside the control plane.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "HOME="+filepath.Dir(env.KubeconfigPath))
	return cmd
}

// run runs it to its end, and returns what it printed and its exit code.
func (v commandLine) run(t require.TestingT, args ...string) (stdout, stderr string, code int) {
	var out, said bytes.Buffer
	cmd := v.command(args)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// events is what it prints where nothing is wrong.
func (v commandLine) events(t *testing.T, args ...string) string {
	t.Helper()
	out, said, code := v.run(t, args...)
	require.Equal(t, 0, code, said)
	require.Empty(t, said)
	return out
}

// list are the Events that it lists, which must be in the order of their times.
func (v commandLine) list(t *testing.T, args ...string) []eventsv1.Event {
	t.Helper()
	var list struct {
		metav1.TypeMeta
		Items []eventsv1.Event
	}
	require.NoError(t, json.Unmarshal([]byte(v.events(t, append(args, "-o", "json")...)), &list))
	require.Equal(t, metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, list.TypeMeta)
	require.True(t, slices.IsSortedFunc(list.Items, func(a, b eventsv1.Event) int { return seen(a).Compare(seen(b).Time) }), "the newest is the last")
	return list.Items
}

func seen(e eventsv1.Event) metav1.MicroTime {
	if e.Series == nil {
		return e.EventTime
	}
	return e.Series.LastObservedTime
}

// start starts it. It is killed when the test ends before it.
func (v commandLine) start(t *testing.T, args ...string) *follower {
	t.Helper()
	f := &follower{cmd: v.command(args)}
	f.cmd.Stdout, f.cmd.Stderr = &f.stdout, &f.stderr
	require.NoError(t, f.cmd.Start())
	t.Cleanup(func() {
		if f.cmd.ProcessState == nil {
			_ = f.cmd.Process.Kill()
			_ = f.cmd.Wait() // it was killed
		}
	})
	return f
}

// follower is `vidra events --watch`.
type follower struct {
	cmd            *exec.Cmd
	stdout, stderr output
}

// interrupt is ctrl-C; it returns the exit code.
func (f *follower) interrupt(t *testing.T) int {
	t.Helper()
	require.NoError(t, f.cmd.Process.Signal(os.Interrupt))
	if err := f.cmd.Wait(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return f.cmd.ProcessState.ExitCode()
}

// events are the Events that it has printed, a line each. None is there twice.
func (f *follower) events(t require.TestingT) []eventsv1.Event {
	var all []eventsv1.Event
	printed := map[string]bool{}
	for line := range strings.Lines(f.stdout.String()) {
		var e eventsv1.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		key := fmt.Sprintf("%s %d", e.UID, countOf(e))
		require.False(t, printed[key], "twice: %s", line)
		printed[key] = true
		all = append(all, e)
	}
	return all
}

// awaitReasons waits until it has printed so many lines with each reason.
func (f *follower) awaitReasons(t *testing.T, want map[string]int) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		got := map[string]int{}
		for _, e := range f.events(c) {
			got[e.Reason]++
		}
		require.Equal(c, want, got, f.stderr.String())
	})
}

// counts are the counts in the lines with a reason, in order.
func (f *follower) counts(t *testing.T, reason string) []int32 {
	t.Helper()
	var counts []int32
	for _, e := range withReason(f.events(t), reason) {
		counts = append(counts, countOf(e))
	}
	return counts
}

// output is what a process printed.
type output struct {
	// mu guards text.
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String is the text so far, to the last whole line.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.String()
	return text[:strings.LastIndex(text, "\n")+1]
}
