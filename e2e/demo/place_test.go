package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir()) // outside of the checkout
	tests := map[string]struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		"help":     {reason: "help lists the flags", args: []string{"--help"}, want: "-keep"},
		"flag":     {reason: "a typo is an error", args: []string{"--kep"}, code: exitFailed, want: "-kep"},
		"argument": {reason: "so is an argument", args: []string{"now"}, code: exitFailed, want: `"now"`},
		"no checkout": {
			reason: "the demo says what to do before anything starts", code: exitFailed, want: "change to one and try again",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, tt.code, exitCode(run(t.Context(), tt.args, os.Stdout, &out), &out), tt.reason)
			require.Contains(t, out.String(), tt.want, tt.reason)
		})
	}
}

func TestKubeconfigIsMissing(t *testing.T) {
	err := run(t.Context(), []string{"--kubeconfig", "missing"}, os.Stdout, os.Stderr)
	require.ErrorContains(t, err, "--kubeconfig missing: ", "the error names the file")
}

func TestUnreachableCluster(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}]}`
	require.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	err := run(t.Context(), []string{"--kubeconfig", kubeconfig}, os.Stdout, os.Stderr)
	require.ErrorContains(t, err, "reach the API server at http://127.0.0.1:1")
}

func TestInterrupted(t *testing.T) {
	failed := errors.New("failed")
	require.ErrorIs(t, interrupted(t.Context(), failed), failed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, interrupted(ctx, failed), errInterrupted, "what fails after ctrl-C fails because of it")
	require.NoError(t, interrupted(ctx, nil), "what has succeeded has succeeded")
}

func TestExplain(t *testing.T) {
	log := filepath.Join(t.TempDir(), "operator.log")
	require.NoError(t, os.WriteFile(log, []byte(strings.Repeat("old\n", 30)+"new\n"), 0o600))
	failed := errors.New("failed")

	theirs := &place{}
	require.Equal(t, failed, theirs.explain(t.Context(), failed))

	own := &place{process: &testenv.Operator{Log: log}}
	err := own.explain(t.Context(), failed)
	require.ErrorIs(t, err, failed)
	require.True(t, strings.HasSuffix(err.Error(), strings.Repeat("old\n", 19)+"new"), "with the end of the log")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("%w: exit status 2", errPlace))
	require.EqualError(t, own.explain(ctx, failed), "the operator ended during the tour: exit status 2")
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &printer{Out: &out}}
	n, err := fmt.Fprint(p, "building etcd\nbuilding etcd: 15s\n")
	require.NoError(t, err)
	require.Equal(t, 33, n)
	require.Equal(t, "  building etcd\n  building etcd: 15s\n", out.String())
}
