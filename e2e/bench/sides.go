package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
)

// side is one that reverts edits.
type side struct {
	name string
	// pid is its process.
	pid int
	// structural is whether it gets structural edits; the floor gets none.
	structural bool
	targets    map[*kind]stopwatch.Target
	// target is what is edited where only one object is, with patch if that is not the edit's.
	target stopwatch.Target
	patch  string
	// peer is nil for those that watch. missed are the edits that the peer does not undo.
	peer   *fluxLoop
	missed map[string]bool
}

// newSides makes the sides of heal. There may be no peer.
func newSides(l *lab, floor *child, peer *fluxLoop, o *healOptions) ([]*side, error) {
	sides := []*side{
		{name: floorSide, pid: floor.cmd.Process.Pid},
		{name: vidraSide, pid: l.operator.PID, structural: true},
	}
	namespaces := []string{floorNamespace, vidraNamespace}
	if peer != nil {
		sides = append(sides, &side{name: fluxSide, pid: peer.cmd.Process.Pid, structural: true, peer: peer, missed: map[string]bool{}})
		namespaces = append(namespaces, fluxNamespace)
	}
	for i, namespace := range namespaces {
		timeout := o.timeout
		if namespace == fluxNamespace {
			timeout = o.peerTimeout
		}
		sides[i].targets = map[*kind]stopwatch.Target{}
		for _, k := range kinds {
			want, err := k.in(namespace)
			if err != nil {
				return nil, err
			}
			sides[i].targets[k] = stopwatch.Target{
				Resource: l.dynamic.Resource(k.gvr).Namespace(namespace), Want: want, Timeout: timeout,
			}
		}
	}
	return sides, nil
}

// lap makes one edit. An edit that the peer has missed is not made again: it would stand until the
// timeout each time.
func (s *side) lap(ctx context.Context, r *report, e edit) error {
	target := s.targets[e.kind]
	if s.peer == nil {
		return s.time(ctx, r, e, target)
	}
	if s.missed[e.name] {
		r.side(e.name, "ms", s.name).Missed++
		return nil
	}
	if err := s.peer.begin(); err != nil {
		return err
	}
	if err := s.time(ctx, r, e, target); err != nil {
		return err
	}
	if r.side(e.name, "ms", s.name).Missed > 0 {
		s.missed[e.name] = true
		if err := restore(ctx, target); err != nil {
			return err
		}
	}
	return s.peer.end()
}

// time makes one edit and notes how many milliseconds it stood. An object that an earlier miss
// has left as it should not be is a miss again.
func (s *side) time(ctx context.Context, r *report, e edit, target stopwatch.Target) error {
	if s.patch != "" {
		e.patch = s.patch
	}
	lap, err := target.Time(ctx, func(ctx context.Context) error { return e.make(ctx, target, s.structural) })
	switch {
	case errors.Is(err, stopwatch.ErrNotRestored), errors.Is(err, stopwatch.ErrNotWanted), apierrors.IsNotFound(err):
		r.side(e.name, "ms", s.name).Missed++
		_, _ = fmt.Fprintf(os.Stderr, "%s missed: %s: %v\n", s.name, e.name, err)
	case err != nil:
		return err
	default:
		r.add(e.name, "ms", s.name, lap.Stood.Seconds()*1000)
	}
	return nil
}

// restore deletes an object that was not restored, and waits until it is there again, as it should be.
func restore(ctx context.Context, t stopwatch.Target) error {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	if err := t.Resource.Delete(ctx, t.Want.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	for {
		live, err := t.Resource.Get(ctx, t.Want.GetName(), metav1.GetOptions{})
		if err == nil && stopwatch.Covers(live.Object, t.Want.Object) {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not created again: %w", t, err)
		}
	}
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
