package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// liveRounds are rounds in which a ConfigMap gets a new version: on the side of the floor, then on the side of Vidra.
type liveRounds struct {
	// line is the line of the report, and unit the noun of a round.
	line, unit     string
	rounds         int
	pause, timeout time.Duration
	// name returns the name of the ConfigMap of a round.
	name func(round int) string
	// floor and vidra begin the change to a version.
	floor, vidra func(ctx context.Context, round int, version string) error
}

// measureLive measures the time from the begin of each change until a watch shows the version, and the cost of the operator meanwhile.
func (l *lab) measureLive(ctx context.Context, r *report, m liveRounds) error {
	bar := newProgress(m.unit, m.rounds)
	defer bar.end()
	used, mark := readUsage(l.operator.PID), l.env.AuditMark()
	for round := range m.rounds {
		version := fmt.Sprint(round + 1)
		for _, side := range []struct {
			name, namespace string
			change          func(ctx context.Context, round int, version string) error
		}{{floorSide, floorNamespace, m.floor}, {vidraSide, vidraNamespace, m.vidra}} {
			took, err := l.untilVersion(ctx, m.timeout, side.namespace, m.name(round), version, func(ctx context.Context) error { return side.change(ctx, round, version) })
			if err != nil {
				return fmt.Errorf("round %d: %w; see %s", round+1, err, l.operator.Log)
			}
			r.add(m.line, "ms", side.name, took)
		}
		bar.step("round %d of %d", round+1, m.rounds)
		if err := sleep(ctx, m.pause); err != nil {
			return err
		}
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return err
	}
	r.sumUp()
	c := r.cost(vidraSide)
	c.Usage, c.Requests, c.Of, c.Per = readUsage(l.operator.PID).since(used), countRequests(audited, operatorUser), m.rounds, m.unit
	return nil
}

// applyVersion is the floor: one PATCH that gives a ConfigMap a version.
func (l *lab) applyVersion(ctx context.Context, name, version string) error {
	object := corev1ac.ConfigMap(name, floorNamespace).WithData(map[string]string{"version": version})
	return l.client.Apply(ctx, object, client.FieldOwner(floorSide), client.ForceOwnership)
}

// untilVersion returns the milliseconds from the call of change until a watch shows a version of a ConfigMap.
func (l *lab) untilVersion(ctx context.Context, timeout time.Duration, namespace, name, version string, change func(context.Context) error) (ms float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	events, err := l.client.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil {
		return 0, err
	}
	defer events.Stop()
	began := time.Now()
	if err := change(ctx); err != nil {
		return 0, err
	}
	for event := range events.ResultChan() {
		if cm, is := event.Object.(*corev1.ConfigMap); is && event.Type != watch.Deleted && cm.Data["version"] == version {
			return float64(time.Since(began).Microseconds()) / 1000, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("version %s of ConfigMap %s/%s was not seen", version, namespace, name), ctx.Err())
}
