package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// unified is a diff of an object before and after, in YAML, without what the API server writes itself
// and without values that are never shown; empty for no difference. Nil is no object. The status is shown only
// if the VidraResource owns fields of it, as in a kind without the subresource. known is the decision about values
// of the object without these two.
func (d *differ) unified(before, after *unstructured.Unstructured, known ownership.Disclosure) string {
	known = known.With(before, after)
	status := d.ownsStatus(before) || d.ownsStatus(after)
	left, right := shownYAML(before, after, status, "(before)", known), shownYAML(after, before, status, "(after)", known)
	if left == right {
		return ""
	}
	return strings.TrimPrefix(udiff.Unified("live", "applied", left, right), "--- live\n+++ applied\n")
}

// ownsStatus reports whether the VidraResource owns fields of the status of an object.
func (d *differ) ownsStatus(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	fields, _ := ownership.FieldsOf(obj, d.By.Manager, nil, ownership.Disclosure{})
	return slices.ContainsFunc(fields, func(f ownership.Field) bool { return f.Path == "status" || strings.HasPrefix(f.Path, "status.") })
}

// serverMetadata are the fields of metadata that the API server writes.
var serverMetadata = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"}

// shownYAML is an object in YAML. A value that is never shown gets a mark, with the side if it differs from
// that of the other object.
func shownYAML(obj, other *unstructured.Unstructured, status bool, side string, known ownership.Disclosure) string {
	if obj == nil {
		return ""
	}
	obj = ownership.Mask(obj, known, func(path []string, value any) any {
		if other != nil && !reflect.DeepEqual(valueAt(other.Object, path), value) {
			return "*** " + side
		}
		return "***"
	})
	if !status {
		delete(obj.Object, "status")
	}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		for _, name := range serverMetadata {
			delete(metadata, name)
		}
	}
	text, err := yaml.Marshal(obj.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// code is the exit code for a difference.
func (d *difference) code() int {
	code := 0
	for _, o := range d.Objects {
		switch o.Action {
		case actionRefuse:
			return exitDiffFailed
		case actionNone:
		default:
			code = exitDiffers
		}
	}
	return code
}

// actionTexts are what happens to an object, and to several.
var actionTexts = []struct{ action, one, several string }{
	{actionCreate, "is created", "are created"},
	{actionChange, "changes", "change"},
	{actionAdopt, "is adopted", "are adopted"},
	{actionMove, "moves", "move"},
	{actionReplace, "is replaced", "are replaced"},
	{actionPrune, "is deleted", "are deleted"},
	{actionRelease, "is released", "are released"},
	{actionRefuse, "is refused", "are refused"},
	{actionNone, "is unchanged", "are unchanged"},
}

// summary is how many objects there are by what happens to them.
func (d *difference) summary() string {
	var parts []string
	for _, text := range actionTexts {
		n := 0
		for _, o := range d.Objects {
			if o.Action == text.action {
				n++
			}
		}
		count, what := strconv.Itoa(n), text.several
		if len(parts) == 0 { // the others are objects, too
			count = plural(n, "object")
		}
		if n == 1 {
			what = text.one
		}
		if n > 0 {
			parts = append(parts, count+" "+what)
		}
	}
	if len(parts) == 0 {
		parts = []string{"there is no object"}
	}
	text := "VidraResource " + d.VidraResource + ": " + strings.Join(parts, ", ")
	if d.Suspended {
		text += "; nothing is written while spec.suspend is true"
	}
	return text
}

// signs and colours of actions.
var (
	actionSigns = map[string]string{actionCreate: "+", actionChange: "~", actionAdopt: "~", actionMove: ">", actionReplace: "!", actionPrune: "-", actionRelease: "-", actionRefuse: "x"}
	signCodes   = map[string]string{"+": green, "~": yellow, ">": yellow, "!": red, "-": red, "x": red}
)

// remarks are what is reported about an object in addition to its diff.
func (o *objectDifference) remarks() []string {
	var all []string
	if o.Why != "" {
		all = append(all, o.Why)
	}
	for _, c := range o.Conflicts {
		all = append(all, fmt.Sprintf("takes %s from field manager %q", c.Field, c.Manager))
	}
	all = append(all, o.Reverted...)
	for _, added := range o.AlsoRemoved {
		all = append(all, "removes "+added)
	}
	if o.Action == actionPrune {
		kept := object.Identity{GroupKind: schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind(), Namespace: o.Namespace, Name: o.Name}
		all = append(all, "to keep it, unmanaged: `"+hint("orphan", insight.TargetOf(kept).Argument())+"`")
	}
	return all
}

// verb is the action in a text for users, to whom a prune is a deletion.
func (o *objectDifference) verb() string {
	if o.Action == actionPrune {
		return "delete"
	}
	return o.Action
}

// text is a difference for a terminal.
func (d *difference) text(colour bool) string {
	var b strings.Builder
	b.WriteString(styled{d.summary(), bold}.paint(colour) + "\n")
	if len(d.Dropped) > 0 {
		b.WriteString("    the file drops " + oneLine(strings.Join(d.Dropped, ", ")) + "\n")
	}
	for _, o := range d.Objects {
		if o.Action == actionNone {
			continue
		}
		sign := actionSigns[o.Action]
		place := ""
		if o.Place != "" {
			place = "  (" + oneLine(o.Place) + ")"
		}
		b.WriteString(styled{fmt.Sprintf("%s %s %s", sign, o.verb(), oneLine(o.name())), signCodes[sign]}.paint(colour) + place + "\n")
		for _, remark := range o.remarks() {
			b.WriteString("    " + oneLine(remark) + "\n")
		}
		for line := range strings.Lines(o.Diff) {
			line = strings.TrimSuffix(line, "\n")
			code := ""
			if line != "" {
				code = signCodes[line[:1]]
			}
			b.WriteString("    " + styled{oneLine(line), code}.paint(colour) + "\n")
		}
	}
	return b.String()
}

// markdown is a difference for a pull request.
func (d *difference) markdown() string {
	var b strings.Builder
	fprintf(&b, "### %s\n\n", d.summary())
	if len(d.Dropped) > 0 {
		fprintf(&b, "The file drops %s.\n\n", strings.Join(d.Dropped, ", "))
	}
	changed := slices.DeleteFunc(slices.Clone(d.Objects), func(o *objectDifference) bool { return o.Action == actionNone })
	if len(changed) == 0 {
		return b.String()
	}
	b.WriteString("| | Object | |\n|---|---|---|\n")
	for _, o := range changed {
		remarks := strings.Join(o.remarks(), "<br>")
		fprintf(&b, "| %s | %s | %s |\n", o.verb(), cell(o.name()), cell(remarks))
	}
	b.WriteString("\n")
	for _, o := range changed {
		if o.Diff == "" {
			continue
		}
		fence := "```"
		for strings.Contains(o.Diff, fence) {
			fence += "`"
		}
		fprintf(&b, "<details><summary>%s %s</summary>\n\n%sdiff\n", o.verb(), cell(o.name()), fence)
		b.WriteString(safeLines("", o.Diff) + fence + "\n\n</details>\n\n")
	}
	return b.String()
}

// cell is text in a cell of a table in Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<br>", "<br>", "<", "&lt;", ">", "&gt;").Replace(oneLine(text))
}
