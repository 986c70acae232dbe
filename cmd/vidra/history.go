package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
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
	*kube
	since, output string
}

func newHistory(k *kube) *cobra.Command {
	f := &historyFlags{kube: k}
	cmd := &cobra.Command{
		Use: "history [NAME | KIND/NAME]", Short: "List the edits of managed objects, beyond the lifetime of Events",
		Long: historyHelp, Example: historyExample,
		Args: wants(cobra.MaximumNArgs(1), formName, formObject), ValidArgsFunction: k.completeNameOrObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&f.since, "since", "", "only edits of the last time, such as 24h")
	cmd.Flags().BoolP("all-namespaces", "A", false, "edits of objects in any namespace, which is the default without KIND/NAME")
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

// edited is an entry of the history of a VidraResource.
type edited struct {
	VidraResource string `json:"vidraResource"`

	v1alpha1.HistoryEntry `json:",inline"`
}

func (f *historyFlags) run(ctx context.Context, args []string, out, errOut io.Writer) error {
	now := time.Now()
	since, err := parseSince(f.since, now)
	if err != nil {
		return err
	}
	owners, of, wanted, err := f.find(ctx, args)
	if err != nil {
		return err
	}
	all, known := []edited{}, false
	for _, vr := range owners {
		for _, e := range vr.Status.History {
			known = known || wanted(e.Object)
			if wanted(e.Object) && !e.LastTime.Time.Before(since) {
				all = append(all, edited{vr.Name, e})
			}
		}
		if n := vr.Status.UnlistedHistory; n > 0 {
			printMessage(errOut, fmt.Sprintf("VidraResource %s: %s dropped, which were older", vr.Name, plural(int(n), "edit")))
		}
	}
	if of != nil && !known {
		if err := of.read(ctx); err != nil { // it does not exist or is not managed
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b edited) int { return b.LastTime.Compare(a.LastTime.Time) })
	switch {
	case f.output == outputJSON || f.output == outputYAML:
		return printDocument(out, f.output, all)
	case f.output == outputName:
		return printText(out, editedNames(all))
	case len(all) == 0:
		_, err := fmt.Fprintln(errOut, "No edits found.")
		return err
	}
	return printText(out, historyText(all, coloured(out), f.output == outputWide, now))
}

// find returns the VidraResources that the argument names, or the object, and which of their objects are wanted.
func (f *historyFlags) find(ctx context.Context, args []string) ([]*v1alpha1.VidraResource, *target, func(v1alpha1.ProblemObject) bool, error) {
	namespace := *f.Namespace
	if err := validateNamespace(namespace); err != nil {
		return nil, nil, nil, err
	}
	within := func(o v1alpha1.ProblemObject) bool { return namespace == "" || o.Namespace == namespace }
	if len(args) == 1 && strings.Contains(args[0], "/") {
		t, err := f.newTarget(args)
		if err != nil {
			return nil, nil, nil, err
		}
		all, err := listVidraResources(ctx, t.client, "")
		return all, t, t.is, err
	}
	client, err := f.dynamic()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(args) == 1 {
		vr, err := getVidraResource(ctx, client, args[0])
		return []*v1alpha1.VidraResource{vr}, nil, within, err
	}
	all, err := listVidraResources(ctx, client, "")
	return all, nil, within, err
}

// is reports whether an entry of a status is about the target.
func (t *target) is(o v1alpha1.ProblemObject) bool { return isAbout(o, t.id) }

// isAbout reports whether an entry of a status is about an object.
func isAbout(o v1alpha1.ProblemObject, id object.Identity) bool {
	group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
	return id == object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}
}

// editedNames are the objects that were edited, each once, as arguments of kubectl.
func editedNames(all []edited) string {
	var lines []string
	for _, e := range all {
		kind := strings.ToLower(e.Object.Kind)
		if group, _, found := strings.Cut(e.Object.APIVersion, "/"); found {
			kind += "." + group
		}
		if line := oneLine(kind+"/"+e.Object.Name) + "\n"; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// historyText is the table of edits.
func historyText(all []edited, colour, wide bool, now time.Time) string {
	names := []string{"LAST SEEN", "COUNT", "VIDRARESOURCE", "OBJECT", "REASON"}
	if wide {
		names = append(names, "FIRST SEEN", "USER", "MANAGER", "FIELDS")
	}
	rows := [][]styled{heading(append(names, "MESSAGE")...)}
	for _, e := range all {
		row := plain(ageOf(e.LastTime.Time, now), strconv.FormatInt(e.Count, 10), e.VidraResource,
			oneLine(events.Name(corev1.ObjectReference{Kind: e.Object.Kind, Namespace: e.Object.Namespace, Name: e.Object.Name})))
		row = append(row, styled{oneLine(e.Reason), yellow})
		if wide {
			row = append(row, plain(ageOf(e.FirstTime.Time, now), oneLine(e.User), oneLine(e.Manager), oneLine(strings.Join(e.Fields, ",")))...)
		}
		rows = append(rows, append(row, styled{text: oneLine(e.Message)}))
	}
	table := &textTable{colour: colour}
	return table.rows(rows...)
}
