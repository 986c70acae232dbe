package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir()) // nothing is found in here
	tests := map[string]struct {
		reason string
		args   []string
		code   int
		says   string
	}{
		"nothing":  {reason: "a newcomer is told what there is", says: "vidra status                                   # is everything in order?"},
		"help":     {reason: "with examples", args: []string{"events", "--help"}, says: "vidra events web --watch"},
		"version":  {reason: "for bug reports", args: []string{"version"}, says: runtime.Version()},
		"unknown":  {reason: "a typo is an error", args: []string{"evnets"}, code: exitFailed, says: `unknown command "evnets"`},
		"argument": {reason: "so is an argument", args: []string{"version", "now"}, code: exitFailed, says: `"now"`},
		"parts of a new one": {
			reason: "the flag with the fault is named", args: []string{"create", "web", "-f", "web.yaml", "--parts-namespace", "A"},
			code: exitDiffFailed, says: `--parts-namespace "A": want the name of a namespace`,
		},
		"parts of dev": {
			reason: "the flag with the fault is named", args: []string{"dev", "web", "-f", "web.yaml", "--parts-namespace", "A"},
			code: exitFailed, says: `--parts-namespace "A": want the name of a namespace`,
		},
		"parts of a migration": {
			reason: "it is refused before the tool is stopped", args: []string{"migrate", "helm", "web", "--parts-namespace", "A"},
			code: exitDiffFailed, says: `--parts-namespace "A": want the name of a namespace`,
		},
		"no kubeconfig": {
			reason: "what is wrong with the file is said",
			args:   []string{"events", "--kubeconfig", "missing"}, code: exitFailed, says: "--kubeconfig missing: ",
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

func TestInterrupted(t *testing.T) {
	failed := errors.New("failed")
	require.ErrorIs(t, interrupted(t.Context(), failed), failed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, interrupted(ctx, failed), errInterrupted, "what fails after ctrl-C fails because of it")
	require.NoError(t, interrupted(ctx, nil), "what has succeeded has succeeded")
}

// TestOutputClosed has writes that fail with the same number of the system.
func TestOutputClosed(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	_, closed := writer.WriteString("text")
	require.NoError(t, writer.Close())

	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close() //nolint:errcheck // the test is over
	conn, err := net.Dial("tcp", server.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	_, cut := conn.Write([]byte("text"))
	require.NoError(t, conn.Close())

	for name, tt := range map[string]struct {
		reason string
		err    error
		code   int
	}{
		"reader":     {"head has read enough", closed, 0},
		"connection": {"a request did not reach the API server", &url.Error{Op: "Patch", URL: "https://127.0.0.1/", Err: cut}, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, tt.err, syscall.EPIPE)
			var said bytes.Buffer
			cmd := &cobra.Command{RunE: func(*cobra.Command, []string) error { return fmt.Errorf("writing: %w", tt.err) }, SilenceErrors: true, SilenceUsage: true}
			cmd.SetArgs(nil)
			cmd.SetErr(&said)
			require.Equal(t, tt.code, run(t.Context(), cmd), tt.reason)
			require.Equal(t, tt.code == 0, said.Len() == 0, said.String())
		})
	}
}

func TestCompletes(t *testing.T) {
	require.True(t, completes("/usr/bin/kubectl_complete-vidra"))
	require.False(t, completes("/usr/bin/kubectl-vidra"))
}
