package ui

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

const (
	// mostLately is how many moments of all VidraResources the overview has, and shownLately how many it shows first.
	mostLately  = 20
	shownLately = 3
	// latelyOfOne is how many edits of one VidraResource are among them.
	latelyOfOne = 5
	// mostMessage is how many bytes of the message of a condition are kept.
	mostMessage = 300
)

// recentOf are the newest edits of a VidraResource and its last changes of state, the newest first.
func recentOf(vr *v1alpha1.VidraResource, now state) []moment {
	history := vr.Status.History[:min(len(vr.Status.History), latelyOfOne)]
	return newestFirst(append(timelineOf(vr.Name, history, nil, nil), transitionsOf(vr, now)...))
}

// transitionsOf are the changes of state that the conditions of a VidraResource have: applied, failed, unhealthy and suspended.
func transitionsOf(vr *v1alpha1.VidraResource, now state) []moment {
	var all []moment
	for _, c := range vr.Status.Conditions {
		m := moment{Time: c.LastTransitionTime.Time, VidraResource: vr.Name, Count: 1, Message: plainText(display.Truncate(c.Message, mostMessage))}
		switch {
		case c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue:
			m.Outcome, m.Tone = "Applied", "ok"
		case c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse && now == stateFailing:
			m.Outcome, m.Tone = "Failed: "+c.Reason, "failing"
		case c.Type == v1alpha1.ConditionHealthy && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonUnhealthy:
			m.Outcome, m.Tone = "Unhealthy", "unhealthy"
		case c.Type == v1alpha1.ConditionSuspended && c.Status == metav1.ConditionTrue:
			m.Outcome, m.Tone = "Suspended", "suspended"
		default:
			continue
		}
		all = append(all, m)
	}
	return all
}

// newestFirst sorts moments.
func newestFirst(all []moment) []moment {
	slices.SortStableFunc(all, compareMoments)
	return all
}

func compareMoments(a, b moment) int { return b.Time.Compare(a.Time) }

// lately are the newest moments of entries, the newest first.
type lately []moment

// add adds the moments of an entry, which are sorted.
func (l *lately) add(recent []moment) {
	for _, m := range recent {
		if len(*l) == mostLately && !m.Time.After((*l)[mostLately-1].Time) {
			return
		}
		at, _ := slices.BinarySearchFunc(*l, m, compareMoments)
		*l = slices.Insert(*l, at, m)
		*l = (*l)[:min(len(*l), mostLately)]
	}
}
