package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	manifests "github.com/vidra-operator/vidra/pkg/source"
)

// shownMoments is the number of edits that the page of a VidraResource shows first, and shownOfObject the number on the page
// of an object.
const (
	shownMoments  = 8
	shownOfObject = 3
)

// inventoryRows is how many objects a page of an inventory has.
const inventoryRows = 100

// vidraResourceView is the data of the page of a VidraResource.
type vidraResourceView struct {
	Name  string
	State stateInfo
	Why   []string
	Facts []fact
	// NotLive is the reason for the delay of edits on the page, or empty.
	NotLive string
	// Problems need a user, and Waiting are those that Vidra expects to end by themselves.
	Problems, Waiting []problem
	// Unlisted is how many further problems there are.
	Unlisted   int32
	Timeline   timeline
	Dropped    int64
	Conditions []condition
	Inventory  inventory
	Actions    []action
}

// fact is a line of the head of a page.
type fact struct {
	Name, Text string
	// Time follows the text; zero for none.
	Time time.Time
}

type problem struct {
	v1alpha1.Problem

	Next string
	ID   object.Identity
	Tone string
}

type condition struct {
	metav1.Condition

	Tone, Phrase string
}

// inventory is a page of the objects of a VidraResource.
type inventory struct {
	Total, Number, Pages int
	Rows                 []inventoryRow
	Search               string
}

type inventoryRow struct {
	ID            object.Identity
	State, Health cell
	Message       string
	Exempt        string
	// Owned is the address of the objects that it owns.
	Owned string
}

// vidraResource serves the page of a VidraResource.
func (s *Server) vidraResource(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
	defer cancel()
	name := r.PathValue("name")
	if r.URL.Query().Get("part") == "owned" {
		s.owned(ctx, w, r, name)
		return
	}
	defer s.feeds.use(vidraResourceFeed, s.store)()
	vr, err := s.insight.VidraResource(ctx, name)
	if err != nil {
		s.failAnswer(w, r, err)
		return
	}
	view := s.viewOf(vr)
	view.Inventory = inventoryOf(vr, r.URL.Query())
	s.render(w, r, http.StatusOK, "vidraresource", s.newPage(vr.Name, "", vidraResourceTopic(vr.Name), view))
}

// viewOf is the page of a VidraResource, without its inventory.
func (s *Server) viewOf(vr *v1alpha1.VidraResource) vidraResourceView {
	report := s.options.Program.ReportOf(vr)
	now := stateOf(vr, report.InOrder)
	view := vidraResourceView{
		Name: vr.Name, State: states[now], Why: report.Why, Facts: factsOf(vr),
		Unlisted: vr.Status.UnlistedProblems, Dropped: vr.Status.UnlistedHistory, Actions: s.actionsOf(vr),
	}
	if insight.Remote(vr) {
		view.NotLive = "The objects are in another cluster: an edit is listed with the next status, after some seconds."
	} else if _, refusal := s.store.await(context.Background()); refusal != nil {
		view.NotLive = "You may not watch VidraResources: reload the page to see what is new."
	}
	for i, why := range view.Why {
		view.Why[i] = plainText(why)
	}
	for _, p := range vr.Status.Problems {
		tone := "failing"
		switch {
		case p.Transient:
			tone = "progress"
		case strings.HasPrefix(p.Reason, "Drift"), p.Reason == v1alpha1.ReasonSuspended:
			tone = "drifted"
		case p.Reason == v1alpha1.ReasonUnhealthy, p.Reason == v1alpha1.ReasonHealthCheckInvalid:
			tone = "unhealthy"
		}
		next := nextStep(p.Reason, p.Message)
		p.Message = plainText(p.Message)
		if shown := (problem{p, next, problemID(p.Object), tone}); p.Transient {
			view.Waiting = append(view.Waiting, shown)
		} else {
			view.Problems = append(view.Problems, shown)
		}
	}
	for _, c := range vr.Status.Conditions {
		c.Message = plainText(c.Message)
		view.Conditions = append(view.Conditions, condition{c, conditionTone(vr, c), conditionPhrase(c)})
	}
	observed := s.observers.editsOf(func(e *edit) bool { return e.VidraResource == vr.Name && !expectedDeletion(vr, e) })
	moments := append(timelineOf(vr.Name, vr.Status.History, observed, nil), transitionsOf(vr, now)...)
	view.Timeline = timelineOfMoments(newestFirst(moments), shownMoments)
	return view
}

// conditionTone is the tone of a condition: of a problem, for a condition that is in the status only while it is true.
func conditionTone(vr *v1alpha1.VidraResource, c metav1.Condition) string {
	switch c.Type {
	case v1alpha1.ConditionReady, v1alpha1.ConditionHealthy, v1alpha1.ConditionDrifted, v1alpha1.ConditionWatching:
		if c.Reason == v1alpha1.ReasonEventsOff {
			return "suspended"
		}
		return conditionCell(vr, c.Type).Tone
	case v1alpha1.ConditionSuspended:
		return "suspended"
	case v1alpha1.ConditionReconciling:
		return "progress"
	case v1alpha1.ConditionStalled:
		return "failing"
	}
	return "drifted"
}

// expectedDeletion reports whether a deletion that stands is one that the VidraResource itself asked for.
func expectedDeletion(vr *v1alpha1.VidraResource, e *edit) bool {
	if !e.Gone || !e.Reverted.IsZero() {
		return false
	}
	m := owners.EntryOf(vr, e.Object)
	return m == nil || m.State == v1alpha1.ObjectDeleting || m.State == v1alpha1.ObjectCompleted || !vr.DeletionTimestamp.IsZero()
}

// factsOf are the lines of the head of the page: where objects come from and go to.
func factsOf(vr *v1alpha1.VidraResource) []fact {
	var sources []string
	if vr.Spec.Manifest != "" {
		sources = append(sources, "spec.manifest")
	}
	for _, from := range vr.Spec.ManifestFrom {
		sources = append(sources, fmt.Sprintf("%s, %s", manifests.KeyOf(vr, from), manifests.LabelOf(from)))
	}
	revision := fact{Name: "Revision", Text: fmt.Sprintf("generation %d", vr.Generation)}
	for _, from := range vr.Status.Source {
		revision.Text += "; " + from.Revision
	}
	switch {
	case vr.Status.ObservedGeneration != vr.Generation:
		revision.Text += fmt.Sprintf("; the operator has applied generation %d", vr.Status.ObservedGeneration)
	case vr.Status.LastSyncTime != nil:
		revision.Text, revision.Time = revision.Text+", all objects applied at", vr.Status.LastSyncTime.Time
	}
	to := "this cluster"
	if insight.Remote(vr) {
		to = vr.Spec.Destination.Server
	}
	if vr.Spec.Destination.Namespace != "" {
		to += ", namespace " + vr.Spec.Destination.Namespace
	}
	edits := render.ModeText(vr.DriftMode())
	if vr.Spec.Suspend {
		edits = "nothing is applied or reverted (spec.suspend)"
	}
	facts := []fact{{Name: "Source", Text: cmp.Or(strings.Join(sources, "; "), "none")}, revision, {Name: "Destination", Text: to}, {Name: "Edits", Text: edits}}
	if vr.Spec.ServiceAccountName != "" {
		facts = append(facts, fact{Name: "Account", Text: vr.Spec.Destination.Namespace + "/" + vr.Spec.ServiceAccountName})
	}
	if d := vr.Status.Drift; d != nil && d.Heals > 0 {
		facts = append(facts, fact{Name: "Reverts", Text: strconv.FormatInt(d.Heals, 10) + " so far"})
	}
	if len(vr.Labels) > 0 {
		facts = append(facts, fact{Name: "Labels", Text: strings.ReplaceAll(labels.FormatLabels(vr.Labels), ",", ", ")})
	}
	return facts
}

// stateRank orders objects: those with a problem first.
var stateRank = map[v1alpha1.ObjectState]int{
	v1alpha1.ObjectFailed: 0, v1alpha1.ObjectContended: 1, v1alpha1.ObjectDrifted: 2, v1alpha1.ObjectPending: 4, v1alpha1.ObjectDeleting: 4,
	v1alpha1.ObjectApplied: 5, v1alpha1.ObjectCompleted: 6,
}

func compareObjects(a, b v1alpha1.ManagedResourceStatus) int {
	rank := func(e v1alpha1.ManagedResourceStatus) int {
		if r := stateRank[e.State]; e.Health != v1alpha1.ObjectUnhealthy || r < 3 {
			return r
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// objectTones are the tones of the states of objects.
var objectTones = map[v1alpha1.ObjectState]string{
	v1alpha1.ObjectFailed: "failing", v1alpha1.ObjectContended: "drifted", v1alpha1.ObjectDrifted: "drifted", v1alpha1.ObjectPending: "progress",
	v1alpha1.ObjectDeleting: "progress", v1alpha1.ObjectApplied: "ok", v1alpha1.ObjectCompleted: "ok",
}

// healthCells are the words and tones for the health of objects, also of those that an object owns.
var healthCells = map[v1alpha1.ObjectHealth]cell{
	v1alpha1.ObjectCurrent: {"Healthy", "ok"}, v1alpha1.ObjectInProgress: {"In progress", "progress"}, v1alpha1.ObjectUnhealthy: {"Unhealthy", "unhealthy"},
	"NotFound": {"Unhealthy", "unhealthy"},
}

// inventoryOf is the page of the inventory that a query names.
func inventoryOf(vr *v1alpha1.VidraResource, query url.Values) inventory {
	search := strings.TrimSpace(query.Get("objects"))
	entries := slices.DeleteFunc(slices.Clone(vr.Status.ManagedResources), func(e v1alpha1.ManagedResourceStatus) bool {
		return !strings.Contains(strings.ToLower(e.Kind+"/"+e.Namespace+"/"+e.Name), strings.ToLower(search))
	})
	slices.SortStableFunc(entries, compareObjects)
	number, _ := strconv.Atoi(query.Get("number"))
	inv := inventory{Total: len(entries), Pages: (len(entries) + inventoryRows - 1) / inventoryRows, Search: search}
	inv.Number = min(max(0, number), max(0, inv.Pages-1))
	from := inv.Number * inventoryRows
	for i := range entries[from:min(from+inventoryRows, len(entries))] {
		e := &entries[from+i]
		id := object.IdentityOf(e)
		r := inventoryRow{ID: id, State: cell{string(e.State), cmp.Or(objectTones[e.State], "progress")}, Health: healthCells[e.Health], Message: plainText(e.Message)}
		if g := e.BreakGlass; breakglass.Exempts(g, time.Now()) {
			r.Exempt = "no edit is reverted until " + g.Until.UTC().Format("2006-01-02 15:04 UTC")
		}
		if !insight.Remote(vr) {
			r.Owned = "vr/" + url.PathEscape(vr.Name) + "?" + url.Values{"part": {"owned"}, "kind": {id.GroupKind.String()}, "namespace": {id.Namespace}, "name": {id.Name}}.Encode()
		}
		inv.Rows = append(inv.Rows, r)
	}
	return inv
}

// mostOwned is how many owned objects of one object are shown.
const mostOwned = 200

// ownedView has the objects that an object owns, each with its depth.
type ownedView struct {
	Rows    []ownedRow
	More    int
	Remarks []string
}

type ownedRow struct {
	Depth   int
	ID      object.Identity
	Health  cell
	Message string
}

// owned serves the objects that an object of the inventory owns.
func (s *Server) owned(ctx context.Context, w http.ResponseWriter, r *http.Request, name string) {
	query := r.URL.Query()
	id := object.Identity{GroupKind: schema.ParseGroupKind(query.Get("kind")), Namespace: query.Get("namespace"), Name: query.Get("name")}
	tree, err := s.insight.Tree(ctx, insight.TreeQuery{VidraResource: name, Object: &id})
	if err != nil {
		s.failAnswer(w, r, err)
		return
	}
	view := ownedView{Remarks: tree.Remarks}
	var add func(branches []*insight.Branch, depth int)
	add = func(branches []*insight.Branch, depth int) {
		for _, b := range branches {
			if len(view.Rows) == mostOwned {
				view.More++
			} else {
				view.Rows = append(view.Rows, ownedRowOf(b, depth))
			}
			add(b.Owned, depth+1)
		}
	}
	if len(tree.Objects) == 0 {
		s.fail(w, r, http.StatusNotFound, errors.New("the inventory does not have the object any more"))
		return
	}
	if top := tree.Objects[0]; top.Health == "Unknown" && top.Message != "" {
		view.Remarks = append(view.Remarks, "The object was not read: "+top.Message)
	}
	add(tree.Objects[0].Owned, 0)
	s.render(w, r, http.StatusOK, "vidraresource", s.newPage(name, "", "", view))
}

func ownedRowOf(b *insight.Branch, depth int) ownedRow {
	row := ownedRow{Depth: min(depth, 5), ID: b.ID(), Message: plainText(b.Message)}
	var known bool
	if row.Health, known = healthCells[v1alpha1.ObjectHealth(b.Health)]; !known {
		row.Health = cell{b.Health, "progress"}
	}
	return row
}

// PageList are the numbers of the pages, from 1.
func (i inventory) PageList() []int {
	all := make([]int, i.Pages)
	for n := range all {
		all[n] = n + 1
	}
	return all
}
