package insight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
)

// Explanation says who manages and who edited an object, and how to keep a change.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// ManagedBy are the VidraResources that manage the object.
	ManagedBy []ManagedBy `json:"managedBy"`
	// Others are the other field managers that own fields of the object, but for its status.
	Others []OtherWriter `json:"others,omitempty"`
	// Notes name the facts that the API server has not recorded.
	Notes []string `json:"notes,omitempty"`
	// Edits of the object, the newest first.
	Edits []Edit `json:"edits,omitempty"`
	// Missing names the unread parts, with the reasons.
	Missing []string `json:"missing,omitempty"`

	// Object is the object in messages: Deployment shop/web. Argument is it as an argument of a command: deployment/web -n shop.
	Object   string `json:"-"`
	Argument string `json:"-"`
	// Absent reports that the object is absent.
	Absent bool `json:"-"`
	// Remarks name the hidden parts, with the reasons.
	Remarks []string `json:"-"`
}

// ManagedBy is the relation of a VidraResource to an object.
type ManagedBy struct {
	VidraResource string `json:"vidraResource"`
	// State of the object in the inventory.
	State string `json:"state,omitempty"`
	// Drift is the mode of spec.drift. Suspended reports spec.suspend.
	Drift     string `json:"drift,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Apply is the policy of the manifest for the object, if Vidra creates it and never changes it.
	Apply v1alpha1.ApplyPolicy `json:"apply,omitempty"`
	// Cluster is the cluster of the object, if it is another one.
	Cluster string `json:"cluster,omitempty"`
	// DefinedIn is where the manifest has the object. EditWith is the command that edits it.
	DefinedIn string `json:"definedIn,omitempty"`
	EditWith  string `json:"editWith,omitempty"`
	// Fields are the fields that the VidraResource owns.
	Fields []string `json:"fields,omitempty"`
	// BreakGlass is the answer to the break-glass annotations.
	BreakGlass *v1alpha1.BreakGlassStatus `json:"breakGlass,omitempty"`
	// Problems are the problems of the object.
	Problems []v1alpha1.Problem `json:"problems,omitempty"`
	// Left are the fields that rules of spec.drift.ignore leave to others.
	Left []string `json:"left,omitempty"`
	// Controlled are the fields that are left to the controllers that write them by contract.
	Controlled []string `json:"controlled,omitempty"`
	// Lines are the places of the fields in the manifest that were edited last. A line without a field stands for the whole
	// object, which was deleted.
	Lines []FieldLine `json:"lines,omitempty"`
	// Rule leaves those fields to others, if it is added to spec.drift.ignore.
	Rule *v1alpha1.IgnoreRule `json:"ignoreRule,omitempty"`
	// Example reports that no edit is known, and Lines and Rule are about another field.
	Example bool `json:"example,omitempty"`

	// Exempt is the answer to the break-glass annotations while it is in force; nil otherwise.
	Exempt *v1alpha1.BreakGlassStatus `json:"-"`
	// SkipWith is the command that exempts the object from reverts, or that ends its exemption; empty if the operator accepts none.
	SkipWith string `json:"-"`
	// LinesFrom is where lines of the manifest are counted from; empty if the manifest is unknown.
	LinesFrom string `json:"-"`
	// Rules are the present rules of spec.drift.ignore, which Rule extends.
	Rules []v1alpha1.IgnoreRule `json:"-"`

	located *located
	// configured are the fields with their parents, and the fields of the manifest that another manager owns now.
	configured []ownership.Field
}

// FieldLine is where the manifest has a field.
type FieldLine struct {
	Field string `json:"field"`
	Place string `json:"place"`
}

// OtherWriter is a field manager, except the managers of VidraResources.
type OtherWriter struct {
	Manager     string      `json:"manager"`
	Operation   string      `json:"operation"`
	Subresource string      `json:"subresource,omitempty"`
	Time        metav1.Time `json:"time"`
	Fields      []string    `json:"fields"`

	// Details are the details of Fields.
	Details []OtherField `json:"-"`
}

// OtherField is a field of a field manager, except the managers of VidraResources.
type OtherField struct {
	Path string
	// Value is its value in JSON, shortened and masked; empty if that is unknown.
	Value string
	// Claim is the claim of the manifests to it.
	Claim Claim
}

// Claim is the claim of manifests to a field that another field manager set.
type Claim int

// The claims.
const (
	// Unclaimed is a field that no manifest has, or that an ignore rule excludes.
	Unclaimed Claim = iota
	// Claimed is a field that a manifest has with another value.
	Claimed
	// Shared is a field that a manifest has with the same value.
	Shared
)

// Why explains an object.
func (c *Client) Why(ctx context.Context, of Target) (*Explanation, error) {
	s, err := c.look(ctx, of)
	if err != nil {
		return nil, err
	}
	e := s.explain(ctx)
	if e.Edits, err = s.edits(ctx, func(text string) { e.Remarks = append(e.Remarks, text) }); err != nil {
		e.Missing = append(e.Missing, "the newest edits: "+err.Error())
	}
	for i := range e.ManagedBy {
		e.ManagedBy[i].addRemedies(s, e.Edits)
	}
	return e, nil
}

// explain explains an object, but for its edits.
func (s *subject) explain(ctx context.Context) *Explanation {
	known := s.disclosure(ctx)
	e := &Explanation{
		APIVersion: s.gvk.GroupVersion().String(), Kind: s.gvk.Kind, Namespace: s.id.Namespace, Name: s.id.Name,
		ManagedBy: []ManagedBy{}, Missing: s.missing, Object: s.title(), Argument: s.argument(),
	}
	listed := map[string]bool{}
	for _, vr := range s.owners {
		listed[vr.Name] = true
		m := ManagedBy{VidraResource: vr.Name, Drift: string(vr.DriftMode()), Suspended: vr.Spec.Suspend, Rules: ignored(vr)}
		if Remote(vr) {
			m.Cluster = vr.Spec.Destination.Server
		}
		if entry := owners.EntryOf(vr, s.id); entry != nil {
			m.State, m.BreakGlass = string(entry.State), entry.BreakGlass
		}
		for _, p := range vr.Status.Problems {
			if p.Object != nil && s.is(*p.Object) {
				m.Problems = append(m.Problems, p)
			}
		}
		var why string
		if m.located, why = s.locate(ctx, vr); why != "" {
			e.Missing = append(e.Missing, "where the manifest has it: "+why)
		} else {
			m.Apply = v1alpha1.ApplyPolicy(m.located.located.Object.GetAnnotations()[v1alpha1.ApplyAnnotation])
			m.DefinedIn, m.EditWith, m.LinesFrom = m.located.place(), editWith(vr, m.located.located.Source()), m.located.start()
		}
		if s.live != nil && !Remote(vr) {
			m.addFields(s.live, signature(vr).Manager, known)
		}
		m.addExemption(s, vr, time.Now())
		e.ManagedBy = append(e.ManagedBy, m)
	}
	for _, name := range s.named {
		if !listed[name] && len(s.missing) > 0 {
			m := ManagedBy{VidraResource: name, SkipWith: s.client.program.SkipHint(s.argument())}
			if s.live != nil {
				leaves, _ := ownership.FieldsOf(s.live, v1alpha1.FieldManager(name), nil, known)
				m.Fields = paths(leaves)
			}
			e.ManagedBy = append(e.ManagedBy, m)
		}
	}
	e.Absent = s.live == nil && len(s.missing) == 0 && !slices.ContainsFunc(s.owners, Remote)
	if s.live != nil {
		e.Others = e.othersOf(s, known)
		replicas, found, err := unstructured.NestedInt64(s.live.Object, "spec", "replicas")
		if err == nil && found && ownership.WritersOf(s.live).Of("spec", "replicas") == nil {
			e.Notes = append(e.Notes, fmt.Sprintf("spec.replicas is %d, and the API server has not recorded who set it: "+
				"it records no scaling of an object in which no field manager owned the field", replicas))
		}
	}
	return e
}

// addExemption adds the exemption by break-glass, and the command that asks for one or ends it, as the operator decides about both.
func (m *ManagedBy) addExemption(of *subject, vr *v1alpha1.VidraResource, now time.Time) {
	const until, reason = v1alpha1.BreakGlassUntilAnnotation, v1alpha1.BreakGlassReasonAnnotation
	limits := breakglass.Limits{Max: of.client.operator.maxBreakGlass(vr)}
	inSpec := vr.Spec.Drift != nil && vr.Spec.Drift.MaxBreakGlass != nil
	// Without the settings of the operator, an accepted time shows that its maximum is as long.
	if g := m.BreakGlass; !inSpec && of.client.operator.operator.MaxBreakGlass == nil && g != nil && g.Since != nil && g.Until != nil {
		limits.Max = max(limits.Max, g.Until.Sub(g.Since.Time))
	}
	if m.located != nil {
		_, limits.InManifest = m.located.located.Object.GetAnnotations()[until]
	}
	if !policy.OfBreakGlass(m.BreakGlass, limits.Max, now).Reverts() {
		m.Exempt = m.BreakGlass
	}
	end := now.Add(time.Hour).UTC().Format(time.RFC3339)
	answer := breakglass.Decide(map[string]string{until: end, reason: "WHY"}, m.BreakGlass, limits, now)
	switch {
	case m.Exempt != nil && m.Cluster != "":
		m.SkipWith = fmt.Sprintf("kubectl annotate %s %s- %s-", of.argument(), until, reason)
	case m.Exempt != nil:
		m.SkipWith = of.client.program.Hint("skip", of.argument(), "--end")
	case answer.State != v1alpha1.BreakGlassAccepted:
	case m.Cluster != "":
		m.SkipWith = fmt.Sprintf(`kubectl annotate --overwrite %s %s=%s %s="WHY"`, of.argument(), until, end, reason)
	default:
		m.SkipWith = of.client.program.SkipHint(of.argument())
	}
}

// addFields adds the fields that the VidraResource owns.
func (m *ManagedBy) addFields(live *unstructured.Unstructured, manager string, known ownership.Disclosure) {
	var configuration map[string]any
	if m.located != nil {
		configuration = m.located.located.Object.Object
	}
	leaves, above := ownership.FieldsOf(live, manager, configuration, known)
	m.Fields = paths(leaves)
	m.configured = slices.Concat(leaves, above)
	if configuration == nil {
		return
	}
	for _, entry := range live.GetManagedFields() {
		for _, field := range ownership.FieldsOfEntry(live, entry, manager, configuration, known) {
			listed := slices.ContainsFunc(m.configured, func(f ownership.Field) bool { return f.Path == field.Path })
			switch {
			case listed || field.Tokens == nil || entry.Subresource == "status":
			case m.located.located.Exemptions.Controlled(field.Tokens):
				m.Controlled = append(m.Controlled, field.Path)
			case m.located.located.Exemptions.Exempts(entry.Manager, field.Tokens):
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
func (e *Explanation) othersOf(of *subject, known ownership.Disclosure) []OtherWriter {
	live := of.live
	masked := ownership.Mask(live, known, func([]string, any) any { return mask }).Object
	var others []OtherWriter
	for _, entry := range live.GetManagedFields() {
		if of.isAppliedBy(entry.Manager, string(entry.Operation)) || entry.Subresource == "status" {
			continue
		}
		o := OtherWriter{Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		if entry.Time != nil {
			o.Time = *entry.Time
		}
		for _, field := range ownership.FieldsOfEntry(live, entry, "", live.Object, known) {
			if !isStatus(field.Path) {
				o.Fields = append(o.Fields, field.Path)
				o.Details = append(o.Details, OtherField{Path: field.Path, Value: valueText(masked, field), Claim: e.claimOf(field.Path)})
			}
		}
		if len(o.Fields) > 0 {
			others = append(others, o)
		}
	}
	return others
}

// isStatus reports whether the path of a field is the status of the object, or below it.
func isStatus(path string) bool {
	below, is := strings.CutPrefix(path, "status")
	return is && (below == "" || below[0] == '.' || below[0] == '[')
}

// claimOf is the claim of the manifests to a field that another field manager set. An ignored field is unclaimed.
func (e *Explanation) claimOf(path string) Claim {
	claim := Unclaimed
	for _, m := range e.ManagedBy {
		switch {
		case slices.Contains(m.Fields, path):
			return Shared
		case slices.ContainsFunc(m.configured, func(f ownership.Field) bool { return f.Path == path }):
			claim = Claimed
		}
	}
	return claim
}

// editReasons are the reasons of Events about edits of an object.
var editReasons = []string{
	events.ReasonDriftCorrected, events.ReasonChangeReverted, v1alpha1.ReasonDriftDetected, v1alpha1.ReasonDriftContended, events.ReasonDriftSettled,
	events.ReasonBreakGlassAccepted, events.ReasonBreakGlassIgnored, events.ReasonBreakGlassEnded,
}
