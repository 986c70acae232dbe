package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// showApply applies the samples that work in every cluster, and shows the
// objects that came of them.
func (t *tour) showApply(ctx context.Context) error {
	for i, s := range []*sample{t.web, t.first} {
		start := time.Now()
		if err := t.apply(ctx, s); err != nil {
			return err
		}
		if i == 0 {
			if err := t.cluster.awaitSign(ctx, s.name, t.firstSign); err != nil {
				return err
			}
		}
		vr, err := t.cluster.awaitReady(ctx, s.name)
		if err != nil {
			return err
		}
		t.Line("VidraResource %s is ready after %s: %s", s.name, duration(time.Since(start)), readyOf(vr).Message)
		if err := t.showObjects(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// showObjects looks at every object of a sample.
func (t *tour) showObjects(ctx context.Context, s *sample) error {
	for _, want := range t.cluster.placed(s) {
		live, err := t.cluster.get(ctx, want)
		if err != nil {
			return fmt.Errorf("look at %s: %w", title(want), err)
		}
		if !stopwatch.Covers(live.Object, want.Object) {
			return fmt.Errorf("%s is not as VidraResource %s wants it", title(live), s.name)
		}
		t.Line("  %s", title(live))
	}
	return nil
}

// showNewKind applies a VidraResource whose kind is not served, then the
// CustomResourceDefinition, and shows that the operator, which was the process
// before all this, takes the kind up.
func (t *tour) showNewKind(ctx context.Context, before string) error {
	s := t.custom
	if err := t.apply(ctx, s); err != nil {
		return err
	}
	vr, err := t.cluster.awaitResource(ctx, patience, s.name, "told that its kind is not served", func(vr *v1alpha1.VidraResource) bool {
		ready := readyOf(vr)
		return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonKindUnavailable
	})
	if err != nil {
		return err
	}
	t.Line("VidraResource %s is not ready, %s:", s.name, readyOf(vr).Reason)
	t.Aside("%s", readyOf(vr).Message)
	told := wantedEvent{reason: v1alpha1.ReasonKindUnavailable, regarding: s.live, says: []string{s.objects[0].GetKind()}}
	if _, err := t.cluster.awaitEvent(ctx, told); err != nil {
		return err
	}
	t.Command("kubectl apply --filename config/samples/crd/vlans.yaml")
	if err := t.applyDefinition(ctx); err != nil {
		return err
	}
	start := time.Now()
	if _, err = t.cluster.awaitReady(ctx, s.name); err != nil {
		return err
	}
	t.Line("VidraResource %s is ready and watches it %s after the kind was established:", s.name, duration(time.Since(start)))
	if err := t.showObjects(ctx, s); err != nil {
		return err
	}
	if err := t.showEdit(ctx, edit{
		command: "kubectl edit vlan office", sample: s, kind: s.objects[0].GetKind(),
		path: []string{"spec", "id"}, field: "spec.id",
		patch: `{"spec":{"id":200}}`, patchType: types.MergePatchType, manager: "kubectl-edit",
	}); err != nil {
		return err
	}
	return t.showSame(ctx, before)
}

// showSame shows that the operator was not restarted.
func (t *tour) showSame(ctx context.Context, before string) error {
	now, err := t.same(ctx, before)
	if err != nil {
		return err
	}
	if now == "" {
		t.Line("The operator runs where this tour cannot see whether it was restarted")
		return nil
	}
	t.Line("The operator is %s, as at the start: it was not restarted", now)
	return nil
}

// showStatus shows the columns of the VidraResources, once they count every
// heal. Heals are gathered for some seconds before the status counts them.
func (t *tour) showStatus(ctx context.Context) error {
	for s, heals := range map[*sample]int64{t.web: int64(len(t.edits())), t.custom: 1} {
		what := fmt.Sprintf("told of %d heals", heals)
		_, err := t.cluster.awaitResource(ctx, patience, s.name, what, func(vr *v1alpha1.VidraResource) bool {
			return vr.Status.Drift != nil && vr.Status.Drift.Heals >= heals
		})
		if err != nil {
			return err
		}
	}
	table, err := t.cluster.table(ctx, "/apis/"+v1alpha1.GroupVersion.String()+"/vidraresources")
	if err != nil {
		return err
	}
	ours := map[string]bool{t.web.name: true, t.first.name: true, t.custom.name: true}
	rows := table.rows(func(row row) bool { return ours[row.Metadata.Name] })
	if len(rows) != len(ours)+1 {
		return fmt.Errorf("%d VidraResources are listed instead of %d", len(rows)-1, len(ours))
	}
	t.table(rows)
	return nil
}

// showEvents shows the Events of the samples.
func (t *tour) showEvents(ctx context.Context) error {
	table, err := t.cluster.table(ctx, "/api/v1/events")
	if err != nil {
		return err
	}
	owners := map[types.UID]bool{}
	for _, s := range t.applied {
		owners[s.live.GetUID()] = true
	}
	table.sortByTime()
	rows := table.rows(func(row row) bool {
		return owners[row.InvolvedObject.UID] || row.Related != nil && owners[row.Related.UID]
	})
	if len(rows) < 2 {
		return fmt.Errorf("the Events that were there a moment ago are not listed")
	}
	t.table(rows)
	return nil
}

// showRemoval deletes the VidraResources and waits until all that they applied
// is gone.
func (t *tour) showRemoval(ctx context.Context) error {
	for _, s := range t.applied {
		start := time.Now()
		objects := len(s.objects)
		t.Command("kubectl delete vidraresource " + s.name)
		if err := t.cluster.remove(ctx, s); err != nil {
			return err
		}
		if err := t.cluster.awaitGone(ctx, s); err != nil {
			return err
		}
		t.Line("  All it applied (%d) is gone after %s", objects, duration(time.Since(start)))
	}
	t.applied = nil
	return t.removeDefinition(ctx)
}
