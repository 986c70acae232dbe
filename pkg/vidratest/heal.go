package vidratest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

// visibleWithin is how long a watch may take to show an edit that was answered.
const visibleWithin = 5 * time.Second

// Heal is an edit of an object that was reverted.
type Heal struct {
	Object Object
	// Changes are the fields that the edit changed, with the field manager where the API server records
	// one. Values that are never shown are withheld. Empty if Deleted.
	Changes []ownership.Change
	// Deleted reports that the edit deleted the object.
	Deleted bool
	// Seen is how long it took from the begin of the edit until the watch showed it.
	Seen time.Duration
	// Stood is how long the watch showed the edit.
	Stood time.Duration
}

// NotHealedError is about an object that differed from the wanted one at the end of the time.
type NotHealedError struct {
	Object Object
	// Within is 0 if it differed already before the edit.
	Within time.Duration
	// Changes are the changes that an apply would revert. Deleted reports that the object is absent. Refused is the
	// reason for which the API server would refuse an apply.
	Changes []ownership.Change
	Deleted bool
	Refused string
	// Why are the reasons of the VidraResources for leaving it.
	Why []string
}

// Error names the difference, and the reason, within a line: control characters of the cluster are escaped.
func (e *NotHealedError) Error() string { return terminal.Escape(e.text()) }

func (e *NotHealedError) text() string {
	what := events.Differences(e.Changes)
	switch {
	case e.Deleted:
		what = "it does not exist"
	case e.Refused != "":
		what = strings.TrimPrefix(what+"; the API server refuses an apply: "+e.Refused, "; ")
	}
	if what == "" {
		what = "the fields that Vidra owns are not as before the edit"
	}
	text := fmt.Sprintf("%s is not healed after %s: %s", e.Object, e.Within, what)
	if e.Within == 0 {
		text = fmt.Sprintf("%s is not as wanted before the edit: %s", e.Object, what)
	}
	if len(e.Why) == 0 {
		return text + ": check that the operator runs"
	}
	return text + ": " + strings.Join(e.Why, "; ")
}

// ErrUnchanged is the error of [Cluster.Healed] if the edit changed no field that a VidraResource applies. Additions are
// ignored, whatever spec.drift.additions is.
var ErrUnchanged = errors.New("the edit changed no field that a VidraResource applies")

// Healed makes an edit of an object with one request, and blocks until the edit is reverted. It fails with a
// [*NotHealedError] if the edit stands for longer than within, with ErrUnchanged, and with the error of the
// edit. It fails before the edit if the object differs from the wanted one already.
func (c *Cluster) Healed(ctx context.Context, o Object, within time.Duration, edit func(context.Context) error) (Heal, error) {
	m, err := c.measure(ctx, o, within)
	if err != nil {
		return Heal{Object: o}, err
	}
	defer m.stop()
	before, err := differenceIn(ctx, m.keepers, m.live)
	if err != nil {
		return m.heal, err
	}
	if before.any() {
		return m.heal, m.failed(ctx, before, 0)
	}
	m.wanted = m.live
	editing, cancel := context.WithCancel(ctx)
	made, begin := make(chan error, 1), time.Now()
	var edits sync.WaitGroup
	edits.Go(func() { made <- edit(editing) })
	defer edits.Wait()
	defer cancel()
	return m.follow(ctx, made, begin)
}

// AwaitHealed blocks until an object is as its VidraResources want it, and fails with a [*NotHealedError] if it
// still differs after some time. Stood is how long it waited. An edit must have been made before the call.
func (c *Cluster) AwaitHealed(ctx context.Context, o Object, within time.Duration) (Heal, error) {
	begin := time.Now()
	m, err := c.measure(ctx, o, within)
	if err != nil {
		return Heal{Object: o}, err
	}
	defer m.stop()
	found, err := differenceIn(ctx, m.keepers, m.live)
	m.heal.Changes, m.heal.Deleted = found.changes, found.deleted
	timer := time.NewTimer(time.Until(begin.Add(within)))
	defer timer.Stop()
	for err == nil && found.any() {
		select {
		case <-ctx.Done():
			return m.heal, ctx.Err()
		case <-timer.C:
			return m.heal, m.failed(ctx, found, m.within)
		case event, open := <-m.events:
			m.heal.Stood = time.Since(begin)
			if m.live, err = objectIn(event, open); err == nil {
				found, err = differenceIn(ctx, m.keepers, m.live)
			}
		}
	}
	return m.heal, err
}

// measurement watches one object.
type measurement struct {
	keepers []*keeper
	within  time.Duration
	// live is the object as the watch showed it last, and wanted as it was before the edit.
	live, wanted *unstructured.Unstructured
	events       <-chan watch.Event
	stop         func()
	heal         Heal
	cluster      *Cluster
}

// measure reads an object, and watches it from then on.
func (c *Cluster) measure(ctx context.Context, o Object, within time.Duration) (*measurement, error) {
	if within <= 0 {
		return nil, fmt.Errorf("%s: want a time above 0", within)
	}
	keepers, err := c.keepers(ctx, o)
	if err != nil {
		return nil, err
	}
	m := &measurement{keepers: keepers, within: within, heal: Heal{Object: o}, cluster: c}
	first := keepers[0]
	list, err := first.resource().List(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: first.object.Key.Name}))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", o, err)
	}
	if len(list.Items) > 0 {
		m.live = &list.Items[0]
	}
	w, err := first.resource().Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: first.object.Key.Name, ResourceVersion: list.GetResourceVersion()}))
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", o, err)
	}
	m.events, m.stop = w.ResultChan(), w.Stop
	return m, nil
}

// follow reads events until one shows the object as it was before, after another one has shown the edit,
// and the edit was answered.
func (m *measurement) follow(ctx context.Context, made <-chan error, begin time.Time) (Heal, error) {
	var seen time.Time // of the edit
	var deadline <-chan time.Time
	healed := false
	for made != nil || !healed {
		select {
		case <-ctx.Done():
			return m.heal, ctx.Err()
		case <-deadline:
			return m.late(ctx, seen)
		case err := <-made:
			if err != nil {
				return m.heal, err
			}
			if made = nil; seen.IsZero() {
				deadline = time.After(visibleWithin)
			}
		case event, open := <-m.events:
			now := time.Now()
			live, err := objectIn(event, open)
			if err != nil {
				return m.heal, err
			}
			m.live = live
			switch same := m.asWanted(); {
			case !same && seen.IsZero():
				seen, m.heal.Seen, deadline = now, now.Sub(begin), time.After(m.within)
				m.note()
			case same && !seen.IsZero() && !healed:
				m.heal.Stood, deadline, healed = now.Sub(seen), nil, true
			}
		}
	}
	after, err := differenceIn(ctx, m.keepers, m.live)
	if err == nil && after.any() { // such as what an edit added, if it is not removed
		err = m.failed(ctx, after, m.within)
	}
	return m.heal, err
}

// late is the error of a measurement at the end of its time.
func (m *measurement) late(ctx context.Context, seen time.Time) (Heal, error) {
	if seen.IsZero() {
		return m.heal, fmt.Errorf("%s: %w", m.heal.Object, ErrUnchanged)
	}
	m.heal.Stood = time.Since(seen)
	found, err := differenceIn(ctx, m.keepers, m.live)
	if err == nil {
		err = m.failed(ctx, found, m.within)
	}
	return m.heal, err
}

// asWanted reports whether the fields that the VidraResources own are as before the edit.
func (m *measurement) asWanted() bool {
	if m.live == nil {
		return false
	}
	for _, k := range m.keepers {
		now, recorded := ownership.Of(m.live, k.runner.By.Manager)
		if before, _ := ownership.Of(m.wanted, k.runner.By.Manager); !recorded || now != before {
			return false
		}
	}
	return true
}

// note notes the changes of the edit.
func (m *measurement) note() {
	m.heal.Deleted = m.live == nil
	for _, k := range m.keepers {
		m.heal.Changes = append(m.heal.Changes, ownership.Drift(m.live, m.wanted, k.runner.By.Manager, k.runner.Disclosure(k.object))...)
	}
}

// failed is the error about an object that differs from the wanted one, with the reasons that the VidraResources give now.
func (m *measurement) failed(ctx context.Context, found difference, within time.Duration) error {
	e := &NotHealedError{Object: m.heal.Object, Within: within, Changes: found.changes, Deleted: found.deleted, Refused: found.refused}
	for _, k := range m.keepers {
		vr := k.runner.VR
		if now, err := m.cluster.get(ctx, vr.Name); err == nil {
			vr = now
		}
		e.Why = append(e.Why, obstacles(vr, m.heal.Object, m.cluster.commandLine())...)
	}
	return e
}

// objectIn returns the object of an event of a watch; nil if it was deleted.
func objectIn(event watch.Event, open bool) (*unstructured.Unstructured, error) {
	if !open {
		return nil, errEnded
	}
	live, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		return nil, fmt.Errorf("watch the object: %w", apierrors.FromObject(event.Object))
	}
	if event.Type == watch.Deleted {
		return nil, nil
	}
	return live, nil
}

// isAnswer reports whether an error is an answer of the API server.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}
