package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
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
	f := &forecastFlags{diffFlags{kube: k}}
	cmd := &cobra.Command{
		Use: "forecast [NAME] [-f FILE]", Short: "Show which fields of a manifest other programs write, before it is applied",
		Long: forecastHelp, Example: forecastExample,
		ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return diffError(f.run(cmd.Context(), names, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	f.addFile(cmd)
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

// forecastFlags holds the flags of the command.
type forecastFlags struct{ diffFlags }

func (f *forecastFlags) run(ctx context.Context, names []string, in io.Reader, out, errOut io.Writer) error {
	differs, err := f.differs(ctx, names, in, errOut)
	if err != nil {
		return err
	}
	var all []*forecast
	code := 0
	for _, d := range differs {
		found, err := (&forecaster{differ: d}).run(ctx)
		if err != nil {
			return err
		}
		all = append(all, found)
		code = max(code, found.code())
	}
	if f.output != "" {
		err = printDocument(out, f.output, map[string]any{"vidraResources": all})
	} else {
		var b strings.Builder
		for _, found := range all {
			b.WriteString(found.text(coloured(out)))
		}
		err = printText(out, b.String())
	}
	if err == nil && code != 0 {
		return &exitError{code: code}
	}
	return err
}

// forecast is what others write of the fields of a VidraResource.
type forecast struct {
	VidraResource string           `json:"vidraResource"`
	Fields        []contestedField `json:"fields"`
	// Rules leave the fields that will fight to their writers, if they are added to spec.drift.ignore.
	Rules []v1alpha1.IgnoreRule `json:"ignoreRules,omitempty"`
	// Missing is what could not be checked, and why.
	Missing []string `json:"missing,omitempty"`

	vr *v1alpha1.VidraResource
}

// contestedField is a field of the manifest that another field manager writes.
type contestedField struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Field      string `json:"field"`
	// Place is where the manifest has the field.
	Place string `json:"place,omitempty"`
	// Writer is a field manager, or a HorizontalPodAutoscaler.
	Writer string `json:"writer"`
	// Fights reports that the writer is a program, which writes the field again, and that Vidra reverts that.
	Fights bool `json:"fights"`
	// Now is the value as it is, and Wanted that of the manifest. Empty if they are the same, or withheld.
	Now    string `json:"now,omitempty"`
	Wanted string `json:"wanted,omitempty"`
	// Times is how often status.history has that the writer wrote the field, and Last when it did last.
	Times int64        `json:"times,omitempty"`
	Last  *metav1.Time `json:"last,omitempty"`

	// tokens lead to the field in the manifest; nil if they are not known.
	tokens []string
}

// code is the exit code for a forecast.
func (f *forecast) code() int {
	code := 0
	for _, field := range f.Fields {
		if field.Fights {
			code = exitDiffers
		}
	}
	if len(f.Missing) > 0 {
		code = exitDiffFailed
	}
	return code
}

// text is a forecast for a terminal.
func (f *forecast) text(colour bool) string {
	var b strings.Builder
	fights := 0
	for _, field := range f.Fields {
		b.WriteString(field.text(colour))
		if field.Fights {
			fights++
		}
	}
	for _, missing := range f.Missing {
		b.WriteString(styled{"? not checked: " + oneLine(missing), red}.paint(colour) + "\n")
	}
	fprintf(&b, "VidraResource %s: %s will fight, %d taken once\n", f.VidraResource, plural(fights, "field"), len(f.Fields)-fights)
	if fights == 0 {
		return b.String()
	}
	rules, err := ruleYAML(f.vr, f.Rules...)
	if err != nil {
		rules = err.Error() + "\n"
	}
	fprintf(&b, "\nTo leave the fields that fight to their writers, without a reset of their values:\n")
	fprintf(&b, "1. Paste this into VidraResource %s, and apply it:\n", f.VidraResource)
	b.WriteString(safeLines("     ", rules))
	if f.vr.Status.ObservedGeneration == 0 { // nothing is applied yet
		b.WriteString("   The fields are set when an object is created, and then left to their writers.\n")
		return b.String()
	}
	fprintf(&b, "2. Wait until Vidra has released the fields: `%s`\n", hint("wait", f.VidraResource))
	b.WriteString("3. Then you may omit the fields from the manifest. If you omit a field before step 1, its value is removed\n" +
		"   or reset to the default of the API server, for example spec.replicas to 1.\n")
	return b.String()
}

// text is a field for a terminal.
func (c *contestedField) text(colour bool) string {
	sign, what := styled{"~", yellow}, "the apply takes it once"
	if c.Fights {
		sign, what = styled{"!", red}, "this will fight"
	}
	object := (&objectDifference{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}).name()
	text := fmt.Sprintf("%s %s: %s writes %s: %s\n", sign.paint(colour), oneLine(object), oneLine(c.Writer), oneLine(c.Field), what)
	if c.Now != "" || c.Wanted != "" {
		text += fmt.Sprintf("    it is %s, and the manifest has %s\n", oneLine(orNothing(c.Now)), oneLine(orNothing(c.Wanted)))
	}
	if c.Times > 0 {
		text += fmt.Sprintf("    status.history has that %s, %s\n", plural(int(c.Times), "time"), "last at "+c.Last.UTC().Format("2006-01-02T15:04:05Z"))
	}
	if c.Place != "" {
		text += fmt.Sprintf("    %s\n", oneLine(c.Place))
	}
	return text
}

// orNothing is a value, or that there is none.
func orNothing(value string) string {
	if value == "" {
		return "no value"
	}
	return value
}
