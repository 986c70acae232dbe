package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// kubeconfigFlag is a flag of every child.
	kubeconfigFlag = "kubeconfig"
	// childReady is the line of a child that works on until its end, when it has prepared its work.
	childReady = "ready"
)

// child is this program in another process, with a sub-command of its own. It ends
// with this process, or with stop.
type child struct {
	// what it is, for errors.
	what string
	cmd  *exec.Cmd
	hold io.WriteCloser
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

// startReady starts a sub-command, and returns when it has printed childReady.
func startReady(ctx context.Context, what string, args ...string) (*child, error) {
	c, err := startChild(ctx, what, args...)
	if err != nil {
		return nil, err
	}
	if err := c.await(childReady); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// childFlags are the flags of a sub-command, for childConfig.
func childFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.String(kubeconfigFlag, "", "The kubeconfig of an account for it.")
	return fs
}

// childConfig parses the arguments of a child, and returns how it reaches the API server. client-go does not
// hold its requests back.
func childConfig(fs *flag.FlagSet, args []string) (*rest.Config, error) {
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", fs.Lookup(kubeconfigFlag).Value.String())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// untilParentEnds returns a context that ends with ctx, and when in, the standard input of a
// child, ends: the parent is gone then, or has called stop.
func untilParentEnds(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx, cancel
}

// await waits until the child prints a line.
func (c *child) await(line string) error {
	if got, _ := c.out.ReadString('\n'); got != line+"\n" {
		return fmt.Errorf("%s did not become %s", c.what, line)
	}
	return nil
}

// finish ends the child, and reads what it prints at its end.
func (c *child) finish(into any) error {
	_ = c.hold.Close()
	err := json.NewDecoder(c.out).Decode(into)
	if stopped := c.stop(); stopped != nil {
		err = stopped
	}
	return err
}

// stop ends the child, and returns an error if it had failed.
func (c *child) stop() error {
	_ = c.hold.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	return nil
}
