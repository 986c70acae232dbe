package reconcile

import (
	"errors"
	"fmt"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// destinations finds the clusters that objects are applied to. It is safe for concurrent use.
type destinations struct {
	local Destination
	// remotes are the other clusters; nil without them.
	remotes  *cluster.Destinations
	clusters *clusterIndex
}

// errServedByAnother is why a VidraResource starts anew: its server is another cluster now.
var errServedByAnother = errors.New("is served by another kubeconfig now")

// find finds the destination of an owner. It returns what the kubeconfig of a remote cluster may
// be used for. The error wraps cluster.ErrStarting while it is not known whether the cluster can
// be reached, and errServedByAnother if what is known of the owner is known of another cluster.
func (d *destinations) find(owner trigger.Owner, server string) (Destination, cluster.Scope, error) {
	if isLocal(server) {
		return d.local, cluster.Scope{}, nil
	}
	if d.remotes == nil {
		return nil, cluster.Scope{}, fmt.Errorf("the destination %s is another cluster, and this Vidra reads no kubeconfigs: it does not run in a Pod, so that "+
			"--kubeconfig-namespace has to name the namespace of their Secrets", server)
	}
	name, matched, err := d.remotes.Resolve(server)
	if err != nil {
		return nil, cluster.Scope{}, err
	}
	if at := d.clusters.of(owner); at != "" && at != name {
		if matched {
			return nil, cluster.Scope{}, fmt.Errorf("%s %w: %w", server, errServedByAnother, cluster.ErrStarting)
		}
		name = at // its watches go on when there is a kubeconfig again
	}
	if !d.clusters.set(owner, name) { // from now on it is not forgotten
		return nil, cluster.Scope{}, fmt.Errorf("%s is being forgotten, because its last VidraResource is gone: %w", server, cluster.ErrStarting)
	}
	remote, err := d.remotes.Get(name)
	if err != nil {
		return nil, cluster.Scope{}, err
	}
	return remote, remote.Scope(), nil
}

// unreachable returns why no request can be sent to a destination; nil if it can. starting
// reports that it is not known yet, and soon will be.
func unreachable(d Destination) (why *failure, starting bool) {
	if err := d.Unreachable(); err != nil {
		return &failure{v1alpha1.ReasonDestinationUnreachable, err.Error()}, errors.Is(err, cluster.ErrStarting)
	}
	if d.MaybeUnreachable() {
		return &failure{v1alpha1.ReasonDestinationUnreachable, "requests fail"}, true
	}
	return nil, false
}

// isAway reports whether a cluster is known not to be reached: a reconcile then sends it no
// request, and occupies no worker. It makes no cluster known: it would never be forgotten if its
// only VidraResource went before its first reconcile.
func (d *destinations) isAway(server string) bool {
	if d.remotes == nil {
		return true
	}
	remote := d.remotes.Find(server)
	return remote != nil && !usable(remote)
}
