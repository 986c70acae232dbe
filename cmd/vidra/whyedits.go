package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// edit is one edit of the object, and what became of it.
type edit struct {
	Last   metav1.Time `json:"last"`
	Count  int64       `json:"count"`
	Reason string      `json:"reason"`
	Note   string      `json:"note"`
	// fields are the paths of what was edited, separated by commas.
	fields string
	// user who made the edit; empty if that is not known.
	user string
}

// deleted reports whether the edit was the deletion of the object: it has no fields.
func (e *edit) deleted() bool {
	return e.fields == "" && slices.Contains([]string{"DriftCorrected", "DriftDetected", "ChangeReverted"}, e.Reason)
}

// edits are the edits in the history of the VidraResources, and those that are newer and known from Events, the newest
// first. With an error, the newer ones are missing.
func (f *whyFlags) edits(ctx context.Context, t *target, errOut io.Writer) ([]edit, error) {
	var edits []edit
	newest := map[string]time.Time{} // by VidraResource
	for _, vr := range t.owners {
		for _, e := range vr.Status.History {
			if newest[vr.Name].IsZero() {
				newest[vr.Name] = e.LastTime.Time
			}
			if t.is(e.Object) {
				edits = append(edits, edit{Last: e.LastTime, Count: e.Count, Reason: e.Reason, Note: e.Message, fields: strings.Join(e.Fields, ","), user: e.User})
			}
		}
	}
	newer, err := f.newerEdits(ctx, t, newest, errOut)
	edits = append(newer, edits...)
	slices.SortStableFunc(edits, func(a, b edit) int { return b.Last.Compare(a.Last.Time) })
	return edits, err
}

// newerEdits reads the Events about edits of the object that no history has yet, the newest first.
func (f *whyFlags) newerEdits(ctx context.Context, t *target, newest map[string]time.Time, errOut io.Writer) ([]edit, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	client, err := typedeventsv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	filter := eventFilter{about: []objectName{{kind: t.id.Kind, group: &t.id.Group, name: t.id.Name}}, namespace: t.id.Namespace, reasons: editReasons}
	source := &eventSource{client: client, selector: filter.selector().String(), errOut: errOut}
	all, err := source.listWithin(ctx, t.id.Namespace)
	if err != nil {
		return nil, err
	}
	sortEvents(all)
	slices.Reverse(all)
	var edits []edit
	for _, e := range all {
		// What regards the object has a twin that regards the VidraResource, if that may be read.
		if !filter.matches(e) || source.namespace == "" && e.Regarding.Kind != v1alpha1.Kind {
			continue
		}
		about := e.Regarding
		if e.Regarding.Kind == v1alpha1.Kind && e.Related != nil {
			about = *e.Related
			if !lastSeen(e).Truncate(time.Second).After(newest[e.Regarding.Name]) || t.inHistory(e) {
				continue
			}
		}
		note := e.Note
		if len(t.owners) > 0 { // otherwise only the note says where the manifest is
			note = events.BriefNote(note, about)
		}
		edits = append(edits, edit{Last: metav1.NewTime(lastSeen(e)), Count: int64(timesSeen(e)), Reason: e.Reason, Note: note, fields: about.FieldPath})
	}
	return edits, nil
}

// eventDelay is how much later than the entry of the history the Event about the same edit may be. The entry has
// the time at which the reconcile began, and the Event the time at which it was recorded.
const eventDelay = time.Minute

// inHistory reports whether the history of a VidraResource has an edit of the object that one of its Events is about.
func (t *target) inHistory(e *eventsv1.Event) bool {
	return slices.ContainsFunc(t.owners, func(vr *v1alpha1.VidraResource) bool {
		return vr.Name == e.Regarding.Name && slices.ContainsFunc(vr.Status.History, func(entry v1alpha1.HistoryEntry) bool {
			return t.is(entry.Object) && entry.Reason == e.Reason && entry.Message == events.HistoryMessage(e.Note, *e.Related) &&
				entry.Count >= int64(timesSeen(e)) && lastSeen(e).Sub(entry.LastTime.Time) < eventDelay
		})
	})
}

// addRemedies adds the lines of the fields that were edited last, and the rule that leaves them to others.
func (m *managedBy) addRemedies(t *target, edits []edit) {
	if m.located == nil {
		return
	}
	var edited []ownership.Field
	for _, e := range edits[:min(len(edits), shownEdits)] {
		if e.deleted() && len(m.Lines) == 0 {
			m.Lines = append(m.Lines, fieldLine{Place: m.located.place()})
		}
		for _, field := range m.configured {
			known := slices.ContainsFunc(edited, func(f ownership.Field) bool { return f.Path == field.Path })
			if !known && listed(e.fields, field.Path) && field.Tokens != nil {
				edited = append(edited, field)
			}
		}
	}
	switch {
	case len(edited) > 0:
	case len(m.Lines) > 0:
		return
	default: // the first field that a user may mean
		i := slices.IndexFunc(m.configured, func(field ownership.Field) bool {
			return len(field.Tokens) > 1 && field.Tokens[0] != "metadata" && !slices.Contains(seldomEdited, field.Tokens[len(field.Tokens)-1])
		})
		if i < 0 {
			return
		}
		edited, m.Example = m.configured[i:i+1], true
	}
	rule := &v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: t.id.Group, Kind: t.id.Kind, Name: t.id.Name, Namespace: t.id.Namespace}}
	for _, field := range edited {
		m.Lines = append(m.Lines, fieldLine{field.Path, m.located.place(field.Tokens...)})
		rule.Paths = append(rule.Paths, field.Pointer())
	}
	m.Rule = rule
}

// seldomEdited are names of fields that make no good example, because most are immutable.
var seldomEdited = []string{"name", "selector", "matchLabels"}

// listed reports whether a path is one of those that commas separate. Paths may have commas.
func listed(paths, path string) bool {
	return strings.Contains(","+paths+",", ","+path+",")
}

// ruleYAML are rules as they are pasted into a VidraResource, with those that it has.
func ruleYAML(vr *v1alpha1.VidraResource, added ...v1alpha1.IgnoreRule) (string, error) {
	var rules []v1alpha1.IgnoreRule
	if vr.Spec.Drift != nil {
		rules = slices.Clone(vr.Spec.Drift.Ignore)
	}
	document, err := json.Marshal(map[string]any{"spec": map[string]any{"drift": map[string]any{"ignore": append(rules, added...)}}})
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(document)
	return string(text), err
}
