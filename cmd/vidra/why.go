package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

const whyHelp = `Explain an object: which VidraResource manages it, where its manifest is, who edited the
object last, what became of the edits, how to keep a change, and which fields Vidra owns.

A name in quotes, such as "kubectl", is a program: the field manager. Kubernetes does not
store the user of an edit in the object. Vidra names the user where the cluster has the
policy stamp (docs/policies.md); otherwise the audit log of the API server does.

Edits are known from the history in the status of the VidraResource, and the newest
ones from Events. Values of Secrets are never printed.`

const whyExample = `  vidra why deployment/web -n shop         # who scaled web?
  vidra why configmap/settings -n shop     # why is my change gone, and how do I keep it?
  vidra why configmap/settings -n shop -o yaml`

// whyFlags holds the flags of the command.
type whyFlags struct {
	*kube
	output string
}

func newWhy(k *kube) *cobra.Command {
	f := &whyFlags{kube: k}
	cmd := &cobra.Command{
		Use: "why KIND/NAME", Short: "Explain who manages and who edited an object, and how to keep a change",
		Long: whyHelp, Example: whyExample,
		Args: wants(countObject, formObject), ValidArgsFunction: k.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *whyFlags) run(ctx context.Context, args []string, out, errOut io.Writer) error {
	t, err := f.readTarget(ctx, args)
	if err != nil {
		return err
	}
	e := t.explain(ctx)
	if e.Edits, err = f.edits(ctx, t, errOut); err != nil {
		e.Missing = append(e.Missing, "the newest edits: "+err.Error())
	}
	for i := range e.ManagedBy {
		e.ManagedBy[i].addRemedies(t, e.Edits)
	}
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, e)
	case outputName:
		var b strings.Builder
		for _, m := range e.ManagedBy {
			fprintf(&b, "vidraresource.%s/%s\n", v1alpha1.GroupVersion.Group, m.VidraResource)
		}
		return printText(out, b.String())
	}
	return printText(out, e.text(t, coloured(out), f.output == outputWide, time.Now()))
}

// explanation is what `vidra why` reports about an object.
type explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// ManagedBy are the VidraResources that manage the object.
	ManagedBy []managedBy `json:"managedBy"`
	// Others are the other field managers that own fields of the object, but for its status.
	Others []otherWriter `json:"others,omitempty"`
	// Notes are what the API server has not recorded.
	Notes []string `json:"notes,omitempty"`
	// Edits of the object, the newest first.
	Edits []edit `json:"edits,omitempty"`
	// Missing is what could not be read, and why.
	Missing []string `json:"missing,omitempty"`

	// known is the decision about values of the object.
	known ownership.Disclosure
}

// managedBy is what a VidraResource has to do with an object.
type managedBy struct {
	VidraResource string `json:"vidraResource"`
	// State of the object in the inventory.
	State string `json:"state,omitempty"`
	// Drift is the mode of spec.drift. Suspended reports spec.suspend.
	Drift     string `json:"drift,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Cluster is that of the object, if it is another one.
	Cluster string `json:"cluster,omitempty"`
	// DefinedIn is where the manifest has the object. EditWith is the command that edits it.
	DefinedIn string `json:"definedIn,omitempty"`
	EditWith  string `json:"editWith,omitempty"`
	// Fields are the fields that the VidraResource owns.
	Fields []string `json:"fields,omitempty"`
	// BreakGlass is the answer to the break-glass annotations.
	BreakGlass *v1alpha1.BreakGlassStatus `json:"breakGlass,omitempty"`
	// Problems are those of the object.
	Problems []v1alpha1.Problem `json:"problems,omitempty"`
	// Left are the fields that rules of spec.drift.ignore leave to others.
	Left []string `json:"left,omitempty"`
	// Controlled are the fields that are left to the controllers that write them by contract.
	Controlled []string `json:"controlled,omitempty"`
	// Lines are where the manifest has the fields that were edited last. The one without a field is the
	// whole object, which was deleted.
	Lines []fieldLine `json:"lines,omitempty"`
	// Rule leaves those fields to others, if it is added to spec.drift.ignore.
	Rule *v1alpha1.IgnoreRule `json:"ignoreRule,omitempty"`
	// Example reports that no edit is known, and Lines and Rule are about another field.
	Example bool `json:"example,omitempty"`

	located *located
	// start is where lines of the manifest are counted from.
	start string
	// configured are the fields with what is above them, and those that the manifest has and another
	// manager owns now.
	configured []ownership.Field
}

// fieldLine is where the manifest has a field.
type fieldLine struct {
	Field string `json:"field"`
	Place string `json:"place"`
}

// otherWriter is a field manager other than those of VidraResources.
type otherWriter struct {
	Manager     string      `json:"manager"`
	Operation   string      `json:"operation"`
	Subresource string      `json:"subresource,omitempty"`
	Time        metav1.Time `json:"time"`
	Fields      []string    `json:"fields"`

	fields []ownership.Field
}

// explain explains an object, but for its edits.
func (t *target) explain(ctx context.Context) *explanation {
	known := t.disclosure(ctx)
	e := &explanation{
		APIVersion: t.gvk.GroupVersion().String(), Kind: t.gvk.Kind, Namespace: t.id.Namespace, Name: t.id.Name,
		ManagedBy: []managedBy{}, Missing: t.missing, known: known,
	}
	listed := map[string]bool{}
	for _, vr := range t.owners {
		listed[vr.Name] = true
		m := managedBy{VidraResource: vr.Name, Drift: string(vr.DriftMode()), Suspended: vr.Spec.Suspend}
		if remote(vr) {
			m.Cluster = vr.Spec.Destination.Server
		}
		if entry := owners.EntryOf(vr, t.id); entry != nil {
			m.State, m.BreakGlass = string(entry.State), entry.BreakGlass
		}
		for _, p := range vr.Status.Problems {
			if p.Object != nil && t.is(*p.Object) {
				m.Problems = append(m.Problems, p)
			}
		}
		var why string
		if m.located, why = t.locate(ctx, vr); why != "" {
			e.Missing = append(e.Missing, "where the manifest has it: "+why)
		} else {
			m.DefinedIn, m.EditWith, m.start = m.located.place(), m.located.how(), m.located.start()
		}
		if t.live != nil && !remote(vr) {
			m.addFields(t.live, signature(vr).Manager, known)
		}
		e.ManagedBy = append(e.ManagedBy, m)
	}
	for _, name := range t.named {
		if !listed[name] && len(t.missing) > 0 {
			m := managedBy{VidraResource: name}
			if t.live != nil {
				leaves, _ := ownership.FieldsOf(t.live, v1alpha1.FieldManager(name), nil, known)
				m.Fields = paths(leaves)
			}
			e.ManagedBy = append(e.ManagedBy, m)
		}
	}
	if t.live != nil {
		e.Others = othersOf(t, known)
		replicas, found, err := unstructured.NestedInt64(t.live.Object, "spec", "replicas")
		if err == nil && found && ownership.WritersOf(t.live).Of("spec", "replicas") == nil {
			e.Notes = append(e.Notes, fmt.Sprintf("spec.replicas is %d, and the API server has not recorded who set it: "+
				"it records no scaling of an object in which no field manager owned the field", replicas))
		}
	}
	return e
}

// addFields adds the fields that the VidraResource owns.
func (m *managedBy) addFields(live *unstructured.Unstructured, manager string, known ownership.Disclosure) {
	var configuration map[string]any
	if m.located != nil {
		configuration = m.located.Object.Object
	}
	leaves, above := ownership.FieldsOf(live, manager, configuration, known)
	m.Fields = paths(leaves)
	m.configured = slices.Concat(leaves, above)
	if configuration == nil {
		return
	}
	for _, entry := range live.GetManagedFields() {
		for _, field := range ownership.FieldsOfEntry(live, entry, configuration, known) {
			listed := slices.ContainsFunc(m.configured, func(f ownership.Field) bool { return f.Path == field.Path })
			switch {
			case listed || field.Tokens == nil || entry.Subresource == "status":
			case m.located.Controlled(field.Tokens):
				m.Controlled = append(m.Controlled, field.Path)
			case m.located.Exempts(entry.Manager, field.Tokens):
				m.Left = append(m.Left, field.Path)
			default:
				m.configured = append(m.configured, field)
			}
		}
	}
}

// paths are the paths of fields.
func paths(fields []ownership.Field) []string {
	all := make([]string, 0, len(fields))
	for _, field := range fields {
		all = append(all, field.Path)
	}
	return all
}

// othersOf are the field managers that own fields of an object and apply for no VidraResource.
func othersOf(t *target, known ownership.Disclosure) []otherWriter {
	var others []otherWriter
	for _, entry := range t.live.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, v1alpha1.FieldManagerPrefix) || entry.Subresource == "status" {
			continue
		}
		o := otherWriter{Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		if entry.Time != nil {
			o.Time = *entry.Time
		}
		for _, field := range ownership.FieldsOfEntry(t.live, entry, t.live.Object, known) {
			if !strings.HasPrefix(field.Path, "status") {
				o.Fields, o.fields = append(o.Fields, field.Path), append(o.fields, field)
			}
		}
		if len(o.Fields) > 0 {
			others = append(others, o)
		}
	}
	return others
}

// editReasons are the reasons of Events about edits of an object.
var editReasons = []string{
	"DriftCorrected", "ChangeReverted", "DriftDetected", "DriftContended", "DriftSettled",
	"BreakGlassAccepted", "BreakGlassIgnored", "BreakGlassEnded",
}
