package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// test runs the tests of the packages, and lists those that were skipped.
func (r *run) test(ctx context.Context, variables []string) error {
	var errs []error
	for _, one := range r.packages {
		if err := r.testPackage(ctx, one, variables); err != nil {
			errs = append(errs, fmt.Errorf("running the tests of %s: %w", one, err))
		}
	}
	r.listSkipped()
	if len(errs) == 0 {
		r.say("all other tests passed")
	}
	return errors.Join(errs...)
}

// testPackage runs the tests of a package. What e2e/deployed measures is printed.
func (r *run) testPackage(ctx context.Context, path string, variables []string) error {
	args := []string{"test", "-count=1", "-timeout=" + r.timeout.String()}
	if strings.HasSuffix(path, "/deployed") {
		args = append(args, "-v")
	}
	if r.only != "" {
		args = append(args, "-run="+r.only)
	}
	if r.except != "" {
		args = append(args, "-skip="+r.except)
	}
	tests := exec.CommandContext(ctx, "go", append(args, path)...)
	tests.Dir = r.root
	tests.Env = slices.Concat(os.Environ(), variables, []string{"VIDRA_E2E_SKIPPED=" + r.skippedFile()})
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	tests.Cancel = func() error { return tests.Process.Signal(syscall.SIGINT) }
	tests.WaitDelay = 10 * time.Second
	return tests.Run()
}
