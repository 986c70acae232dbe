package migrate

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// withheld is printed in place of a text.
const withheld = "(withheld)"

// Severity is the effect of a finding.
type Severity string

const (
	// Note needs no answer.
	Note Severity = "note"
	// Acceptable refuses a migration until the user accepts it.
	Acceptable Severity = "accept"
	// Refused refuses a migration.
	Refused Severity = "refused"
)

// Finding is something that lacks a counterpart in a VidraResource, or that is in the way of a migration.
type Finding struct {
	// Field is a field of the source, or another name. The user accepts it by this name.
	Field string `json:"field"`
	// Severity is the effect, and Accepted reports that the user accepts it.
	Severity Severity `json:"severity"`
	Accepted bool     `json:"accepted,omitempty"`
	Text     string   `json:"text"`
}

// String returns the finding as a plan prints it.
func (f Finding) String() string {
	state := string(f.Severity)
	if f.Accepted {
		state = "accepted"
	}
	return fmt.Sprintf("%s: %s: %s", state, f.Field, f.Text)
}

// Step is a step of a migration.
type Step struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

// Plan is a migration that can be applied.
type Plan struct {
	// From names the source, and Name is the VidraResource.
	From string `json:"from"`
	Name string `json:"name"`
	// VidraResource is the VidraResource that is created; the existing one if Exists is true.
	VidraResource *unstructured.Unstructured `json:"vidraResource"`
	Exists        bool                       `json:"exists,omitempty"`
	// Objects counts the objects that are adopted, or are in the inventory.
	Objects  int       `json:"objects"`
	Findings []Finding `json:"findings,omitempty"`
	Steps    []Step    `json:"steps"`

	// Remarks are messages to the user.
	Remarks []string `json:"-"`

	work planWork
}

// planWork is the part of a plan that its steps work with.
type planWork struct {
	tool    Tool
	options Options
	// expected are the objects that the tool applied, as far as it has an inventory.
	expected []object.Identity
	// drifted are the objects whose documents differ from them, unless the user accepts that.
	drifted  map[object.Identity]bool
	creation *writes.Creation
	prepared *writes.Prepared
	// compared are the objects of the manifest, if they could be compared.
	compared []*insight.ObjectDifference
	vr       *v1alpha1.VidraResource
}

func (p *Plan) find(severity Severity, field, format string, args ...any) {
	p.Findings = append(p.Findings, Finding{Field: field, Severity: severity, Text: fmt.Sprintf(format, args...)})
}

// Blocked returns the findings that are in the way.
func (p *Plan) Blocked() (all []Finding) {
	for _, f := range p.Findings {
		if f.Severity == Refused || f.Severity == Acceptable && !f.Accepted {
			all = append(all, f)
		}
	}
	return all
}

func (p *Plan) accepts(field string) bool { return slices.Contains(p.work.options.Accept, field) }

// Plan returns the migration of the objects of a tool. It writes nothing.
func (c *Client) Plan(ctx context.Context, tool Tool, o Options) (*Plan, error) {
	p := &Plan{From: tool.title(), Name: cmp.Or(o.Name, tool.defaultName()), work: planWork{tool: tool, options: o, drifted: map[object.Identity]bool{}}}
	vr, err := c.ours(ctx, p.Name, tool)
	if err != nil {
		return nil, err
	}
	now, err := tool.state(ctx)
	if err != nil {
		return nil, err
	}
	if vr != nil {
		p.Exists, p.work.vr, p.Objects = true, vr, len(vr.Status.ManagedResources)
		if p.VidraResource, err = c.objects.Dynamic.Resource(v1alpha1.Resource).Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
			return nil, c.program.VidraResourceError("get", p.Name, err)
		}
		unstructured.RemoveNestedField(p.VidraResource.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(p.VidraResource.Object, "status")
	} else if err := c.planNew(ctx, p); err != nil {
		return nil, err
	}
	for i := range p.Findings {
		f := &p.Findings[i]
		f.Accepted = f.Severity == Acceptable && p.accepts(f.Field)
	}
	for _, field := range o.Accept {
		if !p.Exists && !slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Field == field }) {
			if !now.begun {
				return nil, fmt.Errorf("--accept %s: %s has no such finding", field, p.From)
			}
			p.Remarks = append(p.Remarks, fmt.Sprintf("--accept %s: %s has no such finding, or no longer since an earlier run", field, p.From))
		}
	}
	stop, _ := tool.steps()
	if stop != "" {
		p.Steps = append(p.Steps, Step{stop, now.stopped})
	}
	p.withhold()
	left := 0
	if p.Exists {
		if left, err = c.release(ctx, p, false); err != nil {
			return nil, err
		}
	}
	adopted := p.Exists && settled(p.work.vr) == nil
	p.Steps = append(p.Steps, Step{fmt.Sprintf("create VidraResource %s, which adopts %s unchanged", p.Name, display.Plural(p.Objects, "object")), adopted},
		Step{"release " + tool.marks().describe(), adopted && left == 0})
	return p, nil
}

// withhold has the printed VidraResource without the texts of patches that may have values of a Secret or of a sensitive object.
func (p *Plan) withhold() {
	if p.VidraResource == nil {
		return
	}
	shown := p.VidraResource.DeepCopy() // the applied one keeps them
	patches, _, _ := unstructured.NestedSlice(shown.Object, "spec", "kustomize", "patches")
	changed := false
	for _, item := range patches {
		one, _ := item.(map[string]any)
		if patchesSecret(one) {
			one["patch"], changed = withheld, true
		}
	}
	if changed {
		_ = unstructured.SetNestedSlice(shown.Object, patches, "spec", "kustomize", "patches") // they are of this object
		p.VidraResource = shown
		p.find(Note, "patches", "a patch that may have values of a Secret is not printed, and is moved")
	}
}

// patchesSecret reports whether a patch of Kustomize may change a Secret or a sensitive object.
func patchesSecret(patch map[string]any) bool {
	text, _ := patch["patch"].(string)
	if bool(ownership.SensitivityOfManifest(text)) {
		return true
	}
	if patch["target"] == nil {
		return false // its text names the object
	}
	kind, _, _ := unstructured.NestedString(patch, "target", "kind")
	selects, err := regexp.Compile("^(?:" + kind + ")$")
	return kind == "" || err != nil || selects.MatchString("Secret")
}

// planNew plans a new VidraResource.
func (c *Client) planNew(ctx context.Context, p *Plan) error {
	if err := p.work.tool.read(ctx, p); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Severity == Refused }) && p.VidraResource == nil {
		return nil
	}
	var err error
	if p.work.creation != nil {
		p.work.prepared, err = c.writes.Prepare(ctx, *p.work.creation)
	} else {
		p.work.prepared, err = c.writes.PrepareSources(ctx, p.VidraResource)
	}
	if err != nil {
		return err
	}
	p.VidraResource = p.work.prepared.Body()
	p.Remarks = append(p.Remarks, p.work.prepared.Remarks...)
	diff, err := c.writes.Difference(ctx, p.work.prepared)
	if err != nil { // such as an artifact that the user may not fetch
		p.find(Acceptable, "diff", "the objects were not compared: %s. Objects that differ are not adopted", err)
		return nil
	}
	p.Remarks = append(p.Remarks, diff.Remarks...)
	for _, d := range diff.VidraResources {
		for _, o := range d.Objects {
			p.judge(o)
		}
		p.compareInventory(d.Objects)
		p.work.compared = append(p.work.compared, d.Objects...)
	}
	return nil
}

// compareInventory adds the findings about objects that the tool applied, and that the manifest lacks.
func (p *Plan) compareInventory(found []*insight.ObjectDifference) {
	for _, e := range p.work.expected {
		if !slices.ContainsFunc(found, func(o *insight.ObjectDifference) bool { return o.ID() == e }) {
			p.find(Acceptable, "inventory", "%s is not in the manifest that Vidra reads: it stays as it is, and nothing manages it", display.Name(e.Kind, e.Namespace, e.Name))
		}
	}
}

// judge adds the finding about an object that would not be adopted unchanged.
func (p *Plan) judge(o *insight.ObjectDifference) {
	switch o.Action {
	case insight.ActionAdopt:
		p.Objects++
	case insight.ActionNone:
		if o.Why == "" {
			p.Objects++
			return
		}
		p.find(Acceptable, "left", "%s %s", o.Object(), o.Why)
	case insight.ActionCreate:
		if o.Why != "" { // its deletion may have begun
			p.find(Acceptable, "missing", "%s: %s", o.Object(), o.Why)
			return
		}
		p.find(Acceptable, "missing", "%s does not exist, and Vidra creates it", o.Object())
	default:
		if p.work.drifted[o.ID()] {
			return // a finding names the fields
		}
		p.find(Refused, "objects", "%s would be refused or changed: %s", o.Object(), cmp.Or(o.Why, "the action is "+o.Action))
	}
}
