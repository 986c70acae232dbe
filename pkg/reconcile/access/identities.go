package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// identityAge is the lifetime of an answer about the identity of a cluster. A URL may lead to another cluster later.
	identityAge = time.Minute
	// identityRetry is the lifetime of a failure, so that the objects of a removal share it.
	identityRetry = 5 * time.Second
	// identityTimeout is the limit of the requests that find out about one object or cluster.
	identityTimeout = 5 * time.Second
)

// Identities finds out which clusters are the same one under several URLs. The identity of a cluster is the UID of its Namespace
// kube-system. The zero value is ready. It is safe for concurrent use.
type Identities struct {
	// known has the last answers, as identity, by the name of the cluster.
	known sync.Map
}

// identity is an answer about a cluster.
type identity struct {
	uid   types.UID
	err   error
	asked time.Time
	// kubeconfig is the digest of the kubeconfig of the request: another kubeconfig may lead to another cluster.
	kubeconfig string
}

// Namespaces is the resource of Namespaces.
var Namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Of returns the identity of a cluster. It fails where Vidra lacks the right to list the Namespace kube-system.
func (x *Identities) Of(ctx context.Context, d Destination) (types.UID, error) {
	last, _ := x.known.Load(d.Name())
	is, found := last.(identity)
	age := identityAge
	if is.err != nil && !apierrors.IsForbidden(is.err) {
		age = identityRetry
	}
	kubeconfig, _ := d.Kubeconfig()
	if found && time.Since(is.asked) < age && is.kubeconfig == kubeconfig {
		return is.uid, is.err
	}
	is = identity{asked: time.Now(), kubeconfig: kubeconfig}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	switch ns, err := GetAsVidra(ctx, d, trigger.ObjectKey{Cluster: d.Name(), GVR: Namespaces, Name: metav1.NamespaceSystem}); {
	case apierrors.IsUnexpectedServerError(err): // a 403 of a proxy shows no right
		is.err = fmt.Errorf("read the Namespace %s: %s", metav1.NamespaceSystem, err.Error())
	case err != nil:
		is.err = fmt.Errorf("read the Namespace %s: %w", metav1.NamespaceSystem, err)
	case ns == nil || ns.GetUID() == "":
		is.err = errors.New("it has no Namespace " + metav1.NamespaceSystem)
	default:
		is.uid = ns.GetUID()
	}
	x.known.Store(d.Name(), is)
	return is.uid, is.err
}

// IsSame reports whether an object of the cluster here is also the object of its name at the destination of another VidraResource, at
// another URL. The identities of the clusters decide; if Vidra lacks the right to read them, the UID of the object does; if the other
// cluster is silent, the recorded identity does. It fails if all of them are unknown. borrow opens that destination, and recorded
// returns the identity of it in the status of its VidraResource; empty if that is unknown, or of another kubeconfig. at is nil where
// borrow fails.
func (x *Identities) IsSame(ctx context.Context, here Destination, key trigger.ObjectKey, live *unstructured.Unstructured,
	borrow func(ctx context.Context) (at Destination, scope cluster.Scope, done func(), err error), recorded func(at Destination) types.UID,
) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	uid, hereErr := x.Of(ctx, here)
	at, scope, done, err := borrow(ctx)
	if err == nil {
		defer done()
		if at.Name() == key.Cluster {
			return true, nil
		}
		there, thereErr := x.Of(ctx, at)
		if hereErr == nil && thereErr == nil {
			return uid == there, nil
		}
		same, readErr := isSameObject(ctx, at, scope, key, live)
		if readErr == nil {
			return same, nil
		}
		err = cmp.Or(thereErr, readErr)
	}
	if there := recorded(at); hereErr == nil && there != "" {
		return there == uid, nil
	}
	return false, err
}

// isSameObject compares the UIDs of the objects of one name in two clusters.
func isSameObject(ctx context.Context, at Destination, scope cluster.Scope, key trigger.ObjectKey, live *unstructured.Unstructured) (bool, error) {
	if ObjectOutOfScope(scope, object.IdentityIn(live)) != nil {
		return false, nil // nothing is applied there
	}
	key.Cluster = at.Name()
	found, err := GetAsVidra(ctx, at, key)
	return found != nil && found.GetUID() == live.GetUID(), err
}

// Forget forgets a cluster.
func (x *Identities) Forget(name string) { x.known.Delete(name) }
