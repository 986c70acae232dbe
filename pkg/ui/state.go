package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// state is the summary of a VidraResource. The worst state is the first one.
type state int

const (
	stateFailing state = iota
	stateDrifted
	stateUnhealthy
	stateInProgress
	stateSuspended
	stateInOrder
)

// stateInfo is how a state is shown: with a word and a shape, so that it needs no colour.
type stateInfo struct {
	// Key is the state in URLs, and the class of its colour and the name of its shape.
	Key, Word string
	// Explains is its meaning.
	Explains string
}

var states = [...]stateInfo{
	stateFailing:    {"failing", "Failing", "objects are not applied, and a user has to act"},
	stateDrifted:    {"drifted", "Drifted", "objects differ from the manifest, or are changed again and again"},
	stateUnhealthy:  {"unhealthy", "Unhealthy", "objects are applied, and one has failed by its own status"},
	stateInProgress: {"progress", "In progress", "objects are being applied, or are not healthy yet"},
	stateSuspended:  {"suspended", "Suspended", "nothing is applied or reverted, because of spec.suspend"},
	stateInOrder:    {"ok", "In order", "all objects are applied and healthy, and no edit waits"},
}

// startTime is how long a new VidraResource without a status counts as in progress.
const startTime = 30 * time.Second

// stateOf summarizes a VidraResource; inOrder is the judgement of insight.
func stateOf(vr *v1alpha1.VidraResource, inOrder bool) state {
	is := func(kind string, status metav1.ConditionStatus, reasons ...string) bool {
		c := meta.FindStatusCondition(vr.Status.Conditions, kind)
		return c != nil && c.Status == status && (len(reasons) == 0 || slices.Contains(reasons, c.Reason))
	}
	waits := !slices.ContainsFunc(vr.Status.Problems, func(p v1alpha1.Problem) bool { return !p.Transient && p.In(v1alpha1.ConditionReady) })
	switch ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady); {
	case inOrder:
		return stateInOrder
	case vr.Spec.Suspend:
		return stateSuspended
	case ready == nil && time.Since(vr.CreationTimestamp.Time) > startTime:
		return stateFailing
	case ready == nil:
		return stateInProgress
	case is(v1alpha1.ConditionStalled, metav1.ConditionTrue), is(v1alpha1.ConditionWatching, metav1.ConditionFalse, v1alpha1.ReasonWatchFailed):
		return stateFailing
	case ready.Status == metav1.ConditionFalse && !waits && ready.Reason != v1alpha1.ReasonDriftDetected && ready.Reason != v1alpha1.ReasonDriftContended:
		return stateFailing
	case is(v1alpha1.ConditionDrifted, metav1.ConditionTrue):
		return stateDrifted
	case is(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonUnhealthy, v1alpha1.ReasonHealthCheckInvalid):
		return stateUnhealthy
	}
	return stateInProgress
}

// compareEntries orders entries by their state, and then by their names.
func compareEntries(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.state, b.state), strings.Compare(a.vr.Name, b.vr.Name))
}

// hours is how many hours a sparkline has.
const hours = 24

// healing is how often the same edit was reverted between two times.
type healing struct {
	first, last time.Time
	count       int64
}

// healingsOf returns the reverts in a history.
func healingsOf(history []v1alpha1.HistoryEntry) []healing {
	var all []healing
	for _, e := range history {
		if e.Reason == events.ReasonDriftCorrected {
			all = append(all, healing{e.FirstTime.Time, e.LastTime.Time, e.Count})
		}
	}
	return all
}

// healsPerHour returns the reverts in each of the last hours, the present one last. The history has the first and the last time of a
// repeated edit: the others count as evenly spread in between.
func healsPerHour(all []healing, now time.Time) (perHour [hours]int64) {
	add := func(at time.Time, n int64) {
		if age := now.Sub(at); age < hours*time.Hour {
			perHour[hours-1-max(0, int(age/time.Hour))] += n
		}
	}
	for _, h := range all {
		add(h.last, 1)
		if h.count < 2 {
			continue
		}
		add(h.first, 1)
		between, span := h.count-2, h.last.Sub(h.first)
		for i := range min(between, hours*60) { // many are spread in equal parts
			n := between / min(between, hours*60)
			if i < between%min(between, hours*60) {
				n++
			}
			add(h.first.Add(span*time.Duration(i+1)/time.Duration(min(between, hours*60)+1)), n)
		}
	}
	return perHour
}

// advices are the next steps of a user after problems, by their reasons: the texts of the catalogue of Events.
var advices = func() map[string]string {
	all := map[string]string{v1alpha1.ReasonProgressing: "Wait. If it takes long, open the object: its own status and what it owns show the cause."}
	for _, e := range events.Catalogue() {
		if !strings.HasPrefix(e.Do, "Nothing.") {
			all[e.Reason] = strings.ReplaceAll(e.Do, "`", "")
		}
	}
	all[v1alpha1.ReasonDriftDetected] = "Put the change into the manifest, undo it, or end what keeps Vidra from the revert: the message names it."
	return all
}()
