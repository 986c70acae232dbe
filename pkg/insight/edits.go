package insight

import (
	"context"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Edit is one edit of an object, and its outcome.
type Edit struct {
	Last   metav1.Time `json:"last"`
	Count  int64       `json:"count"`
	Reason string      `json:"reason"`
	Note   string      `json:"note"`
	// Fields are the edited paths, separated by commas.
	Fields string `json:"-"`
	// User who made the edit, and Manager is its field manager; empty where they are unknown.
	User    string `json:"-"`
	Manager string `json:"-"`
	// First is the time of the first occurrence.
	First metav1.Time `json:"-"`
}

// deleted reports whether the edit was the deletion of the object: it has no fields.
func (e *Edit) deleted() bool {
	return e.Fields == "" && slices.Contains([]string{events.ReasonDriftCorrected, v1alpha1.ReasonDriftDetected, events.ReasonChangeReverted}, e.Reason)
}

// edits are the edits in the history of the VidraResources, and those that are newer and known from Events, the newest
// first. With an error, the newer ones are missing.
func (s *subject) edits(ctx context.Context, remark func(text string)) ([]Edit, error) {
	var edits []Edit
	newest := map[string]time.Time{} // by VidraResource
	for _, vr := range s.owners {
		for _, e := range vr.Status.History {
			if newest[vr.Name].IsZero() {
				newest[vr.Name] = e.LastTime.Time
			}
			if s.is(e.Object) {
				edits = append(edits, Edit{Last: e.LastTime, Count: e.Count, Reason: e.Reason, Note: e.Message, Fields: strings.Join(e.Fields, ","), User: e.User, Manager: e.Manager, First: e.FirstTime})
			}
		}
	}
	newer, err := s.newerEdits(ctx, newest, remark)
	edits = append(newer, edits...)
	slices.SortStableFunc(edits, func(a, b Edit) int { return b.Last.Compare(a.Last.Time) })
	return edits, err
}

// newerEdits reads the Events about edits of the object that no history has yet, the newest first.
func (s *subject) newerEdits(ctx context.Context, newest map[string]time.Time, remark func(text string)) ([]Edit, error) {
	filter := eventFilter{about: []objectName{{kind: s.id.Kind, group: &s.id.Group, namespace: s.id.Namespace, name: s.id.Name}}, reasons: editReasons}
	source := &eventSource{client: s.client.events, selector: filter.selector(), remark: remark}
	if len(s.owners) == 1 { // the Events of its operator regard it: one page, however many Events the cluster has
		source.about = fields.AndSelectors(fields.OneTermEqualSelector("regarding.kind", v1alpha1.Kind), fields.OneTermEqualSelector("regarding.name", s.owners[0].Name))
	}
	all, err := source.listWithin(ctx, s.id.Namespace)
	if err != nil {
		return nil, err
	}
	sortEvents(all)
	slices.Reverse(all)
	var edits []Edit
	for _, e := range all {
		// An Event that regards the object has a twin that regards the VidraResource, if that may be read.
		if !filter.matches(e) || source.namespace == "" && s.isRegardedBy(e) {
			continue
		}
		about := e.Regarding
		if !s.isRegardedBy(e) && e.Related != nil {
			about = *e.Related
			if !LastSeen(e).Truncate(time.Second).After(newest[e.Regarding.Name]) || s.inHistory(e) {
				continue
			}
		}
		note := e.Note
		if len(s.owners) > 0 { // otherwise only the note says where the manifest is
			note = events.BriefNote(note, about)
		}
		edits = append(edits, Edit{Last: metav1.NewTime(LastSeen(e)), First: metav1.NewTime(FirstSeen(e)), Count: int64(TimesSeen(e)), Reason: e.Reason, Note: note, Fields: about.FieldPath})
	}
	return edits, nil
}

// isRegardedBy reports whether an Event regards the object, which may be a VidraResource in the manifest of another one, instead of an owner.
func (s *subject) isRegardedBy(e *eventsv1.Event) bool {
	is := e.Regarding
	return is.Kind == s.id.Kind && is.GroupVersionKind().Group == s.id.Group && is.Namespace == s.id.Namespace && is.Name == s.id.Name
}

// eventDelay is the most time between the entry of the history and the Event about the same edit. The entry has the time of
// the begin of the reconcile, and the Event the time of its record.
const eventDelay = time.Minute

// inHistory reports whether the history of a VidraResource has an edit of the object that one of its Events is about.
func (s *subject) inHistory(e *eventsv1.Event) bool {
	return slices.ContainsFunc(s.owners, func(vr *v1alpha1.VidraResource) bool {
		return vr.Name == e.Regarding.Name && slices.ContainsFunc(vr.Status.History, func(entry v1alpha1.HistoryEntry) bool {
			return s.is(entry.Object) && entry.Reason == e.Reason && entry.Message == events.HistoryMessage(e.Note, *e.Related) &&
				entry.Count >= int64(TimesSeen(e)) && LastSeen(e).Sub(entry.LastTime.Time) < eventDelay
		})
	})
}

// addRemedies adds the lines of the fields that were edited last, and the rule that leaves them to others.
func (m *ManagedBy) addRemedies(of *subject, edits []Edit) {
	if m.located == nil {
		return
	}
	var edited []ownership.Field
	for _, e := range edits[:min(len(edits), recentEdits)] {
		if e.deleted() && len(m.Lines) == 0 {
			m.Lines = append(m.Lines, FieldLine{Place: m.located.place()})
		}
		for _, field := range m.configured {
			known := slices.ContainsFunc(edited, func(f ownership.Field) bool { return f.Path == field.Path })
			if !known && listed(e.Fields, field.Path) && field.Tokens != nil {
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
	rule := &v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTargetOf(of.id.GroupKind, of.id.Namespace, of.id.Name)}
	for _, field := range edited {
		m.Lines = append(m.Lines, FieldLine{field.Path, m.located.place(field.Tokens...)})
		rule.Paths = append(rule.Paths, field.Pointer())
	}
	m.Rule = rule
}

// recentEdits is how many edits remedies are about.
const recentEdits = 5

// seldomEdited are names of fields that make no good example, because most are immutable.
var seldomEdited = []string{"name", "selector", "matchLabels"}

// listed reports whether a path is one of those that commas separate. Paths may have commas.
func listed(paths, path string) bool {
	return strings.Contains(","+paths+",", ","+path+",")
}
