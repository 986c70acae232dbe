package main

import (
	"flag"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets this test binary be the processes that a benchmark starts, which
// are of the same executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRunRefuses(t *testing.T) {
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"nothing": {
			reason: "without a benchmark, the error names all", want: "There is: all, apply, change, heal",
		},
		"unknown": {
			reason: "with an unknown benchmark, too", args: []string{"heel"}, want: `no benchmark "heel", there is: all, apply, change, heal`,
		},
		"argument": {
			reason: "a forgotten dash is not ignored", args: []string{"heal", "rounds"}, want: `unexpected argument "rounds"`,
		},
		"flag": {
			reason: "flags are checked before anything starts", args: []string{"heal", "-round", "3"}, want: "-round",
		},
		"no rounds": {
			reason: "no round gives no figure", args: []string{"heal", "-rounds", "0"}, want: "at least one",
		},
		"few objects": {
			reason: "each kind that is edited has an object", args: []string{"heal", "-objects", "2"}, want: "at least 3",
		},
		"no resources": {
			reason: "no VidraResource gives no figure", args: []string{"apply", "-resources", "0"}, want: "-resources is 0",
		},
		"many edits": {
			reason: "only objects that exist can be edited", args: []string{"restart", "-damaged", "10001"}, want: "from 0 to the 10000",
		},
		"no objects": {
			reason: "no object gives no figure", args: []string{"memory", "-objects", "0"}, want: "-objects is 0",
		},
		"no owners": {
			reason: "each object belongs to a VidraResource", args: []string{"memory", "-per-resource", "0"}, want: "at least one",
		},
		"output": {
			reason: "a format that is not known is not guessed", args: []string{"heal", "-o", "yaml"}, want: "table or json",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, run(t.Context(), tt.args), tt.want, tt.reason)
		})
	}
}

func TestHelp(t *testing.T) {
	require.ErrorIs(t, run(t.Context(), []string{"heal", "-h"}), flag.ErrHelp)
	require.ErrorIs(t, parseFlags(flag.NewFlagSet("x", flag.ContinueOnError), io.Discard, []string{"-h"}), flag.ErrHelp)
}
