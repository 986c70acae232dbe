package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// This file makes every client of the packages below pkg/reconcile. A test requires that it is the
// only one: a client that is made elsewhere would evade the rule of --require-service-account.

// Accounts decides as whom Vidra reads and writes for a VidraResource.
type Accounts struct {
	// Cache has the namespaces of the local cluster.
	Cache client.Reader
	// Own is the namespace that Vidra runs in; empty if it is unknown.
	Own string
	// Required refuses VidraResources that lack an account.
	Required bool
	// Impersonated selects the namespaces whose accounts Vidra may impersonate. Nil selects all.
	Impersonated labels.Selector
}

// ClientOf returns the client of a VidraResource at a cluster, for reads and writes, and the user that the client
// impersonates: the ServiceAccount that the VidraResource names, if any. It applies to every request for a VidraResource:
// applies, dry runs, removals, the release of fields, and the reads of spec.manifestFrom.
func (a Accounts) ClientOf(ctx context.Context, vr *v1alpha1.VidraResource, d Destination) (as dynamic.Interface, user string, why *object.Failure) {
	if why := a.Refused(ctx, vr); why != nil {
		return nil, "", why
	}
	if user = UserOf(vr); user == "" {
		return d.Dynamic(), "", nil
	}
	as, err := d.As(user)
	if err != nil {
		return nil, "", &object.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()}
	}
	return as, user, nil
}

// UserOf is the user name of the ServiceAccount that a VidraResource names, or empty.
func UserOf(vr *v1alpha1.VidraResource) string {
	if vr.Spec.ServiceAccountName == "" {
		return ""
	}
	return serviceaccount.MakeUsername(vr.Spec.Destination.Namespace, vr.Spec.ServiceAccountName)
}

// Account is the ServiceAccount that a VidraResource names, as NAMESPACE/NAME, or empty.
func Account(vr *v1alpha1.VidraResource) string {
	if vr.Spec.ServiceAccountName == "" {
		return ""
	}
	return vr.Spec.Destination.Namespace + "/" + vr.Spec.ServiceAccountName
}

// RefusesImpersonation reports whether the API server refused a request because Vidra may not act as its account.
func RefusesImpersonation(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot impersonate")
}

// WithAccount adds the account and the missing right to the refusal to act as a user, as the API server may name the object alone
// (k8s.io/apiserver/pkg/endpoints/filters/impersonation). It returns other errors as they are.
func WithAccount(err error, user string) error {
	if user == "" || !RefusesImpersonation(err) {
		return err
	}
	namespace, name, _ := serviceaccount.SplitUsername(user)
	return fmt.Errorf("%w: grant Vidra the verb impersonate on the ServiceAccount %s in namespace %s", err, name, namespace)
}

// FormerClient returns the client for the removal of objects that a VidraResource applied as an account, NAMESPACE/NAME, that
// has left its spec, and the user that the client impersonates. It follows the rules of ClientOf.
func (a Accounts) FormerClient(ctx context.Context, account string, d Destination) (as dynamic.Interface, user string, why *object.Failure) {
	namespace, name, _ := strings.Cut(account, "/")
	if namespace == "" || name == "" { // otherwise the client would be that of Vidra itself
		return nil, "", &object.Failure{Reason: v1alpha1.ReasonServiceAccountRequired, Message: "the status names no ServiceAccount, but " + account}
	}
	former := &v1alpha1.VidraResource{}
	former.Spec.Destination.Namespace, former.Spec.ServiceAccountName = namespace, name
	return a.ClientOf(ctx, former, d)
}

// Refused refuses all requests for a VidraResource because of the account that it names, or lacks; nil if the account is allowed. With
// --require-service-account, a VidraResource has to name an account that Vidra may act as. The namespaces whose accounts Vidra may impersonate have
// to include the namespace of the account.
func (a Accounts) Refused(ctx context.Context, vr *v1alpha1.VidraResource) *object.Failure {
	in, account := vr.Spec.Destination.Namespace, vr.Spec.ServiceAccountName
	message := ""
	switch {
	case a.Required && account == "":
		message = "this Vidra applies and deletes objects only as a ServiceAccount: set spec.serviceAccountName, and grant that account what it needs"
	case a.Required && (in == metav1.NamespaceSystem || in == a.Own):
		message = "this Vidra acts as no account of the namespace " + in + ", whose rights are those of the cluster: choose one of another namespace"
	case a.Impersonated == nil || account == "":
		return nil
	default:
		namespace, err := a.namespaceOf(ctx, vr)
		if err == nil && a.Impersonated.Matches(labels.Set(namespace.Labels)) {
			return nil
		}
		message = fmt.Sprintf("this Vidra acts as no account of the namespace %s, which does not exist or does not have the labels %s: "+
			"ask the administrators of the cluster to set them", in, a.Impersonated)
	}
	return &object.Failure{Reason: v1alpha1.ReasonServiceAccountRequired, Message: message}
}

// NoNamespace is the error of an account whose Namespace the cache lacks: the apply that wrote its VidraResource may create it.
type NoNamespace struct{ text string }

func (n *NoNamespace) Error() string { return n.text }

// IsNoNamespace reports whether an error is a NoNamespace.
func IsNoNamespace(err error) bool { return errors.As(err, new(*NoNamespace)) }

// MayPatch reports whether the account of a VidraResource may patch an object of the cluster d. It fails with NoNamespace while the Namespace of the
// account is absent. Where Vidra may not impersonate the account, it asks as itself: whether the account has the right is known then, too.
func (a Accounts) MayPatch(ctx context.Context, vr *v1alpha1.VidraResource, d Destination, key trigger.ObjectKey) (bool, error) {
	absent, err := a.lacksNamespace(ctx, vr) // the Namespace may come between this and the next read
	if err != nil {
		return false, err
	}
	client, user, why := a.ClientOf(ctx, vr, d)
	switch {
	case why != nil && absent:
		return false, &NoNamespace{why.Message}
	case why != nil || user == "":
		return why == nil, nil
	}
	right := Subject{Cluster: key.Cluster, User: user}.Right(key, "patch")
	may, err := Allowed(ctx, client, right)
	if apierrors.IsForbidden(err) {
		return AllowedTo(ctx, ReviewsAsVidra(d), right)
	}
	return may, err
}

// lacksNamespace reports whether the cache lacks the Namespace of the account of a VidraResource: it may be new.
func (a Accounts) lacksNamespace(ctx context.Context, vr *v1alpha1.VidraResource) (bool, error) {
	if a.Impersonated == nil || vr.Spec.ServiceAccountName == "" {
		return false, nil
	}
	_, err := a.namespaceOf(ctx, vr)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read the Namespace of ServiceAccount %s: %w", Account(vr), err)
	}
	return err != nil, nil
}

// namespaceOf reads the Namespace of the account of a VidraResource from the cache.
func (a Accounts) namespaceOf(ctx context.Context, vr *v1alpha1.VidraResource) (*metav1.PartialObjectMetadata, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace, a.Cache.Get(ctx, client.ObjectKey{Name: vr.Spec.Destination.Namespace}, namespace)
}

// GetAsVidra reads an object with the rights of Vidra itself; nil if it is absent.
// Its callers report only whether the object exists, or is to be kept. It lists, because
// config/restricted allows Vidra itself only to list and watch.
func GetAsVidra(ctx context.Context, d Destination, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	found, err := d.Dynamic().Resource(key.GVR).Namespace(key.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String(),
	})
	switch {
	case apierrors.IsNotFound(err) && key.GVR.Group != "": // each API server serves the core group: a proxy answered
		return nil, nil //nolint:nilnil // that it does not exist is no error here
	case err != nil:
		return nil, err
	case len(found.Items) == 0:
		return nil, nil //nolint:nilnil // likewise
	}
	return &found.Items[0], nil
}

// ReviewsAsVidra returns the client for questions about rights of Vidra itself, to list and watch: watches are shared, and use
// these rights.
func ReviewsAsVidra(d Destination) dynamic.Interface { return d.Dynamic() }
