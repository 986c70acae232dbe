package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const historyHelp = `List the edits of managed objects and what became of them, the newest first: of all
VidraResources, of one, or of one object.

The history is in the status of each VidraResource, so it outlives Events. It holds at
most 50 edits in 32 KiB; the same edit with the same result is counted. The newest
edits are a few seconds late: "vidra events" has them. Values of Secrets are never
printed.`

const historyExample = `  vidra history --since 24h                # what was edited since yesterday?
  vidra history shop                       # the objects of a VidraResource
  vidra history deployment/web -n shop     # one object
  vidra history shop -o json`

// historyFlags holds the flags of the command.
type historyFlags struct {
	kube          *kube
	since, output string
}

func newHistory(k *kube) *cobra.Command {
	f := &historyFlags{kube: k}
	cmd := &cobra.Command{
		Use: "history [NAME | KIND/NAME]", Short: "List the edits of managed objects, beyond the lifetime of Events",
		Long: historyHelp, Example: historyExample,
		Args: wants(cobra.MaximumNArgs(1), formName, formObject), ValidArgsFunction: k.completeNameOrObject,
		RunE: f.run,
	}
	cmd.Flags().StringVar(&f.since, "since", "", "only edits of the last time, such as 24h")
	cmd.Flags().BoolP("all-namespaces", "A", false, "edits of objects in any namespace, which is the default without KIND/NAME")
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *historyFlags) run(cmd *cobra.Command, args []string) error {
	q, err := f.query(args, time.Now())
	if err != nil {
		return err
	}
	client, err := f.kube.insight()
	if err != nil {
		return err
	}
	history, err := client.History(cmd.Context(), q)
	if err != nil {
		return err
	}
	printMessages(cmd.ErrOrStderr(), history.Remarks)
	out := cmd.OutOrStdout()
	switch {
	case f.output == outputJSON || f.output == outputYAML:
		return printDocument(out, f.output, history.Edits)
	case f.output == outputName:
		return printText(out, render.HistoryNames(history))
	case len(history.Edits) == 0:
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "No edits found.")
		return err
	}
	return printText(out, styleOf(out, f.output).History(history))
}

// query is about the VidraResource or the object that the argument names.
func (f *historyFlags) query(args []string, now time.Time) (q insight.HistoryQuery, err error) {
	if q.Since, err = insight.SinceOf("--since", f.since, now); err != nil {
		return q, err
	}
	q.Namespace = *f.kube.Namespace
	if err := validateNamespace("namespace", q.Namespace); err != nil || len(args) == 0 {
		return q, err
	}
	if !strings.Contains(args[0], "/") {
		q.VidraResource = args[0]
		return q, nil
	}
	target, err := f.kube.target(args)
	q.Target = &target
	return q, err
}
