package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const suspendHelp = `Make Vidra write no object of VidraResources: a changed manifest is not applied, and
edits are reported and not reverted. ` + "`vidra resume`" + ` ends it.`

const resumeHelp = `End the suspension of VidraResources. What waited is applied, and edits that were made
meanwhile are reverted: ` + "`vidra diff NAME`" + ` shows them before.`

func newSuspend(k *kube) *cobra.Command {
	return newSwitch(k, true, &cobra.Command{
		Use: "suspend NAME...", Short: "Make Vidra write no object of VidraResources",
		Long: suspendHelp, Example: "  vidra suspend shop",
	})
}

func newResume(k *kube) *cobra.Command {
	return newSwitch(k, false, &cobra.Command{
		Use: "resume NAME...", Short: "End the suspension of VidraResources",
		Long: resumeHelp, Example: "  vidra resume shop",
	})
}

// newSwitch makes the command that sets spec.suspend.
func newSwitch(k *kube, suspend bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = wants(cobra.MinimumNArgs(1), formName), k.completeNames
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		client, err := k.dynamic()
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := setSuspended(cmd.Context(), client, name, suspend, cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func setSuspended(ctx context.Context, client dynamic.Interface, name string, suspend bool, out io.Writer) error {
	vr, err := getVidraResource(ctx, client, name)
	if err != nil {
		return err
	}
	done := map[bool]string{true: "suspended", false: "resumed"}[suspend]
	if vr.Spec.Suspend == suspend {
		return printText(out, sprintf("VidraResource %s was %s before\n", name, done))
	}
	if _, err := patchVidraResource(ctx, client, name, map[string]any{"spec": map[string]any{"suspend": suspend}}); err != nil {
		return err
	}
	return printText(out, sprintf("VidraResource %s %s\n", name, done))
}

// patchVidraResource sends a merge patch.
func patchVidraResource(ctx context.Context, client dynamic.Interface, name string, patch map[string]any) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	u, err := client.Resource(vidraResources).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, vidraResourceError("patch", name, err)
	}
	return u, nil
}
