package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is an executable that runs with its output in a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd

	// done is closed when the process has ended; err is valid from then on.
	done chan struct{}
	err  error
}

// processOptions says what startProcess starts.
type processOptions struct {
	// name of the process, unique within the Env.
	name string
	// path of the executable, its args and additions to the environment.
	path      string
	args, env []string
	// log is the file that receives the output.
	log string
	// tee receives the output too, when it is not nil.
	tee io.Writer
}

// startProcess starts a process on a leash, in a process group of its own:
// ctrl-C in a terminal goes to us, and we end it in order.
func startProcess(l *leash, o processOptions) (*process, error) {
	log, err := os.Create(o.log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.name, err)
	}
	cmd := exec.Command(o.path, o.args...)
	cmd.Env = append(os.Environ(), o.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out io.Writer = log
	if o.tee != nil {
		out = io.MultiWriter(log, o.tee)
		cmd.WaitDelay = 5 * time.Second
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", o.name, err), log.Close())
	}
	p := &process{name: o.name, log: o.log, cmd: cmd, done: make(chan struct{})}
	noted := l.add(o.name, cmd.Process.Pid)
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
		l.remove(o.name)
		_ = log.Close()
	}()
	if noted != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", o.name, noted), p.kill())
	}
	return p, nil
}

// running says whether the process has not ended.
func (p *process) running() bool { return isOpen(p.done) }

// ended implements runner.
func (p *process) ended() <-chan struct{} { return p.done }

// failure implements runner.
func (p *process) failure() error { return p.err }

// stop asks the process to end and waits for it. It returns an error when the
// process had ended before, ends with a code other than 0, or takes longer than
// the timeout; then it is killed.
func (p *process) stop(timeout time.Duration) error {
	if !p.running() {
		return fmt.Errorf("%s had ended before it was stopped: %s; %s", p.name, exitString(p.err), p.tail())
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%s did not end cleanly: %w; %s", p.name, p.err, p.tail())
		}
		return nil
	case <-time.After(timeout):
		return errors.Join(
			fmt.Errorf("%s did not end within %s of SIGTERM; %s", p.name, timeout, p.tail()),
			p.kill())
	}
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// tail returns the last lines of the log.
func (p *process) tail() string {
	return tailFile(p.log)
}

// tailFile returns what matters most of a log, with its name: the first report
// of the race detector, else the last lines. Where it cannot be read, it says
// why.
func tailFile(path string) string {
	const most, mostOfRace = 30, 60
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if race := slices.Index(lines, "WARNING: DATA RACE"); race >= 0 {
		end := min(len(lines), race+mostOfRace)
		return "a data race in " + path + ":\n  " + strings.Join(lines[race:end], "\n  ")
	}
	return "the end of " + path + ":\n  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}

// exitString says how a process ended.
func exitString(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
