package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes"
	"github.com/vidra-operator/vidra/pkg/writes/dev"
)

const devHelp = `Watch files, and apply each save to a VidraResource, for work on a cluster of your own.
It is made, or updated, as "vidra create --yes" does, and then again at each save. The output is what
was written, and from the status of the VidraResource what was applied, refused and reverted.

A broken file is shown with its line, and changes nothing. A save that removes objects is
applied once the files have been the same for a second, and a file that became empty
keeps its objects. Without the API server, the last save is written once it answers.

Ctrl-C ends the command. The VidraResource and its objects stay.`

const devExample = `  vidra dev shop -f manifests -n shop
  vidra dev shop -f manifests -R -n shop
  vidra dev shop -k overlay`

// devFlags holds the flags of the command.
type devFlags struct {
	kube     *kube
	files    filesFlags
	creation writes.Creation
	operator operatorFlags
}

func newDev(k *kube) *cobra.Command {
	f := &devFlags{kube: k}
	cmd := &cobra.Command{
		Use: "dev NAME -f FILE", Short: "Apply files at each save, and show the outcome",
		Long: devHelp, Example: devExample, ValidArgsFunction: k.completeName,
		Args: wants(cobra.ExactArgs(1), formName),
		RunE: f.run,
	}
	f.files.add(cmd, "a file or folder with a manifest; may be repeated")
	f.operator.add(cmd)
	addCreation(cmd, &f.creation)
	return cmd
}

func (f *devFlags) run(cmd *cobra.Command, names []string) (err error) {
	f.creation.Name = names[0]
	if !f.files.given() {
		return fmt.Errorf("name a file: `%s`", program.Hint("dev", f.creation.Name, "-f", "FILE"))
	}
	if err := f.kube.complete(&f.creation); err != nil {
		return err
	}
	session := &dev.Session{Options: dev.Options{Creation: f.creation, Paths: f.files.files, Kustomizations: f.files.kustomizations, Recursive: f.files.recursive}}
	if session.Options.Writes, err = f.operator.writes(f.kube); err != nil {
		return err
	}
	session.Options.Show = func(kind, text string) {
		_ = printText(cmd.OutOrStdout(), fmt.Sprintf("%s %-9s %s\n", time.Now().Format(time.TimeOnly), kind, render.Line(text)))
	}
	return session.Run(cmd.Context())
}
