package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
)

// editor is the field manager of the edits.
const editor = "kubectl-edit"

// healOptions are the flags of heal.
type healOptions struct {
	rounds  int
	objects int
	pause   time.Duration
	timeout time.Duration
	labOptions
}

func (o *healOptions) parse(args []string) error {
	fs := flag.NewFlagSet("heal", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 20, "How often each edit is made on each side.")
	fs.IntVar(&o.objects, "objects", len(kinds), "How many objects are in the VidraResource.")
	fs.DurationVar(&o.pause, "pause", 200*time.Millisecond, "How long to wait between two edits.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Second, "An edit that stands longer than this is missed.")
	if err := o.labOptions.parse(fs, args); err != nil {
		return err
	}
	switch {
	case o.rounds < 1:
		return fmt.Errorf("-rounds is %d: at least one is needed", o.rounds)
	case o.objects < len(kinds):
		return fmt.Errorf("-objects is %d: at least %d are needed, one of each kind that is edited", o.objects, len(kinds))
	}
	return nil
}

// runHeal measures how long an edit stands until Vidra has reverted it, beside
// the floor: the same edit on an object that runFloor keeps, in the same run.
// The two take turns, and each goes first every other time, so that noise hits
// both alike. Package stopwatch says what is timed.
func runHeal(ctx context.Context, args []string) error {
	var o healOptions
	if err := o.parse(args); err != nil {
		return err
	}
	open := func(ctx context.Context, binary string) (*lab, error) { return newHealLab(ctx, binary, o.objects) }
	return o.run(ctx, open, func(l *lab) (report, error) { return heal(ctx, l, o) })
}

// heal runs the rounds, after one that does not count: it opens connections and
// fills caches.
func heal(ctx context.Context, l *lab, o healOptions) (*healReport, error) {
	sides, err := newSides(l, o.timeout)
	if err != nil {
		return nil, err
	}
	if err := round(ctx, sides, 0, o.pause); err != nil {
		return nil, err
	}
	for _, s := range sides {
		s.laps = make([]laps, len(edits))
	}
	mark := l.env.AuditMark()
	for i := range o.rounds {
		_, _ = fmt.Fprintf(os.Stderr, "round %d of %d\n", i+1, o.rounds)
		if err := round(ctx, sides, i, o.pause); err != nil {
			return nil, err
		}
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return nil, err
	}
	return newHealReport(o, environment{Kubernetes: l.kubernetes, CPUs: runtime.NumCPU()}, sides[0].laps, sides[1].laps, countRequests(audited)), nil
}

// side is one that reverts edits: the floor or Vidra.
type side struct {
	// vidra is false for the floor, which gets no structural edits.
	vidra   bool
	targets map[*kind]stopwatch.Target
	// laps of each edit, in the order of edits.
	laps []laps
}

// laps are the times of one edit.
type laps struct {
	stood  []time.Duration
	missed int
}

// newSides makes the floor's side and Vidra's.
func newSides(l *lab, timeout time.Duration) ([]*side, error) {
	var sides []*side
	for _, namespace := range []string{floorNamespace, vidraNamespace} {
		s := &side{vidra: namespace == vidraNamespace, targets: map[*kind]stopwatch.Target{}, laps: make([]laps, len(edits))}
		for _, k := range kinds {
			want, err := k.in(namespace)
			if err != nil {
				return nil, err
			}
			s.targets[k] = stopwatch.Target{
				Resource: l.dynamic.Resource(k.gvr).Namespace(namespace), Want: want, Timeout: timeout,
			}
		}
		sides = append(sides, s)
	}
	return sides, nil
}

// round makes every edit once on each side.
func round(ctx context.Context, sides []*side, number int, pause time.Duration) error {
	for i, e := range edits {
		for turn := range sides {
			s := sides[(number+i+turn)%len(sides)]
			if err := s.lap(ctx, i, e); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
	return nil
}

// lap makes one edit and notes how long it stood. An object that an earlier miss
// has left as it should not be is a miss again.
func (s *side) lap(ctx context.Context, i int, e edit) error {
	target := s.targets[e.kind]
	lap, err := target.Time(ctx, func(ctx context.Context) error { return e.make(ctx, target, s.vidra) })
	switch {
	case errors.Is(err, stopwatch.ErrNotRestored), errors.Is(err, stopwatch.ErrNotWanted), apierrors.IsNotFound(err):
		s.laps[i].missed++
		_, _ = fmt.Fprintf(os.Stderr, "missed: %s: %v\n", e.name, err)
	case err != nil:
		return err
	default:
		s.laps[i].stood = append(s.laps[i].stood, lap.Stood)
	}
	return nil
}

// make makes the edit as a person with kubectl would, or the edit of values that stands for
// a structural one.
func (e edit) make(ctx context.Context, t stopwatch.Target, structural bool) (err error) {
	name, how := t.Want.GetName(), metav1.PatchOptions{FieldManager: editor}
	switch {
	case e.structural != "" && structural:
		_, err = t.Resource.Patch(ctx, name, types.JSONPatchType, []byte(e.structural), how)
	case e.patch == "":
		err = t.Resource.Delete(ctx, name, metav1.DeleteOptions{})
	default:
		_, err = t.Resource.Patch(ctx, name, types.MergePatchType, []byte(e.patch), how)
	}
	return err
}
