package ui

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// blockRows is how many rows the browser asks for at a time.
const blockRows = 50

// filter is the part of the query of the overview that selects VidraResources.
type filter struct {
	State, Namespace, Labels, Search string
	// Problem is an error of the label selector.
	Problem string

	selector labels.Selector
}

func filterOf(query url.Values) filter {
	f := filter{
		State: query.Get("state"), Namespace: strings.TrimSpace(query.Get("namespace")), Labels: strings.TrimSpace(query.Get("labels")),
		Search: strings.TrimSpace(query.Get("search")),
	}
	var err error
	if f.selector, err = labels.Parse(f.Labels); err != nil {
		f.Problem, f.selector = "The labels are no selector, such as team=web or team!=web: "+err.Error(), labels.Everything()
	}
	return f
}

// Active reports whether anything is filtered.
func (f filter) Active() bool { return f.State+f.Namespace+f.Labels+f.Search != "" }

// Query is the filter as the query of an address with its question mark, with another state.
func (f filter) Query(state string) string {
	query := url.Values{}
	for key, value := range map[string]string{"state": state, "namespace": f.Namespace, "labels": f.Labels, "search": f.Search} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return "?" + query.Encode()
}

// selects reports whether a VidraResource is selected, apart from its state.
func (f filter) selects(e *entry) bool {
	return f.selector.Matches(labels.Set(e.vr.Labels)) && (f.Namespace == "" || insight.HasObjectIn(e.vr, f.Namespace)) &&
		(f.Search == "" || strings.Contains(strings.ToLower(e.vr.Name), strings.ToLower(f.Search)) || len(f.matches(e)) > 0)
}

// mostMatches is how many objects that match a search a row has.
const mostMatches = 3

// matches are objects of a VidraResource whose kind and name match the search, as deployment/web.
func (f filter) matches(e *entry) []object.Identity {
	wanted := strings.ToLower(f.Search)
	var found []object.Identity
	for i := range e.vr.Status.ManagedResources {
		m := &e.vr.Status.ManagedResources[i]
		if wanted != "" && len(found) < mostMatches && strings.Contains(strings.ToLower(m.Kind+"/"+m.Name), wanted) {
			found = append(found, object.IdentityOf(m))
		}
	}
	return found
}

// listing is the data of the overview.
type listing struct {
	Filter filter
	// Counts are the VidraResources in each state, and All those without a filter by state.
	Counts []stateCount
	All    int
	// Total is the number of selected ones. Rows are the rows of block number Block.
	Total, Block int
	Rows         []row
	// Lately are the newest edits and changes of state of those that are selected, apart from their state.
	Lately timeline
	// Later are the blocks that the browser asks for when they come into view.
	Later []block
	// Namespaces are proposed for the filter.
	Namespaces []string
	// Unread reports that not all are known yet. Refused is the reason to show none, and Namespace the user's namespace.
	Unread    bool
	Refused   string
	Namespace string
}

// Verdict is the state of those that are selected in a sentence, with the tone of the worst; empty if there are none.
func (l listing) Verdict() cell {
	var parts []string
	var worst string
	for i, c := range l.Counts {
		if c.Count > 0 && state(i) != stateInOrder {
			parts, worst = append(parts, fmt.Sprintf("%d %s", c.Count, strings.ToLower(c.State.Word))), cmp.Or(worst, c.State.Key)
		}
	}
	selected := l.Filter
	selected.State = ""
	switch {
	case l.All == 0:
		return cell{}
	case len(parts) > 0:
		return cell{"Not in order: " + strings.Join(parts, ", "), worst}
	case selected.Active():
		return cell{"All that match are in order", states[stateInOrder].Key}
	}
	return cell{"Everything is in order", states[stateInOrder].Key}
}

type stateCount struct {
	State stateInfo
	Count int
}

type block struct{ Number, Rows int }

// row is a VidraResource in the overview.
type row struct {
	Name, Address string
	State         stateInfo
	// Reason, Message and Next are the worst problem and its next step; More is the number of others.
	Reason, Message, Next string
	Object                object.Identity
	More                  int
	Ready, Healthy        cell
	Drifted               cell
	Objects               int
	Bars                  []bar
	Heals                 int64
	AtLeast               bool
	LastHeal              time.Time
	LastObject            string
	Matches               []object.Identity
	// Index counts the rows of the table from 1, with the heading.
	Index int
}

// cell is a condition in a row.
type cell struct{ Word, Tone string }

// bar is an hour of a sparkline.
type bar struct{ X, Y, Height int }

// sparkHeight is the height of a sparkline in units of its drawing, and barWidth the width of an hour.
const (
	sparkHeight = 20
	barWidth    = 4
)

// rowOf is the row of an entry.
func rowOf(e *entry, f filter, index int, now time.Time) row {
	vr := e.vr
	r := row{
		Name: vr.Name, Address: "vr/" + url.PathEscape(vr.Name), State: states[e.state], Index: index + 2, Matches: f.matches(e),
		Objects: max(int(vr.Status.Objects), len(vr.Status.ManagedResources)), AtLeast: vr.Status.UnlistedHistory > 0,
		Ready: conditionCell(vr, v1alpha1.ConditionReady), Healthy: conditionCell(vr, v1alpha1.ConditionHealthy),
		Drifted: conditionCell(vr, v1alpha1.ConditionDrifted),
	}
	if d := vr.Status.Drift; d != nil && d.LastHealTime != nil {
		r.LastHeal = d.LastHealTime.Time
		if d.LastHeal != nil {
			r.LastObject = d.LastHeal.Object
		}
	}
	var most int64 = 1
	perHour := healsPerHour(e.heals, now)
	for _, n := range perHour {
		most = max(most, n)
		r.Heals += n
	}
	for i, n := range perHour {
		height := int((n*sparkHeight + most - 1) / most)
		r.Bars = append(r.Bars, bar{i * barWidth, sparkHeight - max(1, height), max(1, height)})
	}
	if e.state == stateInOrder {
		return r
	}
	if r.Objects == 0 { // the conditions are about no object
		r.Healthy, r.Drifted = cell{}, cell{}
	}
	if len(vr.Status.Problems) > 0 && e.state != stateSuspended {
		p := vr.Status.Problems[0]
		r.Reason, r.Message, r.Next, r.Object, r.More = reasonWord(p.Reason), plainText(p.Message), nextStep(p.Reason, p.Message), problemID(p.Object), e.problems-1
	} else if len(e.why) > 0 {
		r.Message, r.More = plainText(e.why[0]), len(e.why)-1
	}
	return r
}

// conditionCell is a condition as a word: Yes for true and No for false, unless the reason is that it is on its way.
func conditionCell(vr *v1alpha1.VidraResource, kind string) cell {
	c := meta.FindStatusCondition(vr.Status.Conditions, kind)
	switch {
	case c == nil:
		return cell{"Unknown", "progress"}
	case c.Reason == v1alpha1.ReasonProgressing, c.Reason == v1alpha1.ReasonStarting:
		return cell{"In progress", "progress"}
	case c.Reason == v1alpha1.ReasonDriftContended:
		return cell{"Contended", "drifted"}
	case kind == v1alpha1.ConditionDrifted && c.Status == metav1.ConditionTrue:
		return cell{"Yes", "drifted"}
	case c.Status == metav1.ConditionUnknown:
		return cell{"Unknown", "progress"}
	case c.Status == metav1.ConditionTrue:
		return cell{"Yes", "ok"}
	case kind == v1alpha1.ConditionDrifted:
		return cell{"No", "ok"}
	case kind == v1alpha1.ConditionHealthy:
		return cell{"No", "unhealthy"}
	}
	return cell{"No", "failing"}
}

// mostNamespaces is how many namespaces the filter proposes.
const mostNamespaces = 300

// overview serves the list of VidraResources.
func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	defer s.feeds.use(vidraResourceFeed, s.store)()
	known, refusal := s.store.await(r.Context())
	l := listing{Filter: filterOf(r.URL.Query()), Unread: !known && refusal == nil, Namespace: s.options.Namespace}
	if refusal != nil {
		l.Refused = sentence(s.options.Program.VidraResourceError("list", "", refusal))
	}
	l.Block, _ = strconv.Atoi(r.URL.Query().Get("block")) // the first one by default
	l.fill(s.store.sorted(), time.Now())
	s.render(w, r, http.StatusOK, "overview", s.newPage("Overview", "overview", topicOverview, l))
}

// fill selects the rows of a block.
func (l *listing) fill(all []*entry, now time.Time) {
	var counts [len(states)]int
	var selected []*entry
	var recent lately
	namespaces := map[string]bool{}
	for _, e := range all {
		for i := range e.vr.Status.ManagedResources {
			if n := e.vr.Status.ManagedResources[i].Namespace; n != "" && len(namespaces) < mostNamespaces {
				namespaces[n] = true
			}
		}
		if !l.Filter.selects(e) {
			continue
		}
		counts[e.state]++
		l.All++
		recent.add(e.recent)
		if l.Filter.State == "" || l.Filter.State == states[e.state].Key {
			selected = append(selected, e)
		}
	}
	for i, n := range counts {
		l.Counts = append(l.Counts, stateCount{states[i], n})
	}
	l.Namespaces = slices.Sorted(maps.Keys(namespaces))
	l.Lately = timelineOfMoments(recent, shownLately)
	l.Total = len(selected)
	l.Block = min(max(0, l.Block), l.Total) // any number may be asked for
	from := min(l.Block*blockRows, l.Total)
	for i, e := range selected[from:min(from+blockRows, l.Total)] {
		l.Rows = append(l.Rows, rowOf(e, l.Filter, from+i, now))
	}
	for at := (l.Block + 1) * blockRows; at < l.Total; at += blockRows {
		l.Later = append(l.Later, block{at / blockRows, min(blockRows, l.Total-at)})
	}
}
