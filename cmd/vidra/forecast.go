package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
)

const forecastHelp = `Show who will fight with a VidraResource, before it is applied: which fields of its
manifest other programs write. They are known from

  the field managers of the objects as they are, where the manifest has another value
  the HorizontalPodAutoscalers of the cluster and of the manifest, for spec.replicas
  status.history of the VidraResource, with how often they did

The printed steps leave the fields to their writers: first the ignore rule, then, if you
like, omit the fields from the manifest. In the other order the API server resets values,
such as spec.replicas to 1. A field that a user's tool has set, such as kubectl, is taken once, and does
not fight; neither does any if spec.drift.mode is not Correct. The API server decides
by dry runs with your rights; nothing is written. NAME and FILE are those of
"vidra diff". Values of Secrets are never printed.

Exit code 0 means that nothing will fight, 1 that a field will, and 2 that an object
could not be checked or that the command failed.`

const forecastExample = `  vidra forecast -f shop.yaml
  vidra forecast shop`

func newForecast(k *kube) *cobra.Command {
	f := &diffFlags{kube: k}
	cmd := &cobra.Command{
		Use: "forecast [NAME] [-f FILE]", Short: "Show which fields of a manifest other programs write, before it is applied",
		Long: forecastHelp, Example: forecastExample,
		ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return diffError(f.forecast(cmd, names))
		},
	}
	f.addFile(cmd)
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

// forecast prints the fields that will fight.
func (f *diffFlags) forecast(cmd *cobra.Command, names []string) error {
	client, query, err := f.preview(cmd, names)
	if err != nil {
		return err
	}
	answer, err := client.Forecast(cmd.Context(), query)
	if err != nil {
		return err
	}
	printMessages(cmd.ErrOrStderr(), answer.Remarks)
	code, text, out := 0, "", cmd.OutOrStdout()
	for _, found := range answer.VidraResources {
		code, text = max(code, forecastCode(found)), text+styleOf(out, f.output).Forecast(found)
	}
	if err := printAnswer(out, f.output, answer, text); err != nil || code == 0 {
		return err
	}
	return &exitError{code: code}
}

// forecastCode is the exit code for a forecast.
func forecastCode(f *insight.Forecast) int {
	switch {
	case len(f.Missing) > 0:
		return exitDiffFailed
	case slices.ContainsFunc(f.Fields, func(field insight.ContestedField) bool { return field.Fights }):
		return exitDiffers
	}
	return 0
}
