package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

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
				closeFile, err := openBrowser(cmd.Context(), server.URL())
				defer closeFile()
				if err != nil {
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

// openedWithin is the time in which a browser reads the file with the address.
const openedWithin = time.Minute

// openBrowser opens an address in the browser of the user. It returns at once; closeFile removes the file with the address before its time.
// The program that opens the browser gets that file: all users of the machine see its arguments, and the address has the token.
func openBrowser(ctx context.Context, address string) (closeFile func(), err error) {
	file, remove, err := addressFile(address)
	if err != nil {
		return func() {}, err
	}
	commands := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}
	command, known := commands[runtime.GOOS]
	if !known {
		command = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], file)...) //nolint:gosec // a fixed program, and our own file
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		remove()
		return func() {}, err
	}
	go func() { _ = cmd.Wait() }() // no more than a zombie would be lost
	time.AfterFunc(openedWithin, remove)
	return remove, nil
}

// addressFile writes a file that leads a browser to an address and that the user alone may read. Its folder is in the home folder, and
// not a hidden one: browsers in a snap see neither hidden folders nor the folder of temporary files, which a user without a home has.
func addressFile(address string) (path string, remove func(), err error) {
	home, _ := os.UserHomeDir()
	dir, err := os.MkdirTemp(home, "vidra-ui-")
	if err != nil {
		dir, err = os.MkdirTemp("", "vidra-ui-")
	}
	if err != nil {
		return "", nil, fmt.Errorf("write a file for the browser: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) } // the token in it ends with the command
	path = filepath.Join(dir, "open.html")
	const page = "<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0; url=%[1]s\">\n<title>Vidra</title>\n<a href=\"%[1]s\">Vidra</a>\n"
	if err := os.WriteFile(path, fmt.Appendf(nil, page, address), 0o600); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a file for the browser: %w", err)
	}
	return path, remove, nil
}
