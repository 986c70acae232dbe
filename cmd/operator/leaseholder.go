package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// parallelReviews is how many reviews of holders are under way at a time.
const parallelReviews = 16

// identityOf returns the identity of the holder of a Lease. It ends with the name of its ServiceAccount, so that an
// operator in another namespace can ask for the rights of the holder. No name of a ServiceAccount has an underscore.
func identityOf(host, id, account string) string {
	if account == "" {
		return host + "_" + id
	}
	return host + "_" + id + "_" + account
}

// accountIn returns the name of the ServiceAccount in the identity of a holder. Operators of before this format have
// another text there, which names none.
func accountIn(identity string) string { return identity[strings.LastIndex(identity, "_")+1:] }

// ownAccount returns the name of the ServiceAccount of this operator; empty if it runs as another user, or if that
// is unknown.
func ownAccount(config *rest.Config, log logr.Logger) string {
	reviews, err := typedauthenticationv1.NewForConfig(config)
	if err != nil {
		log.Info("Cannot ask for the ServiceAccount of the operator", "error", err.Error())
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewDeadline/2)
	defer cancel()
	self, err := reviews.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		log.Info("Cannot ask for the ServiceAccount of the operator: operators of the same installation in other namespaces do not notice this one", "error", err.Error())
		return ""
	}
	_, name, _ := serviceaccount.SplitUsername(self.Status.UserInfo.Username)
	return name
}

// heldByOperator returns the first of the Leases that the operator of another namespace holds and renews; nil if there
// is none. A user who may write Leases in a namespace needs the right to reconcile VidraResources to forge one. It fails if the rights of a holder
// that renews its Lease are unknown.
func (l *installationLock) heldByOperator(ctx context.Context, looksHeld []*coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := time.Now()
	genuine, unknown := make([]bool, len(looksHeld)), make([]error, len(looksHeld))
	var asked errgroup.Group
	asked.SetLimit(parallelReviews)
	for i, lease := range looksHeld {
		asked.Go(func() error {
			genuine[i], unknown[i] = l.mayReconcile(ctx, lease.Namespace, accountIn(*lease.Spec.HolderIdentity), l.account)
			return nil
		})
	}
	_ = asked.Wait() // no review fails it
	var err error
	for i, lease := range looksHeld {
		switch {
		case !genuine[i] && unknown[i] == nil, !l.renews(lease, now):
		case genuine[i]:
			return lease, nil
		default:
			err = errors.Join(err, unknown[i])
		}
	}
	return nil, err
}

// mayReconcile reports whether one of the ServiceAccounts of a namespace may write the status of VidraResources. Without the right to ask,
// none may. It fails if the API server does not answer.
func (l *installationLock) mayReconcile(ctx context.Context, namespace string, accounts ...string) (may bool, unknown error) {
	for _, account := range accounts {
		if account == "" {
			continue
		}
		review, err := l.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   serviceaccount.MakeUsername(namespace, account),
			Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: v1alpha1.GroupVersion.Group, Resource: "vidraresources", Subresource: "status", Verb: "patch",
			},
		}}, metav1.CreateOptions{})
		switch {
		case err == nil && review.Status.Allowed:
			return true, nil
		case err == nil:
		case object.Unanswered(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err):
			unknown = fmt.Errorf("ask whether an operator of the same installation leads in the namespace %s: %w", namespace, err)
		default:
			l.log.Info("Cannot see whether an operator of the same installation leads in another namespace", "namespace", namespace, "error", err.Error())
		}
	}
	return false, unknown
}

// renews reports whether the holder of a Lease renews it, by the clock of this operator: the times in the Lease may be
// any.
func (l *installationLock) renews(lease *coordinationv1.Lease, now time.Time) bool {
	seen, known := l.seen[lease.Namespace]
	if !known || seen.version != lease.ResourceVersion {
		l.seen[lease.Namespace] = heldLease{version: lease.ResourceVersion, expires: now.Add(abandonedAfter * durationOf(lease))}
		return true
	}
	return now.Before(seen.expires)
}
