package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes"
)

const keepHelp = `Keep the last edit of an object: write the values that it had given to fields where the
manifest has them, with the comments and the order of the text. The manifest is in
spec.manifest or a ConfigMap, or in local files with -f, also inside of a
VidraResource in a file. The command shows the change, and writes it with --yes. For a
manifest from Git and other sources of Flux, it prints a patch for "git apply".

Values of Secrets, of sensitive objects and of environment variables are not recorded, nor are values
longer than 512 bytes: make those changes in the manifest.

Exit code 0 means that the edit is in the manifest, or that the patch was printed, 1 that --yes is
missing, and 2 that the command failed.`

const keepExample = `  vidra keep configmap/settings -n shop
  vidra keep configmap/settings -n shop --yes
  vidra keep deployment/web -n shop -f manifests --yes`

// keepFlags holds the flags of the command.
type keepFlags struct {
	kube     *kube
	files    filesFlags
	output   string
	yes      bool
	operator operatorFlags
}

func newKeep(k *kube) *cobra.Command {
	f := &keepFlags{kube: k}
	cmd := &cobra.Command{
		Use: "keep KIND/NAME [-f FILE]", Short: "Write the last edit of an object into its manifest",
		Long: keepHelp, Example: keepExample, ValidArgsFunction: k.completeObject,
		Args: func(cmd *cobra.Command, args []string) error {
			return diffError(wants(countObject, formObject)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return diffError(f.run(cmd, args))
		},
	}
	cmd.Flags().StringArrayVarP(&f.files.files, "filename", "f", nil, "a file or folder with the manifest, or with the VidraResource; may be repeated")
	cmd.Flags().BoolVarP(&f.files.recursive, "recursive", "R", false, "also read the folders inside the folders of -f")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "write the change")
	f.operator.addConfig(cmd)
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

func (f *keepFlags) run(cmd *cobra.Command, args []string) error {
	ctx, out, errOut := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	target, err := f.kube.target(args)
	if err != nil {
		return err
	}
	files, err := f.files.read(ctx, strings.NewReader(""), nil)
	if err != nil {
		return err
	}
	client, err := f.operator.writes(f.kube)
	if err != nil {
		return err
	}
	kept, err := client.Questions().Keep(ctx, target, files)
	if err != nil {
		return err
	}
	if err := printAnswer(out, f.output, kept, styleOf(out, "").Kept(kept)); err != nil {
		return err
	}
	switch {
	case kept.Manual != "":
		printMessage(errOut, kept.Manual)
		return nil
	case kept.Diff == "":
		return nil
	case !f.yes:
		printMessage(errOut, "add --yes to write this")
		return &exitError{code: exitDiffers}
	}
	return f.write(ctx, client, kept, out, errOut)
}

// write writes the text of an edit where it is from.
func (f *keepFlags) write(ctx context.Context, client *writes.Client, kept *insight.Kept, out, errOut io.Writer) error {
	if kept.File != "" {
		if strings.Contains(kept.File, "://") {
			return fmt.Errorf("%s cannot be written: name a local file", kept.File)
		}
		info, err := os.Stat(kept.File)
		if err != nil {
			return err
		}
		if now, err := os.ReadFile(kept.File); err != nil || string(now) != kept.Before { //nolint:gosec // the user names it
			return fmt.Errorf("%s was changed meanwhile: run the command again", kept.File)
		}
		if err := os.WriteFile(kept.File, []byte(kept.After), info.Mode().Perm()); err != nil {
			return err
		}
		return printText(out, render.Sprintf("wrote %s\n", kept.File))
	}
	if err := client.WriteEdit(ctx, kept); err != nil {
		return err
	}
	if len(kept.Managers) > 0 {
		printMessage(errOut, fmt.Sprintf("%s writes the manifest of VidraResource %s, too: make the change where that comes from, with -f for local files",
			strings.Join(kept.Managers, ", "), kept.VidraResource))
	}
	return printText(out, render.Sprintf("wrote the manifest of VidraResource %s\n", kept.VidraResource))
}
