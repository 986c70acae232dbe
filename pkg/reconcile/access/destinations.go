package access

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Destinations finds the clusters that objects are applied to. It is safe for concurrent use.
type Destinations struct {
	// Local is the cluster that Vidra runs in.
	Local Destination
	// LocalScope is the part of the local cluster that Vidra may use.
	LocalScope cluster.Scope
	// Remotes are the other clusters; optional.
	Remotes *cluster.Destinations
	// Index relates VidraResources to their clusters.
	Index ClusterIndex
}

// ErrServedByAnother is the error of a VidraResource that starts anew: its server is another cluster now.
var ErrServedByAnother = errors.New("is served by another kubeconfig now")

// Find finds the destination of an owner, and the part of it that Vidra may use. The error wraps cluster.ErrStarting while it
// is unknown whether the cluster can be reached, and ErrServedByAnother if the knowledge about the owner is about another
// cluster.
func (d *Destinations) Find(owner trigger.Owner, server string) (Destination, cluster.Scope, error) {
	if IsLocal(server) {
		return d.Local, d.LocalScope, nil
	}
	if d.Remotes == nil {
		return nil, cluster.Scope{}, fmt.Errorf("the destination %s is another cluster, and this Vidra reads no kubeconfigs: it does not run in a Pod, so that "+
			"--kubeconfig-namespace has to name the namespace of their Secrets", server)
	}
	name, matched, err := d.Remotes.Resolve(server)
	if err != nil {
		return nil, cluster.Scope{}, err
	}
	if at := d.Index.Of(owner); at != "" && at != name {
		if matched {
			return nil, cluster.Scope{}, fmt.Errorf("%s %w: %w", server, ErrServedByAnother, cluster.ErrStarting)
		}
		name = at // its watches continue when there is a kubeconfig again
	}
	if !d.Index.set(owner, name) { // from now on it is not forgotten
		return nil, cluster.Scope{}, fmt.Errorf("%s is being forgotten, because its last VidraResource is gone: %w", server, cluster.ErrStarting)
	}
	remote, err := d.Remotes.Get(name)
	if err != nil {
		return nil, cluster.Scope{}, err
	}
	return remote, remote.Scope(), nil
}

// Borrow returns the cluster at a URL, and the part of it that Vidra may use. The caller must call done. A cluster without
// VidraResources of this operator, as one of another shard, is forgotten then, with forget.
func (d *Destinations) Borrow(server string, forget func(server string)) (at Destination, scope cluster.Scope, done func(), err error) {
	if IsLocal(server) {
		return d.Local, d.LocalScope, func() {}, nil
	}
	if d.Remotes == nil {
		return nil, scope, nil, errors.New("this Vidra reads no kubeconfigs")
	}
	name, _, err := d.Remotes.Resolve(server)
	if err != nil {
		return nil, scope, nil, err
	}
	if remote := d.Remotes.Find(name); remote != nil {
		return remote, remote.Scope(), func() {}, nil
	}
	borrower := trigger.Owner{Namespace: "borrower", Name: strconv.FormatUint(d.Index.borrowers.Add(1), 10)} // no VidraResource has a namespace
	if !d.Index.set(borrower, name) {
		return nil, scope, nil, fmt.Errorf("%s is being forgotten: %w", server, cluster.ErrStarting)
	}
	done = func() { d.Index.Remove(borrower, forget) }
	remote, err := d.Remotes.Get(name)
	if err != nil {
		done()
		return nil, scope, nil, err
	}
	return remote, remote.Scope(), done, nil
}

// Unreachable returns the fault that prevents requests to a destination, or nil. starting reports that it is
// still unknown, and will be known soon.
func Unreachable(d Destination) (why *object.Failure, starting bool) {
	if err := d.Unreachable(); err != nil {
		return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: err.Error()}, errors.Is(err, cluster.ErrStarting)
	}
	if d.MaybeUnreachable() {
		return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: "requests fail"}, true
	}
	return nil, false
}

// IsAway reports whether a cluster is known to be unreachable: a reconcile then sends it no
// request, and occupies no worker. Unknown clusters stay unknown: one would stay known forever if its
// only VidraResource went before its first reconcile.
func (d *Destinations) IsAway(server string) bool {
	if d.Remotes == nil {
		return true
	}
	remote := d.Remotes.Find(server)
	return remote != nil && !Usable(remote)
}
