package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// leash makes sure that what this process starts does not outlive it, even
// when it is killed or panics: a shell waits on a pipe that only this process
// holds open. When the pipe closes without a word, this process is dead, and
// the shell kills every process whose id stands in a file of the folder.
//
// Linux has a parent-death signal for this, but that fires when the starting
// *thread* ends, macOS lacks it, and envtest does not set it.
type leash struct {
	// dir holds one file for each process: <name>.pid.
	dir  string
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// leashScript gets the folder of the process ids and, where that may go too, a
// folder to remove afterwards.
const leashScript = `
if read -r word; then exit 0; fi
for f in "$1"/*.pid; do
	if [ -f "$f" ]; then kill -9 "$(cat "$f")" 2>/dev/null; fi
done
if [ -n "$2" ]; then sleep 1; rm -rf "$2"; fi
`

// newLeash starts the shell. When this process dies without letting go, the
// shell also removes the folder named remove, unless that is empty.
func newLeash(dir, remove string) (*leash, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", leashScript, "vidra-testenv-leash", dir, remove)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ctrl-C is not for it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the shell that cleans up after a crash: %w", err)
	}
	return &leash{dir: dir, cmd: cmd, pipe: pipe}, nil
}

// wrapper writes a script that notes its process id and then becomes the
// executable, for processes that another package starts, and returns its path. env are additions to
// the environment.
func (l *leash) wrapper(executable string, env ...string) (string, error) {
	name := filepath.Base(executable)
	path := filepath.Join(l.dir, name)
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s\nexec env %s %s \"$@\"\n", shellQuote(l.file(name)), strings.Join(env, " "), shellQuote(executable))
	return path, os.WriteFile(path, []byte(script), 0o755)
}

// add notes the id of a process that this process started.
func (l *leash) add(name string, pid int) error {
	return os.WriteFile(l.file(name), []byte(strconv.Itoa(pid)+"\n"), 0o644)
}

// remove forgets a process that has ended: its id may be given to another.
func (l *leash) remove(name string) {
	_ = os.Remove(l.file(name))
}

// kill ends a process that another package started through a wrapper.
func (l *leash) kill(name string) {
	if pid, err := l.pid(name); err == nil && pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// pid returns the id of a process.
func (l *leash) pid(name string) (int, error) {
	b, err := os.ReadFile(l.file(name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// letGo ends the shell, which then kills nothing.
func (l *leash) letGo() {
	_, _ = io.WriteString(l.pipe, "done\n")
	_ = l.pipe.Close()
	_ = l.cmd.Wait()
}

func (l *leash) file(name string) string {
	return filepath.Join(l.dir, name+".pid")
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
