package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/e2e/tour"
)

func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir()) // nothing is found in here
	tests := map[string]struct {
		reason string
		args   []string
		code   int
		says   string
	}{
		"nothing":  {reason: "a newcomer is told what there is", says: "Watch Vidra work"},
		"help":     {reason: "with examples", args: []string{"demo", "--help"}, says: "vidra demo --keep"},
		"version":  {reason: "for bug reports", args: []string{"version"}, says: runtime.Version()},
		"unknown":  {reason: "a typo is an error", args: []string{"dmeo"}, code: exitFailed, says: `unknown command "dmeo"`},
		"argument": {reason: "so is an argument", args: []string{"demo", "now"}, code: exitFailed, says: `"now"`},
		"no kubeconfig": {
			reason: "what is wrong with the file is said",
			args:   []string{"demo", "--kubeconfig", "missing"}, code: exitFailed, says: "--kubeconfig missing: ",
		},
		"no checkout": {
			reason: "what to do is said before anything starts",
			args:   []string{"demo"}, code: exitFailed, says: "change to one and try again, or name a cluster",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot()
			root.SetArgs(tt.args)
			root.SetOut(&out)
			root.SetErr(&out)
			require.Equal(t, tt.code, run(t.Context(), root), tt.reason)
			require.Contains(t, out.String(), tt.says, tt.reason)
		})
	}
}

func TestUnreachableCluster(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}]}`
	require.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"demo", "--kubeconfig", kubeconfig})
	root.SetErr(&out)
	require.Equal(t, exitFailed, run(t.Context(), root))
	require.Contains(t, out.String(), "reach the API server at http://127.0.0.1:1")
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
	p := &progress{out: &tour.Printer{Out: &out}}
	n, err := fmt.Fprint(p, "building etcd\nbuilding etcd: 15s\n")
	require.NoError(t, err)
	require.Equal(t, 33, n)
	require.Equal(t, "  building etcd\n  building etcd: 15s\n", out.String())
}
