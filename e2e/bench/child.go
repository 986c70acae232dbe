package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// child is this program in another process, with a sub-command of its own. It ends
// with this process, or with stop.
type child struct {
	// what it is, for errors.
	what string
	cmd  *exec.Cmd
	hold io.Closer
	out  *bufio.Reader
}

// startChild starts a sub-command. what is what it is, for errors.
func startChild(ctx context.Context, what string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", what, err)
	}
	return &child{what: what, cmd: cmd, hold: hold, out: bufio.NewReader(out)}, nil
}

// await waits until the child prints a line.
func (c *child) await(line string) error {
	if got, _ := c.out.ReadString('\n'); got != line+"\n" {
		return fmt.Errorf("%s did not become %s", c.what, line)
	}
	return nil
}

// stop ends the child, and returns an error if it had failed.
func (c *child) stop() error {
	_ = c.hold.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	return nil
}
