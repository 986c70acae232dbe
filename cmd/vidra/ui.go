package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/ui"
)

const uiHelp = `Show VidraResources and their objects in the browser: an overview with problems first, edits
and reverts as they happen, the owner of each line of an object, how to keep a change, and
what a dropped YAML file would do.

The page is served on 127.0.0.1 by this command, with your kubeconfig: it shows what your
rights show, and nothing is installed in the cluster. The first line of the output is its
address, which has a random token: who has the address sees the page. Ctrl-C ends it.

With --allow-writes the page has buttons to suspend, resume and reconcile a VidraResource,
and to exempt or keep an object. Without it, it shows the commands.`

const uiExample = `  vidra ui
  vidra ui --port 8090 --no-open   # print the address, and open no browser
  vidra ui --allow-writes`

func newUI(k *kube) *cobra.Command {
	var port uint16
	var noOpen, allowWrites bool
	var operator operatorFlags
	cmd := &cobra.Command{
		Use: "ui", Short: "Show VidraResources, edits and reverts in the browser",
		Long: uiHelp, Example: uiExample, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := k.newPage(int(port), allowWrites, operator)
			if err != nil {
				return err
			}
			if err := printText(cmd.OutOrStdout(), server.URL()+"\n"); err != nil {
				return err
			}
			if !noOpen {
				if err := openBrowser(cmd.Context(), server.URL()); err != nil {
					printMessage(cmd.ErrOrStderr(), "no browser was opened: open the address above: "+err.Error())
				}
			}
			return server.Serve(cmd.Context())
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "the port of the page; a free one by default")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address only, and open no browser")
	operator.add(cmd)
	cmd.Flags().BoolVar(&allowWrites, "allow-writes", false, "have the page offer actions, with your rights")
	return cmd
}

// newPage returns the server of the page for the cluster of the flags.
func (k *kube) newPage(port int, allowWrites bool, operator operatorFlags) (*ui.Server, error) {
	config, err := k.config()
	if err != nil {
		return nil, err
	}
	namespace, err := k.namespace()
	if err != nil {
		return nil, err
	}
	raw, err := k.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	options, err := operator.options()
	if err != nil {
		return nil, err
	}
	return ui.New(ui.Options{
		Config: config, Cluster: cmp.Or(*k.Context, raw.CurrentContext, config.Host), Namespace: namespace,
		Program: options.Program, AllowWrites: allowWrites, Operator: options.Operator, KubeconfigNamespace: options.KubeconfigNamespace,
	}, port)
}

// openBrowser opens an address in the browser of the user. It returns at once.
func openBrowser(ctx context.Context, address string) error {
	commands := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}
	command, known := commands[runtime.GOOS]
	if !known {
		command = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], address)...) //nolint:gosec // a fixed program, and our own address
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // no more than a zombie would be lost
	return nil
}
