package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// heldLease is a Lease that another replica holds, as the clock of this one saw it.
type heldLease struct {
	// version is the resourceVersion, and renewed the time that the holder wrote.
	version string
	renewed time.Time
	// expires is when this replica may acquire the Lease if it stays unrenewed.
	expires time.Time
}

// Get implements resourcelock.Interface. While another replica holds the Lease, Get returns only
// when the Lease is released or has expired, then without a holder. The elector on its own asks
// every 2 to 4.4 seconds, and no replica would reconcile for so long after a release.
func (l *installationLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for {
		record, raw, err := l.LeaseLock.Get(ctx)
		if err != nil || l.leads.Load() || record.HolderIdentity == "" || record.HolderIdentity == l.Identity() {
			return record, raw, err
		}
		if l.held.renewed.Equal(record.RenewTime.Time) && !time.Now().Before(l.held.expires) {
			record.HolderIdentity = "" // an Update fails if the holder has renewed it in the meantime
			return record, raw, nil
		}
		l.replica.wait()
		if !l.awaitFree(ctx) {
			return record, raw, ctx.Err()
		}
	}
}

// awaitFree reports whether the Lease was released, deleted or left unrenewed for its duration, after it
// waited for that. Otherwise the watch ended, or the right to watch is missing: the elector then asks
// as usual, which also notices that the Lease has expired.
func (l *installationLock) awaitFree(ctx context.Context) bool {
	changes, err := l.watches.Watch(ctx, metav1.SingleObject(l.LeaseMeta))
	if err != nil {
		if !l.unwatched {
			l.log.Info("Cannot watch the Lease: it is read every few seconds instead", "error", err.Error())
		}
		l.unwatched = true
		return false
	}
	l.unwatched = false
	defer changes.Stop()
	return l.follow(ctx, changes.ResultChan())
}

// follow reports whether the Lease became free, until the watch ends.
func (l *installationLock) follow(ctx context.Context, changes <-chan watch.Event) bool {
	expiry := time.NewTimer(time.Until(l.held.expires))
	defer expiry.Stop()
	if l.held.version == "" { // it is not known yet
		expiry.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-expiry.C:
			return true
		case change, open := <-changes:
			lease, is := change.Object.(*coordinationv1.Lease)
			switch {
			case !open, change.Type == watch.Error:
				return false
			case change.Type == watch.Deleted, is && !held(lease):
				return true
			case is && lease.ResourceVersion != l.held.version:
				duration := durationOf(lease)
				l.held = heldLease{version: lease.ResourceVersion, renewed: lease.Spec.RenewTime.Time, expires: time.Now().Add(duration)}
				expiry.Reset(duration)
			}
		}
	}
}

// held reports whether a Lease has a holder that renews it.
func held(lease *coordinationv1.Lease) bool {
	spec := lease.Spec
	return spec.HolderIdentity != nil && *spec.HolderIdentity != "" && spec.RenewTime != nil && spec.LeaseDurationSeconds != nil
}
