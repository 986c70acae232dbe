package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArguments: a command says what an argument is that it does not want, and which command takes it.
func TestArguments(t *testing.T) {
	folder := t.TempDir()
	plain := filepath.Join(folder, "manifest")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"diff":          {reason: "a forgotten -f", args: []string{"diff", "new.yaml"}, want: `"new.yaml" is a file: use ` + "`vidra diff -f new.yaml`"},
		"forecast":      {reason: "a forgotten -f", args: []string{"forecast", "new.yml"}, want: `"new.yml" is a file: use ` + "`vidra forecast -f new.yml`"},
		"lint":          {reason: "a forgotten -f", args: []string{"lint", "new.yaml"}, want: `"new.yaml" is a file: use ` + "`vidra lint -f new.yaml`"},
		"status":        {reason: "a command without -f", args: []string{"status", "new.yaml"}, want: `"new.yaml" is a file: use ` + "`vidra diff -f new.yaml`"},
		"file":          {reason: "of any name, if it exists", args: []string{"diff", plain}, want: `is a file: use ` + "`vidra diff -f " + plain + "`"},
		"object":        {reason: "no VidraResource", args: []string{"status", "deployment/web"}, want: `"deployment/web" is an object: use ` + "`vidra why deployment/web -n NAMESPACE`"},
		"namespace":     {reason: "as it was given", args: []string{"tree", "deployment/web", "-n", "shop"}, want: "`vidra why deployment/web -n shop`"},
		"get":           {reason: "kubectl get takes it", args: []string{"get", "deployment/web"}, want: `"deployment/web" is an object`},
		"events":        {reason: "a flag takes it", args: []string{"events", "deployment/web"}, want: "`vidra events --for deployment/web -n NAMESPACE`"},
		"vidraresource": {reason: "an object that is a VidraResource", args: []string{"why", "vidraresource/web"}, want: `"vidraresource/web" is a VidraResource: use ` + "`vidra status web`"},
		"two words":     {reason: "KIND NAME", args: []string{"why", "vr", "web"}, want: `"vr/web" is a VidraResource: use ` + "`vidra status web`"},
		"kind":          {reason: "the command takes its name", args: []string{"tree", "vidraresources.infrahub.operators.com/web"}, want: "`vidra tree web`"},
		"name":          {reason: "of the wrong form", args: []string{"why", "web"}, want: `"web": want KIND/NAME or KIND.GROUP/NAME, such as configmap/settings, and the namespace with -n; about a VidraResource: ` + "`vidra status web`"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := newRoot()
			root.SetArgs(tt.args)
			err := root.ExecuteContext(t.Context())
			require.ErrorContains(t, err, tt.want, tt.reason)
		})
	}
	for _, command := range []string{"diff", "forecast"} {
		root := newRoot()
		root.SetArgs([]string{command, "new.yaml"})
		exit := (*exitError)(nil)
		require.ErrorAs(t, root.ExecuteContext(t.Context()), &exit)
		require.Equal(t, exitDiffFailed, exit.code, "1 means differences")
	}
	for _, args := range [][]string{{"orphan", "deployment/web"}, {"orphan", "web"}, {"history", "deployment/web"}, {"why", "deployment", "web"}} {
		cmd, rest, err := newRoot().Find(args)
		require.NoError(t, err)
		require.NoError(t, cmd.ValidateArgs(rest), args)
	}
}

func TestLintWithoutFile(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"lint"})
	require.EqualError(t, root.ExecuteContext(t.Context()), "name a file: `vidra lint -f FILE`")
}
