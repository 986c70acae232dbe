package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testifyassert "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// assert is what the function of EventuallyWithT gets.
type assert = testifyassert.CollectT

func readPIDs(t *testing.T, files []string) []int {
	t.Helper()
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, 0), "%s runs", f)
		pids = append(pids, pid)
	}
	return pids
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !runs(pid) }, 10*time.Second, poll, "process %d is gone", pid)
	}
}

// runs says whether a process exists and is more than an entry that its parent
// has not read yet.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func TestLeashKillsWhenItsHolderDies(t *testing.T) {
	run, remove := t.TempDir(), filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(remove, 0o700))
	l, err := newLeash(run, remove)
	require.NoError(t, err)
	ours, theirs := exec.Command("sleep", "60"), exec.Command("sleep", "60")
	require.NoError(t, ours.Start())
	require.NoError(t, theirs.Start())
	require.NoError(t, l.add("ours", ours.Process.Pid))
	require.NoError(t, l.add("forgotten", theirs.Process.Pid))
	l.remove("forgotten")

	require.NoError(t, l.pipe.Close()) // what the kernel does when a process dies
	require.Error(t, ours.Wait(), "the process on the leash was killed")
	require.NoError(t, l.cmd.Wait())
	require.NoDirExists(t, remove, "what the holder would have removed is removed")
	require.True(t, runs(theirs.Process.Pid), "a process that was forgotten lives")
	require.NoError(t, theirs.Process.Kill())
	require.Error(t, theirs.Wait())
}

func TestLeashLetsGo(t *testing.T) {
	run, keep := t.TempDir(), t.TempDir()
	l, err := newLeash(run, keep)
	require.NoError(t, err)
	sleep := exec.Command("sleep", "60")
	require.NoError(t, sleep.Start())
	require.NoError(t, l.add("sleep", sleep.Process.Pid))
	l.letGo()
	require.DirExists(t, keep)
	require.True(t, runs(sleep.Process.Pid))
	require.NoError(t, sleep.Process.Kill())
	require.Error(t, sleep.Wait())
}

func TestLeashWrapsProcessesOfOthers(t *testing.T) {
	l, err := newLeash(filepath.Join(t.TempDir(), "it's here"), "")
	require.NoError(t, err)
	defer l.letGo()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	wrapped, err := l.wrapper(sleep, "A=b")
	require.NoError(t, err)
	cmd := exec.Command(wrapped, "60")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(l.file("sleep"))
		return err == nil && strings.TrimSpace(string(b)) == strconv.Itoa(cmd.Process.Pid)
	}, 10*time.Second, poll, "the wrapper notes its process id")
	l.kill("sleep")
	require.Error(t, cmd.Wait(), "killed by the id that was noted")
}
