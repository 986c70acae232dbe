package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// watchTime is the longest time of one watch.
const watchTime = 24 * time.Hour

// outcome shows the news in the status of the VidraResource.
type outcome struct {
	session *Session
	// written is sent to at each write.
	written parallel.Signal

	mu sync.Mutex
	// generation was written last, for a save at a time, and seen was read by the operator.
	generation, seen int64
	saved            time.Time
	uid              types.UID
	// ready is the last generation that was shown as applied.
	ready    int64
	problems map[string]string
	edits    map[string]int64
}

// expect makes a generation the wanted one.
func (o *outcome) expect(generation int64, saved time.Time) {
	o.mu.Lock()
	o.generation, o.saved = generation, saved
	o.mu.Unlock()
	o.written.Send()
	time.AfterFunc(writes.AnswerTimeout, func() {
		o.mu.Lock()
		unread := o.generation == generation && o.seen < generation
		o.mu.Unlock()
		if unread {
			o.session.say("waiting", "the operator has not read generation %d within %s: is it running, and may you watch VidraResources?", generation, writes.AnswerTimeout)
		}
	})
}

// follow shows news from the first write on until ctx ends.
func (o *outcome) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.written:
		}
		for ctx.Err() == nil {
			_, err := o.session.Options.Writes.Questions().Watch(ctx, o.session.Options.Creation.Name, watchTime, func(vr *v1alpha1.VidraResource) bool {
				o.show(vr)
				return false
			})
			if errors.Is(err, insight.ErrTimeout) {
				continue
			}
			if ctx.Err() == nil {
				o.session.say("remark", "%v: the next save writes it again", err)
			}
			break
		}
	}
}

// show shows the news of a VidraResource.
func (o *outcome) show(vr *v1alpha1.VidraResource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.uid != vr.UID
	if first {
		o.uid, o.ready, o.problems, o.edits = vr.UID, 0, map[string]string{}, map[string]int64{}
	}
	o.seen = vr.Status.ObservedGeneration
	o.showProblems(vr)
	edits := map[string]int64{}
	for _, e := range slices.Backward(vr.Status.History) {
		key := fmt.Sprint(e.Object, e.Reason, e.Message, e.Manager, e.User, e.FirstTime.Unix())
		if edits[key] = e.Count; e.Count > o.edits[key] && (!first || !e.LastTime.Time.Before(o.saved.Truncate(time.Second))) {
			o.session.say(verbOf(e.Reason), "%s", editText(e))
		}
	}
	o.edits = edits
	if insight.InState(vr, insight.StateReady) && vr.Generation > o.ready {
		o.ready = vr.Generation
		after := ""
		if vr.Generation == o.generation {
			after = fmt.Sprintf(", %d ms after the save", time.Since(o.saved).Milliseconds())
		}
		o.session.say("applied", "generation %d, %s%s", vr.Generation, display.Plural(int(vr.Status.Objects), "object"), after)
	}
}

// showProblems shows the problems that are new, and those that are over.
func (o *outcome) showProblems(vr *v1alpha1.VidraResource) {
	now := map[string]string{}
	for _, p := range vr.Status.Problems {
		if p.Reason == v1alpha1.ReasonStarting { // each new kind has this for a moment
			continue
		}
		name := strings.TrimSpace(insight.ProblemObject(p.Object) + " " + p.Reason)
		if now[name] = p.Message; o.problems[name] == p.Message {
			continue
		}
		kind := "problem"
		switch {
		case p.Transient:
			kind = "waiting"
		case slices.Contains(p.Conditions, v1alpha1.ConditionReady):
			kind = "refused"
		}
		o.session.say(kind, "%s: %s", name, p.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(o.problems)) {
		if _, still := now[name]; !still && vr.Status.UnlistedProblems == 0 {
			o.session.say("over", "%s", name)
		}
	}
	o.problems = now
}

// verbOf returns the kind of the line about an edit.
func verbOf(reason string) string {
	if reason == events.ReasonDriftCorrected {
		return "reverted"
	}
	return "edited"
}

// editText describes an edit with its outcome.
func editText(e v1alpha1.HistoryEntry) string {
	text := fmt.Sprintf("%s: %s: %s", insight.IdentityOf(e.Object), e.Reason, e.Message)
	if e.Manager != "" && !strings.Contains(e.Message, e.Manager) {
		text += fmt.Sprintf(" (field manager %s)", e.Manager)
	}
	if e.User != "" && !strings.Contains(e.Message, e.User) {
		text += fmt.Sprintf(" (user %s)", e.User)
	}
	return text
}
