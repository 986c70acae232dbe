package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// test runs the tests of the packages, and lists those that were skipped.
func (r *run) test(ctx context.Context, variables []string) error {
	args := []string{"test", "-count=1", "-p=1", "-timeout=" + r.timeout.String()}
	if r.only != "" {
		args = append(args, "-run="+r.only)
	}
	if r.except != "" {
		args = append(args, "-skip="+r.except)
	}
	tests := exec.CommandContext(ctx, "go", append(args, r.packages...)...)
	tests.Dir = r.root
	tests.Env = slices.Concat(os.Environ(), variables, []string{"VIDRA_E2E_SKIPPED=" + r.skippedFile()})
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	tests.Cancel = func() error { return tests.Process.Signal(syscall.SIGINT) }
	tests.WaitDelay = 10 * time.Second
	err := tests.Run()
	r.listSkipped()
	if err != nil {
		return fmt.Errorf("running the tests: %w", err)
	}
	r.say("all other tests passed")
	return nil
}
